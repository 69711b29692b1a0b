#include "framework/suites/stored_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/evaluations.h"

namespace attnlab {
namespace {

using Key = std::tuple<std::string, std::string, std::int64_t>;

Key key_of(const Cell& cell) {
  return {cell.experiment.name, cell.experiment.attention.label, cell.seed};
}

std::string label_of(const Key& key) {
  return fmt::format("{}/{}/{}", std::get<0>(key), std::get<1>(key), std::get<2>(key));
}

/// By cell. What cannot be read is noted, and the rest goes on.
std::map<Key, std::vector<StoredRun>> read_all(const std::vector<std::string>& folders,
                                               StoredUse& use) {
  std::map<Key, std::vector<StoredRun>> all;
  for (const std::string& folder : folders) {
    for (const std::string& file : stored_files(folder)) {
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
  for (const Cell& cell : suite.cells) {
    const auto& init = cell.experiment.init;
    if (init && !init->experiment.empty()) {
      names.insert(std::filesystem::path(init->experiment).stem().string());
    }
  }
  return names;
}

void add_versions(const StoredRun& run, const Cell& cell, const Catalogue& catalogue,
                  std::vector<std::string>& out) {
  const Experiment& experiment = cell.experiment;
  for (const Part* part :
       {&experiment.model, &experiment.attention, &experiment.task, &experiment.dataset}) {
    const std::string kind(name_of(part->kind));
    const Manifest& now = *catalogue.find(part->kind, part->id).manifest;
    const auto then = run.plugins.find(kind);
    if (then == run.plugins.end()) {
      out.push_back(fmt::format("the version of its {} is not known", kind));
    } else if (then->second.id != now.id || then->second.version != now.version) {
      out.push_back(fmt::format("{} is {} {}, was {} {}", kind, now.id, now.version,
                                then->second.id, then->second.version));
    }
  }
}

void add_missing_evaluations(const StoredRun& run, const Cell& cell, const Catalogue& catalogue,
                             std::vector<std::string>& out) {
  for (const EvaluationEntry& entry : evaluations_of(cell.experiment, catalogue)) {
    const auto found = std::find_if(
        run.evaluations.begin(), run.evaluations.end(), [&](const EvaluationRecord& record) {
          return record.entry == entry.name && record.split == entry.options.split &&
                 canonical_text(parse_yaml(record.set, run.file)) == canonical_text(entry.set);
        });
    if (found == run.evaluations.end()) out.push_back("it has no evaluation '" + entry.name + "'");
  }
}

/// The cell's, with the revision that the numbers are of.
Identity identity_for(const StoredUse::Match& match, const Cell& cell) {
  Identity identity = cell.identity;
  if (!match.other_revision) return identity;
  identity.framework = match.run.identity.framework;
  identity.accepted = {cell.identity.framework};
  return identity;
}

}  // namespace

std::vector<std::string> differences_to(const StoredRun& run, const Cell& cell,
                                        const Catalogue& catalogue, bool& other_revision) {
  std::vector<std::string> out;
  const Identity &then = run.identity, &now = cell.identity;
  if (then.configuration != now.configuration) out.emplace_back("the configuration changed");
  if (then.data.empty() || now.data.empty()) {
    out.emplace_back("the data's fingerprint is not known");
  } else if (then.data != now.data) {
    out.push_back(fmt::format("the data of dataset '{}' differ", cell.experiment.dataset.name));
  }
  add_versions(run, cell, catalogue, out);
  // A run that diverged is finished, and is evaluated nowhere.
  const bool evaluated = run.status.state == RunState::done;
  if (out.empty() && evaluated) add_missing_evaluations(run, cell, catalogue, out);
  const std::string framework = framework_change(then, now);
  other_revision = !framework.empty();
  if (other_revision) out.push_back(framework);
  return out;
}

StoredUse find_stored(const Suite& suite, const Catalogue& catalogue, bool accept_revision) {
  StoredUse use;
  const std::map<Key, std::vector<StoredRun>> all = read_all(suite.stored, use);
  if (all.empty()) return use;
  const std::set<std::string> sources = sources_of(suite);
  for (std::size_t i = 0; i < suite.cells.size(); ++i) {
    const Cell& cell = suite.cells[i];
    const auto found = all.find(key_of(cell));
    if (cell.action != CellAction::run || cell.folder.exists() || found == all.end()) continue;
    if (sources.count(cell.experiment.name) > 0) continue;
    std::string why;
    bool matched = false;
    for (const StoredRun& run : found->second) {
      bool other_revision = false;
      const auto differences = differences_to(run, cell, catalogue, other_revision);
      matched =
          differences.empty() || (accept_revision && other_revision && differences.size() == 1);
      if (matched) use.matches.push_back({i, run, other_revision});
      if (matched) break;
      why = join(differences, ", ");
    }
    if (!matched) use.refused.push_back(fmt::format("{}: {}", label_of(found->first), why));
  }
  return use;
}

void use_stored(const StoredUse& use, Suite& suite) {
  for (const StoredUse::Match& match : use.matches) {
    Cell& cell = suite.cells[match.cell];
    const Identity identity = identity_for(match, cell);
    // Named by what it is of, as a run is that was made here and accepted later.
    const RunFolder folder = RunFolder::of(suite.folder, cell.experiment, cell.seed, identity);
    restore(match.run, folder, cell.experiment, identity);
    cell.folder = folder;
    cell.action = CellAction::finished;
  }
}

}  // namespace attnlab
