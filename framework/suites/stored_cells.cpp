#include "framework/suites/stored_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "framework/base/add_once.h"
#include "framework/base/text.h"
#include "framework/config/frozen.h"
#include "framework/experiment/evaluations.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/suites/dependency_levels.h"

namespace attnlab {
namespace {

using StoredKey = std::tuple<std::string, std::string, std::int64_t>;

StoredKey stored_key_of(const Cell& cell) {
  return {cell.experiment.name, cell.experiment.attention.label, cell.seed};
}

std::string label_of(const StoredKey& key) {
  return fmt::format("{}/{}/{}", std::get<0>(key), std::get<1>(key), std::get<2>(key));
}

/// By cell. What cannot be read is noted, and the rest goes on.
std::map<StoredKey, std::vector<StoredRun>> read_all(const std::vector<std::string>& folders,
                                                     StoredUse& use) {
  std::map<StoredKey, std::vector<StoredRun>> all;
  for (const std::string& folder : folders) {
    for (const std::string& file : stored_files(folder, use.damaged)) {
      try {
        StoredRun run = read_stored(file);
        ++use.files;
        all[{run.experiment, run.attention, run.seed}].push_back(std::move(run));
      } catch (const Error& damage) {
        use.damaged.emplace_back(damage.what());
      }
    }
  }
  return all;
}

/// Experiments that others of the suite begin with.
std::set<std::string> sources_of(const Suite& suite) {
  std::set<std::string> names;
  for (const auto& [name, source] : sources_in(suite.cells)) names.insert(source);
  return names;
}

/// "task attnlab/image_attack".
std::string kind_and_id(const Part& part) {
  return std::string(name_of(part.kind)) + " " + part.id;
}

/// The version of a plugin that an evaluation was made with; empty where it is not known.
std::string version_then(const StoredRun& run, const std::string& entry, const Part& part) {
  const std::string key = kind_and_id(part);
  const auto of_entry = run.entries.find(entry);
  if (of_entry == run.entries.end()) return "";
  for (const PluginVersions* known : {&of_entry->second, &run.judges}) {
    if (const auto found = known->find(key); found != known->end()) return found->second;
  }
  const auto own = std::find_if(run.plugins.begin(), run.plugins.end(), [&](const auto& one) {
    return one.first.starts_with(name_of(part.kind)) && one.second.id == part.id;
  });
  return own != run.plugins.end() ? own->second.version : "";
}

/// "task attnlab/image_attack is 1.1.0, was 1.0.0"; empty where the versions agree.
std::string change_of(const Part& part, const std::string& then, const Catalogue& catalogue) {
  const std::string& now = catalogue.find(part.kind, lookup_name(part)).manifest->version;
  if (then == now) return "";
  if (then.empty()) return fmt::format("the version of {} is not known", kind_and_id(part));
  return fmt::format("{} is {}, was {}", kind_and_id(part), now, then);
}

/// What has changed of the plugins that judged its epochs.
void add_judges(const StoredRun& run, const Cell& cell, const Catalogue& catalogue,
                std::vector<std::string>& out) {
  for (const Part& judge : cell.experiment.judges) {
    const auto found = run.judges.find(kind_and_id(judge));
    const std::string change =
        change_of(judge, found == run.judges.end() ? "" : found->second, catalogue);
    if (!change.empty()) out.push_back("what judges its epochs: " + change);
  }
}

/// What keeps a record from standing for an entry: other settings, or other versions of plugins.
std::vector<std::string> changes_of(const StoredRun& run, const EvaluationRecord& record,
                                    const EvaluationEntry& entry, const Catalogue& catalogue) {
  if (const std::string change = settings_change(record, entry); !change.empty()) return {change};
  std::vector<std::string> out;
  for (const Part* part : entry.experiment.parts()) {
    const std::string change = change_of(*part, version_then(run, entry.name, *part), catalogue);
    if (!change.empty()) add_once(out, change);
  }
  return out;
}

void add_versions(const StoredRun& run, const Cell& cell, const Catalogue& catalogue,
                  std::vector<std::string>& out) {
  for (const Part* part : cell.experiment.parts()) {
    const std::string key = section_key(*part);
    const Manifest& now = *catalogue.find(part->kind, lookup_name(*part)).manifest;
    const auto then = run.plugins.find(key);
    if (then == run.plugins.end()) {
      out.push_back(fmt::format("the version of its {} is not known", key));
    } else if (then->second.id != now.id || then->second.version != now.version) {
      out.push_back(fmt::format("{} is {} {}, was {} {}", key, now.id, now.version, then->second.id,
                                then->second.version));
    }
  }
}

/// Evaluations of other settings or plugins than the cell's would be now.
/// @param missing  those that are not there count, too
std::vector<std::string> evaluation_changes(const StoredRun& made_with,
                                            const std::vector<EvaluationRecord>& records,
                                            const Cell& cell, const Catalogue& catalogue,
                                            bool missing) {
  std::vector<std::string> out;
  const std::vector<EvaluationEntry> entries = evaluations_of(cell.experiment, catalogue);
  for (const EvaluationEntry& entry : entries) {
    const EvaluationRecord* record = result_of(records, entry.name);
    if (record == nullptr) {
      if (missing) out.push_back("it has no evaluation '" + entry.name + "'");
      continue;
    }
    const auto changes = changes_of(made_with, *record, entry, catalogue);
    if (changes.empty()) continue;
    out.push_back(fmt::format("evaluation '{}': {}", entry.name, join(changes, ", ")));
  }
  for (const std::string& group : means_left(entries, records)) {
    if (result_of(records, group) == nullptr) {
      if (missing) out.push_back("it has no evaluation '" + group + "'");
      continue;
    }
    out.push_back(fmt::format("evaluation '{}': it is the mean of other points", group));
  }
  return out;
}

/// Whether a stored configuration is the cell's once defaults of younger options are filled in, as
/// they are in the cell's.
bool same_configuration(const StoredRun& run, const Cell& cell, const Catalogue& catalogue) {
  if (run.identity.configuration == cell.identity.configuration) return true;
  try {
    const Node config = frozen_tree(run.config, run.file);
    return frozen_experiment(config, catalogue, run.experiment).hash() ==
           cell.identity.configuration;
  } catch (const Error&) {  // one of its options does not exist any more
    return false;
  }
}

/// "the framework's numbers are of version 2, were of 1"; empty where they agree.
std::string numbers_change(const StoredRun& run) {
  if (run.numbers == kNumbersVersion) return "";
  if (run.numbers == kUnknownNumbers) {
    return fmt::format("of which version the framework's numbers were is not known (now {})",
                       kNumbersVersion);
  }
  return fmt::format("the framework's numbers are of version {}, were of {}", kNumbersVersion,
                     run.numbers);
}

/// Whether a stored run may stand for a cell as things are: it has no run of its own.
bool wants_stored(const Cell& cell) {
  if (cell.action == CellAction::run) return !cell.folder.exists();
  return cell.action == CellAction::stale && !stored_source(cell.folder.path()).empty();
}

/// The cell's, with the revision that the numbers are of.
Identity identity_for(const StoredRun& run, const Cell& cell) {
  Identity identity = cell.identity;
  if (run.identity.framework == identity.framework) return identity;
  identity.framework = run.identity.framework;
  identity.accepted = {cell.identity.framework};
  return identity;
}

/// Named by what the result is of, as a run is that was made here and accepted later.
RunFolder folder_for(const StoredRun& run, const Cell& cell, const Suite& suite) {
  return RunFolder::of(suite.folder, cell.experiment, cell.seed, identity_for(run, cell));
}

/// Whether a run lies there that no stored result may take the place of.
bool is_made_here(const RunFolder& folder) {
  return folder.exists() && stored_source(folder.path()).empty();
}

void remove_folder(const std::string& folder) {
  remove_restored(folder);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) throw FileError(fmt::format("{}: cannot remove it: {}", folder, error.message()));
}

}  // namespace

