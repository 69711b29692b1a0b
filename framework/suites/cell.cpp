#include "framework/suites/cell.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "framework/base/text.h"
#include "framework/runs/run_lock.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// A run of the same configuration and seed that was begun with other plugin files, data or
/// framework.
struct EarlierRun {
  RunFolder folder;
  RunStatus status;
  std::string changes;  ///< "the file of attention 'quest' changed"; empty: none that counts
  bool other_revision = false;  ///< that is all
};

/// The last begun of them (RunStart), one without changes that count before all others.
/// @throws DataError.
std::optional<EarlierRun> earlier_run(const Cell& cell) {
  const fs::path place = fs::path(cell.folder.path()).parent_path();
  const std::string prefix = fmt::format("{}-", cell.seed);
  std::optional<EarlierRun> last;
  RunStart last_start;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    if (entry.path().filename().string().rfind(prefix, 0) != 0) continue;
    const RunFolder folder(entry.path().string());
    const auto identity = read_identity(folder.path());
    if (!folder.exists() || !identity) continue;
    if (identity->configuration != cell.identity.configuration) continue;
    const std::vector<std::string> changes = changes_between(*identity, cell.identity);
    const RunStatus status = folder.status();
    const bool counts = identity->framework != cell.identity.framework || !changes.empty();
    if (!counts || status.state == RunState::pending) continue;
    const RunStart start = folder.start();
    const bool better =
        last && changes.empty() != last->changes.empty() ? changes.empty() : start > last_start;
    if (last && !better) continue;
    const bool other_revision =
        changes.size() == 1 && !framework_change(*identity, cell.identity).empty();
    last = EarlierRun{folder, status, join(changes, ", "), other_revision};
    last_start = start;
  }
  return last;
}

/// Decides on a cell whose own folder is not there. @returns false where the run that is there
/// instead counts as its own.
bool decide_by_earlier(Cell& cell, const Rerun& rerun) {
  const auto earlier = earlier_run(cell);
  if (!earlier) return true;
  const bool finished = earlier->status.finished();
  if (earlier->changes.empty()) {  // accepted before
    cell.folder = earlier->folder;
    return false;
  }
  if (finished && earlier->other_revision && rerun.accept_revision) {
    cell.folder = earlier->folder;
    cell.other_revision = true;
    return false;
  }
  if (rerun.stale || (earlier->status.state == RunState::failed && rerun.failed)) return true;
  cell.action = CellAction::stale;
  cell.other_revision = finished && earlier->other_revision;
  cell.reason = earlier->changes;
  if (!finished) cell.reason += "; it was " + std::string(name_of(earlier->status.state));
  cell.folder = earlier->folder;
  return true;
}

void decide_one(Cell& cell, const Rerun& rerun) {
  cell.action = CellAction::run;
  cell.reason.clear();
  cell.other_revision = false;
  // A folder of a run that just begins has its lock alone.
  const bool is_new = !cell.folder.exists() && !holder_of(cell.folder.path());
  if (is_new && decide_by_earlier(cell, rerun)) return;
  const RunStatus status = cell.folder.status();
  if (status.finished()) {
    cell.action = CellAction::finished;
  } else if (const auto holder = holder_of(cell.folder.path())) {
    cell.action = CellAction::busy;
    cell.reason = "is being run by " + holder->text();
  } else if (status.state == RunState::failed && !rerun.failed) {
    cell.action = CellAction::failed;
    cell.reason = status.reason;
  }
}

}  // namespace

Rerun parse_rerun(const std::vector<std::string>& words) {
  Rerun rerun;
  for (const std::string& list : words) {
    std::istringstream parts(list);
    for (std::string word; std::getline(parts, word, ',');) {
      if (word != "failed" && word != "stale") {
        throw ConfigError(fmt::format("--rerun: '{}' is not a kind of run{}", word,
                                      suggestion(word, {"failed", "stale"})));
      }
      (word == "failed" ? rerun.failed : rerun.stale) = true;
    }
  }
  return rerun;
}

Cell make_cell(Experiment experiment, std::int64_t seed, const std::string& root,
               const std::string& data) {
  Identity identity = identity_of(experiment, data);
  const RunFolder folder = RunFolder::of(root, experiment, seed, identity);
  return {std::move(experiment), seed, folder, std::move(identity), CellAction::run, "", false};
}

void identify(std::vector<Cell>& cells, const std::string& root, const DataOf& data_of) {
  std::map<std::string, std::string> known;
  for (Cell& cell : cells) {
    const std::string section = canonical_text(cell.experiment.resolved.at("dataset"));
    const auto found = known.find(section);
    const std::string data =
        found != known.end() ? found->second : known[section] = data_of(cell.experiment);
    cell.identity.data = data;
    cell.folder = RunFolder::of(root, cell.experiment, cell.seed, cell.identity);
  }
}

void decide(std::vector<Cell>& cells, const Rerun& rerun) {
  for (Cell& cell : cells) decide_one(cell, rerun);
}

void record_accepted(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    if (cell.action != CellAction::finished || !cell.other_revision) continue;
    const RunLock lock(cell.folder.path());
    accept_revision(cell.folder.path(), cell.identity.framework);
  }
}

void clear_failure(const RunFolder& folder) {
  if (folder.status().state != RunState::failed) return;
  const RunLock lock(folder.path());
  RunStatus status = folder.status();
  if (status.state != RunState::failed) return;  // another process went on with it meanwhile
  std::error_code error;
  const bool begun = fs::exists(folder.file("checkpoint.safetensors"), error);
  status.state = begun ? RunState::interrupted : RunState::pending;
  status.reason.clear();
  folder.write_status(status);
}

}  // namespace attnlab
