#include "framework/manifest/python_file.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/base/sha256.h"
#include "framework/base/text.h"

#ifndef ATTNLAB_PYTHON_PROGRAM
#define ATTNLAB_PYTHON_PROGRAM ""
#endif

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kInterpreter = "ATTNLAB_PYTHON";
constexpr const char* kKeptBelow = "python/";

struct Told {
  int exit_code = -1;
  std::string text;  ///< output and errors
};

Told run_python(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  std::FILE* const pipe = ::popen((join(quoted, " ") + " 2>&1 </dev/null").c_str(), "re");
  if (pipe == nullptr) throw Error("no process can be started to read a Python file");
  Told told;
  char buffer[4096];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    told.text.append(buffer, count);
  }
  const int status = ::pclose(pipe);
  if (status >= 0 && WIFEXITED(status)) told.exit_code = WEXITSTATUS(status);
  return told;
}

using AnyKind = std::optional<Kind>;

std::string text_of(AnyKind kind) { return kind ? std::string(name_of(*kind)) : ""; }

/// What the reader says of a file.
json read_with_python(const PythonName& name, AnyKind kind) {
  const std::string reader =
      Installation::of_this_program().root + "/share/attnlab/python/attnlab/_plugin_file.py";
  const std::string python = python_program();
  const Told told = run_python({python, "-I", "-B", reader, name.file, name.name, text_of(kind)});
  try {
    json said = parsed_json(told.text);
    if (said.is_object()) return said;
  } catch (const json::exception&) {  // told below
  }
  const bool no_program = told.exit_code == 126 || told.exit_code == 127;
  throw PluginError(fmt::format(
      "{}: {} cannot read it: {}; {}", name.file, python, one_line(told.text),
      no_program ? fmt::format("install python3, or name an interpreter in {}", kInterpreter)
                 : fmt::format("Python 3.9 or newer is needed ({} names one)", kInterpreter)));
}

std::int64_t written_at(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? -1 : static_cast<std::int64_t>(time.time_since_epoch().count());
}

/// What a file is, as far as it changes when its contents do.
std::string state_of(const std::string& path) {
  std::error_code error;
  return fmt::format("{} {}", written_at(path), fs::file_size(path, error));
}

std::string states_of(const PythonFile& file) {
  std::string states;
  for (const std::string& source : file.sources) {
    states += state_of(file.folder + "/" + source) + ";";
  }
  return states;
}

/// Where the class's own options stand: they are a group of the schema.
Schema* class_options(Manifest& manifest) {
  const auto found =
      std::find_if(manifest.options.begin(), manifest.options.end(),
                   [](const OptionSpec& option) { return option.type == OptionSpec::Type::group; });
  return found == manifest.options.end() ? nullptr : &found->options;
}

/// Defaults carry the place where they are declared.
void note_places(const json& said, const std::string& path, Manifest& manifest) {
  Schema* const options = class_options(manifest);
  if (options == nullptr) return;
  const json& group = said.at("options").back().at("options");
  for (std::size_t i = 0; i < options->size(); ++i) {
    const json& place = group.at(i).at("place");
    (*options)[i].default_value.set_place({path, place.at(0).get<int>(), place.at(1).get<int>()});
  }
}

PythonFile read(const PythonName& name, AnyKind kind) {
  json said = read_with_python(name, kind);
  if (const auto error = said.find("error"); error != said.end()) {
    const Place place{error->at(0).get<std::string>(), error->at(1).get<int>(),
                      error->at(2).get<int>()};
    throw PluginError(fmt::format("{}: {}", place.str(), error->at(3).get<std::string>()));
  }
  PythonFile file;
  file.folder = fs::path(name.file).parent_path().string();
  file.sources = said.at("sources").get<std::vector<std::string>>();
  file.versions = said.at("versions").get<std::map<std::string, std::string>>();
  std::string all;
  for (const std::string& source : file.sources) {
    all += source + '\0' + sha256_text_of_file(file.folder + "/" + source) + '\n';
  }
  file.contents = sha256_text(all);
  for (const json& one : said.at("outside")) {
    const Place place{one.at(0).get<std::string>(), one.at(1).get<int>(), one.at(2).get<int>()};
    file.outside.push_back(fmt::format("{}: {}", place.str(), one.at(3).get<std::string>()));
  }
  const bool attention = said.at("kind").get<std::string>() == name_of(Kind::attention);
  file.candidate.path =
      attention ? name.text() : PythonName{name.file, said.at("class").get<std::string>()}.text();
  try {
    if (said.at("version") == "") said["version"] = file.contents.substr(0, 8);
    Manifest manifest = parse_manifest(said.dump());
    note_places(said, name.file, manifest);
    file.candidate.manifest = std::move(manifest);
  } catch (const Error& error) {  // of a name or a range that no option can have
    throw PluginError(fmt::format("{}: {}", name.file, error.what()));
  }
  return file;
}