std::vector<std::string> differences_to(const StoredRun& run, const Cell& cell,
                                        const Catalogue& catalogue, bool& other_numbers) {
  std::vector<std::string> out;
  const Identity &then = run.identity, &now = cell.identity;
  if (!same_configuration(run, cell, catalogue)) out.emplace_back("the configuration changed");
  if (then.data.empty() || now.data.empty()) {
    out.emplace_back("the data's fingerprint is not known");
  } else if (then.data != now.data) {
    out.push_back(fmt::format("the data of dataset '{}' differ", cell.experiment.dataset.name));
  }
  add_versions(run, cell, catalogue, out);
  add_judges(run, cell, catalogue, out);
  // A run that diverged is finished, and is evaluated nowhere.
  const bool evaluated = run.status.state == RunState::done;
  if (out.empty() && evaluated) {
    out = evaluation_changes(run, run.evaluations, cell, catalogue, /*missing=*/true);
  }
  const std::string numbers = numbers_change(run);
  other_numbers = !numbers.empty();
  if (other_numbers) out.push_back(numbers);
  return out;
}

void check_restored(Suite& suite, const Catalogue& catalogue, bool again, bool dry_run) {
  for (Cell& cell : suite.cells) {
    if (cell.action != CellAction::finished) continue;
    const std::string folder = cell.folder.path();
    const auto made_with = stored_plugins(folder);
    if (!made_with) continue;  // made here: it has weights, and is evaluated again
    const auto changes = evaluation_changes(*made_with, read_evaluations(folder).records, cell,
                                            catalogue, /*missing=*/false);
    if (changes.empty()) continue;
    cell.action = again ? CellAction::run : CellAction::stale;
    cell.reason = again ? "" : "a stored result; " + join(changes, ", ");
    if (!again) continue;
    cell.folder = RunFolder::of(suite.folder, cell.experiment, cell.seed, cell.identity);
    if (!dry_run) remove_folder(folder);
  }
}

