#include "framework/runs/kept_python.h"

#include <filesystem>

#include "framework/base/files.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

void add_class(Kind kind, const Node& section, std::vector<NamedClass>& out) {
  if (is_python(section)) {
    const Node* const options = section.is_map() ? section.find("options") : nullptr;
    NamedClass one{kind, python_name(section), options == nullptr ? Node() : *options};
    if (!one.name.file.empty()) out.push_back(std::move(one));
  }
  const Node* const layers = section.is_map() ? section.find("layers") : nullptr;
  if (kind != Kind::attention || layers == nullptr) return;
  for (const auto& [key, layer] : layers->entries()) add_class(kind, layer, out);
}

/// @param parts  a map of sections
void add_classes(const Node& parts, std::vector<NamedClass>& out) {
  for (const Kind kind : {Kind::attention, Kind::model, Kind::dataset}) {
    const Node* const section = parts.is_map() ? parts.find(name_of(kind)) : nullptr;
    if (section != nullptr) add_class(kind, *section, out);
  }
}

}  // namespace

std::vector<NamedClass> classes_in(const Node& config) {
  std::vector<NamedClass> all;
  add_classes(config, all);
  const Node* const evaluate = config.is_map() ? config.find("evaluate") : nullptr;
  if (evaluate == nullptr) return all;
  for (const auto& [name, entry] : evaluate->entries()) {
    const Node* const set = entry.is_map() ? entry.find("set") : nullptr;
    if (set != nullptr) add_classes(*set, all);
  }
  return all;
}

void keep_python_files(const Experiment& experiment, const std::string& folder) {
  std::vector<const PythonFile*> files;
  for (const Part* part : experiment.parts()) {
    if (names_file(*part)) files.push_back(&python_file(parse_python_name(part->path)));
  }
  for (const NamedClass& one : classes_in(experiment.resolved)) {
    // Parts have their whole paths above; entries of `evaluate` are named as the run keeps them.
    if (const PythonFile* file = kept_python_file(one.name)) files.push_back(file);
  }
  for (const PythonFile* file : files) {
    const fs::path kept = (fs::path(folder) / file->kept_name()).parent_path();
    for (const std::string& source : file->sources) {
      const fs::path copy = kept / source;
      fs::create_directories(copy.parent_path());
      write_file(copy.string(), read_text(file->folder + "/" + source));
    }
  }
}

}  // namespace attnlab