/// Files that were read, as they were.
class ReadFiles {
 public:
  const PythonFile& of(const PythonName& name, AnyKind kind) {
    const std::lock_guard lock(mutex_);
    const std::string key = key_of(name, kind);
    const auto known = newest_.find(key);
    if (known != newest_.end() && states_of(*known->second) == states_.at(known->second)) {
      return *known->second;
    }
    auto file = std::make_unique<PythonFile>(read(name, kind));
    const PythonFile* const kept = file.get();
    all_.push_back(std::move(file));
    newest_[key] = kept;
    // Who asks again by what was found gets the same, and starts no Python for it.
    newest_[key_of(name, kept->candidate.manifest->kind)] = kept;
    newest_[key_of(parse_python_name(kept->candidate.path), kept->candidate.manifest->kind)] = kept;
    states_[kept] = states_of(*kept);
    // As a run's configuration calls it: the same file, wherever it lies.
    const PythonName again{kept->kept_name(), name.name};
    by_kept_name_[key_of(again, kind)] = by_kept_name_[key_of(again, std::nullopt)] = kept;
    return *kept;
  }
  /// Null where none was read that is kept under that name, or it is another one by now.
  const PythonFile* kept(const PythonName& name, AnyKind kind) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_kept_name_.find(key_of(name, kind));
    if (found == by_kept_name_.end()) return nullptr;
    return states_of(*found->second) == states_.at(found->second) ? found->second : nullptr;
  }

  static ReadFiles& of_this_process() {
    static ReadFiles files;
    return files;
  }

 private:
  static std::string key_of(const PythonName& name, AnyKind kind) {
    return text_of(kind) + " " + name.text();
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PythonFile>> all_;
  std::map<std::string, const PythonFile*> newest_;
  std::map<const PythonFile*, std::string> states_;
  std::map<std::string, const PythonFile*> by_kept_name_;
};

}  // namespace

std::string PythonFile::kept_name() const {
  constexpr std::size_t kDigits = 16;
  return fmt::format("{}{}/{}", kKeptBelow, contents.substr(0, kDigits), sources.front());
}

std::string PythonFile::identity() const {
  std::string all = contents;
  for (const auto& [package, version] : versions) all += fmt::format(";{}={}", package, version);
  return hex(fingerprint(all));
}

const PythonFile& python_file(const PythonName& name, AnyKind kind) {
  ReadFiles& files = ReadFiles::of_this_process();
  std::error_code error;
  const fs::path path = fs::absolute(name.file, error).lexically_normal();
  if (!fs::is_regular_file(path, error)) {
    if (const PythonFile* kept = files.kept(name, kind)) return *kept;
    throw PluginError(fmt::format("{}: there is no such file", name.file));
  }
  return files.of({path.string(), name.name}, kind);
}

const PythonFile* kept_python_file(const PythonName& name) {
  return ReadFiles::of_this_process().kept(name, std::nullopt);
}

PythonName located_name(const Node& section) {
  PythonName name = python_name(section);
  const fs::path file = name.file;
  const Node* said = section.is_map() ? section.find("file") : &section;
  if (said == nullptr) said = section.find("use");
  std::error_code error;
  if (file.empty() || file.is_absolute() ||
      !fs::is_regular_file(said->place().file.text(), error)) {
    return name;
  }
  const fs::path near = fs::path(said->place().file.text()).parent_path() / file;
  // What a resolved configuration calls a file is not a path from where it was named first.
  const bool elsewhere = name.file.starts_with(kKeptBelow) && !fs::exists(near, error);
  if (!elsewhere) name.file = fs::absolute(near, error).lexically_normal().string();
  return name;
}

std::string name_in_run(const std::string& name, const std::string& run_folder) {
  if (!is_python_name(name)) return name;
  const PythonName python = parse_python_name(name);
  if (kept_python_file(python) != nullptr) return name;
  return PythonName{(fs::path(run_folder) / python.file).string(), python.name}.text();
}

std::string declared_at(const PythonFile& file, const OptionSpec& option) {
  const Place& place = option.default_value.place();
  return place.file == parse_python_name(file.candidate.path).file ? place.str() : "";
}

std::string python_program() {
  const char* const given = std::getenv(kInterpreter);
  if (given != nullptr && *given != '\0') return given;
  const std::string built = ATTNLAB_PYTHON_PROGRAM;
  std::error_code error;
  return !built.empty() && fs::exists(built, error) ? built : "python3";
}

std::string python_library() {
  std::string path = Installation::of_this_program().root + "/lib/attnlab/attnlab_python.so";
  if (is_there(path)) return path;
  throw PluginError(
      "this attnlab was built without Python; install the packages python3-torch, python3-dev and "
      "pybind11-dev (scripts/setup.sh does it on Debian), and build it again");
}

}  // namespace attnlab
