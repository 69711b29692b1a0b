#include "runner/tested_plugin.h"

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/experiment/compositions.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

const Part& part_of_kind(const Experiment& experiment, Kind kind) {
  switch (kind) {
    case Kind::attention:
      return experiment.attention;
    case Kind::model:
      return experiment.model;
    case Kind::task:
      return experiment.task;
    default:
      return experiment.dataset;
  }
}

bool is_called(const Manifest& manifest, const std::string& word) {
  return word == manifest.name || word == manifest.id ||
         word == fmt::format("{}/{}", name_of(manifest.kind), manifest.name);
}

}  // namespace

const Candidate& find_plugin(const Catalogue& catalogue, const std::string& word) {
  if (is_python_name(word)) return python_file(parse_python_name(word)).candidate;
  std::vector<const Candidate*> found;
  std::vector<std::string> names;
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    for (const Candidate* plugin : catalogue.usable(kind)) {
      const Manifest& manifest = *plugin->manifest;
      names.push_back(manifest.name);
      if (is_called(manifest, word)) found.push_back(plugin);
    }
  }
  if (found.size() == 1) {  // by its name only where no refused one has that name too
    const Manifest& own = *found.front()->manifest;
    return catalogue.find(own.kind, word == own.id ? own.id : own.name);
  }
  if (found.size() > 1) {
    throw PluginError(fmt::format("'{0}' is the name of several plugins; write {1}/{0} or {2}/{0}",
                                  word, name_of(found[0]->manifest->kind),
                                  name_of(found[1]->manifest->kind)));
  }
  for (const Candidate& candidate : catalogue.candidates()) {  // it is there, and refused
    if (candidate.manifest && !candidate.refused.empty() && is_called(*candidate.manifest, word)) {
      throw PluginError(candidate.refused);
    }
  }
  for (const Candidate& candidate : catalogue.candidates()) {
    if (candidate.refused.empty()) continue;
    for (const char* ending : {".so", ".py"}) {
      if (candidate.path.find(fmt::format("/{}{}", word, ending)) == std::string::npos) continue;
      throw PluginError(candidate.refused);
    }
  }
  throw PluginError(fmt::format("there is no plugin '{}'{}", word, suggestion(word, names)));
}

TestedPlugin tested_plugin(const std::string& path, const Words& overrides,
                           const std::string& experiment) {
  TestedPlugin tested{Catalogue::of_file(path), {}, {}};
  const Kind kind = tested.manifest().kind;
  if (experiment.empty()) {
    tested.part = part_of(kind, tested.manifest().id, options_from(overrides), tested.catalogue);
    return tested;
  }
  const std::string key(name_of(kind));
  const Candidate& own = tested.catalogue.candidates().front();
  const bool by_file = is_python_name(own.path) && own.manifest->python_class.empty();
  const std::string path_or_name = by_file ? own.path : own.manifest->name;
  Words changes = {fmt::format("{}.use={}", key, path_or_name)};
  for (const std::string& change : overrides) changes.push_back(fmt::format("{}.{}", key, change));
  tested.experiment = load_experiment(find_composition(experiment, "experiments"), changes,
                                      Catalogue::with_file(path));
  tested.part = part_of_kind(*tested.experiment, kind);
  return tested;
}

}  // namespace attnlab
