#include "framework/runs/source_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/experiment/compositions.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/stored_run.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The file of a run's weights, which may be gone; empty where the run is not done, or not of the
/// configuration that `init` means with the same attention.
std::string weights_of(const RunFolder& candidate, const Experiment& of,
                       const Catalogue& catalogue) {
  try {
    if (!candidate.exists() || candidate.status().state != RunState::done) return "";
    const Experiment source = candidate.experiment(catalogue);
    const bool meant = source.hash_without_attention() == of.init->configuration &&
                       canonical_text(source.resolved.at("attention")) ==
                           canonical_text(of.resolved.at("attention"));
    return meant ? weights_file(source, candidate) : "";
  } catch (const Error&) {
    return "";  // of a plugin that is not here, or damaged: nothing to begin with
  }
}

/// "SEED-HASH", whose hash is the identity's.
std::string identity_name(const RunFolder& folder) {
  return fs::path(folder.path()).filename().string();
}

std::string change_of_run(const Experiment& experiment, const json& began,
                          const std::optional<RunFolder>& source) {
  const RunFolder then(fs::path(began.value("path", "")).parent_path().string());
  if (!source || then.path().empty() || identity_name(then) == identity_name(*source)) return "";
  return fmt::format("it began with {}, and the run of '{}' is {} by now", then.place(),
                     experiment.init->experiment, source->place());
}

std::string change_of_map(const std::string& name, const json& began) {
  if (name.empty() || !began.contains("map")) return "";
  try {
    if (began.at("map") == file_hash(find_composition(name, "maps"))) return "";
  } catch (const Error&) {  // the map is gone: nothing to compare it with
    return "";
  }
  return fmt::format("the map '{}' of init.map changed since it began", name);
}

}  // namespace

std::optional<RunFolder> source_run(const Experiment& experiment, std::int64_t seed,
                                    const RunFolder& folder, const Catalogue& catalogue) {
  if (!experiment.init || experiment.init->experiment.empty()) return std::nullopt;
  const fs::path own = folder.path();
  const fs::path root =
      (own.has_filename() ? own : own.parent_path()).parent_path().parent_path().parent_path();
  std::error_code error;
  // A stored result, which has no weights, is the last choice. (One that was made here and lost
  // them is not a reason to begin with another: whoever begins with it is told which file is
  // missing.)
  std::map<std::pair<bool, RunStart>, RunFolder> found;
  for (const auto& place : fs::directory_iterator(root, error)) {
    for (const auto& entry :
         fs::directory_iterator(place.path() / experiment.attention.label, error)) {
      if (!entry.path().filename().string().starts_with(fmt::format("{}-", seed))) continue;
      const RunFolder candidate(entry.path().string());
      if (weights_of(candidate, experiment, catalogue).empty()) continue;
      found.emplace(std::pair(!is_restored(candidate.path()), candidate.start()), candidate);
    }
  }
  if (found.empty()) return std::nullopt;
  return found.rbegin()->second;
}

std::string source_change(const Experiment& experiment, const RunFolder& folder,
                          const std::optional<RunFolder>& source) {
  if (!experiment.init) return "";
  try {
    const json environment = parsed_json_file(folder.file("environment.json"));
    const json began = environment.value("init", json::object());
    std::vector<std::string> changes;
    for (const std::string& change :
         {change_of_run(experiment, began, source), change_of_map(experiment.init->map, began)}) {
      if (!change.empty()) changes.push_back(change);
    }
    return join(changes, ", ");
  } catch (const json::exception&) {  // damaged, which is told elsewhere
  } catch (const Error&) {            // not begun
  }
  return "";
}

}  // namespace attnlab