StoredUse find_stored(const Suite& suite, const Catalogue& catalogue, bool accept_revision) {
  StoredUse use;
  const std::map<StoredKey, std::vector<StoredRun>> all = read_all(suite.stored, use);
  if (all.empty()) return use;
  const std::set<std::string> sources = sources_of(suite);
  for (std::size_t i = 0; i < suite.cells.size(); ++i) {
    const Cell& cell = suite.cells[i];
    const auto found = all.find(stored_key_of(cell));
    if (found == all.end() || !wants_stored(cell)) continue;
    if (sources.count(cell.experiment.name) > 0) continue;
    std::string why;
    double seconds = 0;
    bool matched = false, acceptable = false, made_here = false;
    for (const StoredRun& run : found->second) {
      bool other_numbers = false;
      const auto differences = differences_to(run, cell, catalogue, other_numbers);
      const bool by_word = other_numbers && differences.size() == 1;
      matched = differences.empty() || (accept_revision && by_word);
      if (matched && is_made_here(folder_for(run, cell, suite))) {
        made_here = true;  // it is run anew, as was asked for
        matched = false;
        continue;
      }
      if (matched) use.matches.push_back({i, run, other_numbers});
      if (matched) break;
      // Of several, the one that a word would make count is the nearest.
      if (!acceptable) {
        why = join(differences, ", ");
        seconds = run.status.seconds;
      }
      acceptable = acceptable || by_word;
    }
    if (matched || made_here) continue;
    if (cell.action == CellAction::stale) continue;  // which says why by itself
    use.refused.push_back(fmt::format("{}: {}", label_of(found->first), why));
    use.acceptable += acceptable ? 1 : 0;
    use.refused_seconds += seconds;
  }
  return use;
}

std::string refusal_warning(const StoredUse& use) {
  const std::size_t refused = use.refused.size();
  if (refused <= use.matches.size()) return "";
  std::string text = fmt::format("{} of {} stored runs do not count here, and their cells are run",
                                 refused, refused + use.matches.size());
  if (use.refused_seconds > 0) {
    text +=
        fmt::format("; that took {} where they were made, one after the other, without evaluations",
                    duration(use.refused_seconds));
  }
  if (use.acceptable == 0) {
    return text + ". --accept-revision does not help: more than the framework's numbers differs";
  }
  return text + fmt::format(
                    ". --accept-revision counts {} of them, in which the version of the "
                    "framework's numbers alone differs",
                    use.acceptable);
}

void use_stored(const StoredUse& use, Suite& suite) {
  for (const StoredUse::Match& match : use.matches) {
    Cell& cell = suite.cells[match.cell];
    const RunFolder folder = folder_for(match.run, cell, suite);
    if (!stored_source(folder.path()).empty()) remove_folder(folder.path());
    restore(match.run, folder, cell.experiment, identity_for(match.run, cell));
    cell.folder = folder;
    cell.action = CellAction::finished;
  }
}

}  // namespace attnlab
