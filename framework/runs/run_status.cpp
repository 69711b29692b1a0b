#include "framework/runs/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <tuple>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/experiment/identity.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/python_file.h"
#include "framework/runs/run_folder.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_reader.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kCellStates[] = {"running",  "queued",       "killed",    "interrupted",
                                            "failed",   "unreadable",   "pending",   "stale",
                                            "skipped",  "incompatible", "no data",   "no plugin",
                                            "diverged", "done",         "superseded"};
constexpr std::size_t kLogLines = 5;

double seconds_since_written(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (error) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - time).count();
}

std::optional<double> time_left(const RunStatus& status, const CellReport& report) {
  if (report.step <= 0 || report.steps < report.step) return std::nullopt;
  // Before the first checkpoint only the age of environment.json tells how long it has trained.
  const double seconds =
      status.step > 0 ? status.seconds : seconds_since_written(report.folder + "/environment.json");
  const auto steps = static_cast<double>(status.step > 0 ? status.step : report.step);
  return seconds / steps * static_cast<double>(report.steps - report.step);
}

/// The plugins' files as they are now, each looked at once.
class PluginFiles {
 public:
  explicit PluginFiles(const Catalogue& catalogue) : catalogue_(catalogue) {}

  /// Empty where the plugin is not installed.
  /// @param run  a folder whose configuration names it
  const std::string& hash(Kind kind, const std::string& name, const std::string& run) {
    const auto found = hashes_.find({kind, name});
    if (found != hashes_.end()) return found->second;
    std::string hash;
    try {
      hash = file_hash(catalogue_.find(kind, name_in_run(name, run)).path);
    } catch (const PluginError&) {  // it is gone
    }
    return hashes_[{kind, name}] = hash;
  }

 private:
  const Catalogue& catalogue_;
  std::map<std::pair<Kind, std::string>, std::string> hashes_;
};

/// A section of a run's configuration.
const Node& part_in(const RunRecord& run, const std::string& kind) {
  const Node* const part = run.config.find(kind);
  if (part == nullptr) {
    throw ConfigError({run.folder + "/config.yaml", 1, 1}, fmt::format("'{}' is missing", kind));
  }
  return *part;
}

/// What has changed since a run was frozen, among what can be seen without opening its data.
std::string changes_since(const IndexedRun& run, PluginFiles& files) {
  const std::optional<Identity>& then = run.details->identity;
  if (!then) return "";
  std::vector<std::string> changes;
  const auto look_at = [&](Kind kind, const std::string& key, const std::string& name) {
    const auto file = then->plugins.find(key);
    if (file == then->plugins.end()) return;
    const std::string& now = files.hash(kind, name, run.record.folder);
    if (now == file->second.hash) return;
    changes.push_back(fmt::format("the file of {} '{}' {}", key, file->second.name,
                                  now.empty() ? "is gone" : "changed"));
  };
  for (const Kind kind : {Kind::model, Kind::attention, Kind::task, Kind::dataset}) {
    const Node& part = part_in(run.record, std::string(name_of(kind)));
    if (kind != Kind::attention) {
      look_at(kind, std::string(name_of(kind)), named_plugin(part));
      continue;
    }
    for (const NamedMechanism& one : mechanisms_in(part)) look_at(kind, one.key, one.name);
  }
  return join(changes, ", ");
}

CellState state_of(RunState state) {
  switch (state) {
    case RunState::running:
      return CellState::killed;  // unless its lock says otherwise
    case RunState::interrupted:
      return CellState::interrupted;
    case RunState::failed:
      return CellState::failed;
    case RunState::diverged:
      return CellState::diverged;
    case RunState::done:
      return CellState::done;
    case RunState::pending:
      break;
  }
  return CellState::pending;
}

bool begins(const std::string& text, const char* word) { return text.rfind(word, 0) == 0; }

/// The launcher's word on a run that no process of this machine holds.
void add_launcher(const std::string& said, CellReport& report) {
  if (!report.unfinished() || report.state == CellState::running) return;
  if (begins(said, "queued")) report.state = CellState::queued;
  if (begins(said, "running")) report.state = CellState::running;
  report.detail = said;
}

CellReport report_of(const IndexedRun& indexed, PluginFiles& files, const std::string& said) {
  const RunRecord& run = indexed.record;
  CellReport report;
  report.experiment = run.experiment;
  report.attention = run.attention;
  report.seed = run.seed;
  report.folder = run.folder;
  report.state = state_of(run.status.state);
  report.detail = run.status.reason;
  report.steps = run.status.steps;
  report.processor_seconds = run.status.processor_seconds;
  report.device_seconds = run.status.device_seconds;
  report.step = std::max(run.status.step, indexed.details->last_step);
  if (const auto holder = holder_of(run.folder)) {
    report.state = CellState::running;
    report.detail = holder->text();
  } else if (!said.empty()) {
    add_launcher(said, report);
  } else if (report.state == CellState::killed) {
    report.detail = "its process is gone; it goes on from its last checkpoint";
  }
  if (report.state == CellState::running) report.seconds_left = time_left(run.status, report);
  if (report.state == CellState::failed || report.state == CellState::killed) {
    report.log = join(last_lines(run.folder + "/log.txt", kLogLines), "\n");
  }
  if (report.state == CellState::running || report.state == CellState::queued) return report;
  const std::string changes = changes_since(indexed, files);
  if (changes.empty() || report.state == CellState::pending) return report;
  report.detail = changes + (report.state == CellState::done ? "" : "; it was ") +
                  (report.state == CellState::done ? "" : std::string(name_of(report.state)));
  report.state = CellState::stale;
  return report;
}

/// Suites' records; a damaged one is a note.
std::vector<SuiteRecord> read_suites(const std::vector<std::string>& folders,
                                     std::vector<std::string>& notes) {
  std::vector<SuiteRecord> suites;
  for (const std::string& folder : folders) {
    try {
      if (auto suite = read_suite(folder)) suites.push_back(std::move(*suite));
    } catch (const Error& damage) {
      notes.push_back(std::string("the record of a suite cannot be read: ") + damage.what());
    }
  }
  return suites;
}

CellReport unreadable_report(const Unreadable& one) {
  CellReport report;
  report.state = CellState::unreadable;
  report.folder = one.folder;
  report.detail = one.reason;
  if (const auto cell = one.cell()) {
    report.experiment = cell->experiment;
    report.attention = cell->attention;
    report.seed = cell->seed;
  }
  return report;
}

/// What a suite says of the runs in its folder.
class SuiteRuns {
 public:
  explicit SuiteRuns(const SuiteRecord& suite) : own_(suite.runs.begin(), suite.runs.end()) {
    own_.insert(suite.tries.begin(), suite.tries.end());
    for (const AbsentCell& cell : suite.absent) {
      if (cell.gap.kind != Absence::stale) continue;
      stale_.emplace(RunFolder(cell.folder).place(), cell.gap.reason);  // the first counts
    }
  }

  /// The run that it has given up for a newer one, or says to be stale.
  void apply(CellReport& report) const {
    const std::string place = RunFolder(report.folder).place();
    if (own_.count(place) > 0) return;
    const auto stale = stale_.find(place);
    const bool is_stale = stale != stale_.end();
    report.state = is_stale ? CellState::stale : CellState::superseded;
    report.detail = is_stale ? stale->second
                             : "of another configuration, plugin or data than its suite has now";
  }

 private:
  std::set<std::string> own_;
  std::map<std::string, std::string> stale_;  // reasons, by the run's place
};

using Suites = std::map<std::string, SuiteRuns>;  // by folder

/// The nearest one; null where none is.
const SuiteRuns* suite_around(const std::string& run, const Suites& suites) {
  if (suites.empty()) return nullptr;
  for (std::string around = folder_above(run); !around.empty(); around = folder_above(around)) {
    const auto suite = suites.find(around);
    if (suite != suites.end()) return &suite->second;
  }
  return nullptr;
}

/// Of a cell without a run.
CellState state_of(Absence kind) {
  switch (kind) {
    case Absence::skipped:
      return CellState::skipped;
    case Absence::no_data:
      return CellState::no_data;
    case Absence::no_plugin:
      return CellState::no_plugin;
    case Absence::pending:  // this and the next two: `tune` has not chosen the cell's value
      return CellState::pending;
    case Absence::failed:
      return CellState::failed;
    case Absence::diverged:
      return CellState::diverged;
    default:
      return CellState::incompatible;
  }
}

void add_absent(const SuiteRecord& suite, std::vector<CellReport>& cells) {
  for (const AbsentCell& cell : suite.absent) {
    if (cell.gap.kind == Absence::stale) continue;  // its folder is among the runs
    CellReport report;
    report.experiment = cell.experiment;
    report.attention = cell.attention;
    report.seed = cell.seed;
    report.detail = cell.gap.reason;
    report.state = state_of(cell.gap.kind);
    cells.push_back(std::move(report));
  }
}

/// A run that no suite is around.
struct LoneRun {
  std::string configuration;  ///< the hash of it
  RunStart start;
};
using LoneRuns = std::map<std::size_t, LoneRun>;  // by the place of their cells

/// Without a suite: of runs with one configuration and seed, the one begun last counts.
void supersede_older(std::vector<CellReport>& cells, const LoneRuns& lone) {
  struct Last {
    CellReport* cell = nullptr;
    RunStart start;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t, std::string>, Last> last;
  for (const auto& [place, run] : lone) {
    CellReport& cell = cells[place];
    const auto& [configuration, start] = run;
    Last& known = last[{cell.experiment, cell.attention, cell.seed, configuration}];
    CellReport* older = known.cell;
    if (known.cell == nullptr || known.start < start) {
      known = {&cell, start};
    } else {
      older = &cell;
    }
    if (older == nullptr) continue;
    older->state = CellState::superseded;
    older->detail = "a later run has its configuration";
  }
}

/// What was found of the runs. Their records are not kept: a cell is what is shown of one.
struct FoundRuns {
  std::vector<CellReport> cells;
  LoneRuns lone;
  std::vector<std::string> damaged;     ///< notes on evaluations that cannot be read
  std::vector<std::string> not_finite;  ///< notes on runs that are done
  Revisions revisions;                  ///< of those
};

/// What must be known of a run that is done before its numbers are used.
void take_notes(const RunRecord& done, FoundRuns& seen) {
  seen.revisions.add(done);
  const std::vector<std::string> names = done.not_finite();
  if (names.empty()) return;
  seen.not_finite.push_back(fmt::format("{}: done, with values that are not finite: {}",
                                        done.label(), join(names, ", ")));
}

/// @param said  what the launcher says of it
void add_run(const IndexedRun& run, const std::string& said, PluginFiles& files,
             const Suites& suites, FoundRuns& seen) {
  CellReport cell = report_of(run, files, said);
  const SuiteRuns* suite = suite_around(cell.folder, suites);
  const auto& identity = run.details->identity;
  if (suite != nullptr && cell.state != CellState::running) suite->apply(cell);
  for (const std::string& file : run.record.damaged) {
    seen.damaged.push_back("an evaluation cannot be read: " + file);
  }
  if (cell.state == CellState::done) take_notes(run.record, seen);
  if (suite == nullptr && identity) {
    seen.lone[seen.cells.size()] = {identity->configuration, run.details->start};
  }
  seen.cells.push_back(std::move(cell));
}

/// @param launcher  what it says of run folders
FoundRuns look_at(const std::vector<std::string>& runs, RunReader& reader,
                  const Catalogue& catalogue, const std::map<std::string, std::string>& launcher,
                  const Suites& suites, std::vector<Unreadable>& unreadable) {
  std::error_code error;
  std::map<std::string, std::string> said;
  for (const auto& [path, text] : launcher) said[fs::weakly_canonical(path, error).string()] = text;
  PluginFiles files(catalogue);
  FoundRuns seen;
  const auto lost = [&](const Unreadable& one) { unreadable.push_back(one); };
  const auto take = [&](IndexedRun&& run) {
    const auto word = said.find(run.record.folder);
    try {
      add_run(run, word == said.end() ? "" : word->second, files, suites, seen);
    } catch (const Error& damage) {
      lost({run.record.folder, damage.what()});
    }
  };
  reader.read(runs, /*closely=*/true, take, lost);
  return seen;
}

}  // namespace

std::string_view name_of(CellState state) { return kCellStates[static_cast<std::size_t>(state)]; }

StatusReport status_of(const std::string& folder, const Catalogue& catalogue,
                       const std::map<std::string, std::string>& launcher) {
  const FoundFolders found = search_folders(folder);
  StatusReport report;
  report.folder = folder;
  const std::vector<SuiteRecord> suites = read_suites(found.suites, report.notes);
  std::vector<Unreadable> unreadable = found.unreadable;
  RunReader reader({folder});
  Suites around;
  for (const SuiteRecord& suite : suites) around.emplace(suite.folder, suite);
  FoundRuns seen = look_at(found.runs, reader, catalogue, launcher, around, unreadable);
  reader.keep();
  report.cells = std::move(seen.cells);
  if (report.cells.empty()) {
    throw DataError(fmt::format("no run can be read; the first of {}: {}", unreadable.size(),
                                unreadable.front().text()));
  }
  for (const Unreadable& one : unreadable) report.cells.push_back(unreadable_report(one));
  for (const SuiteRecord& suite : suites) {
    add_absent(suite, report.cells);
    report.notes.insert(report.notes.end(), suite.notes.begin(), suite.notes.end());
  }
  supersede_older(report.cells, seen.lone);
  std::stable_sort(report.cells.begin(), report.cells.end(), [](const auto& a, const auto& b) {
    const bool a_old = a.state == CellState::superseded, b_old = b.state == CellState::superseded;
    return std::tie(a_old, a.experiment, a.attention, a.seed) <
           std::tie(b_old, b.experiment, b.attention, b.seed);
  });
  for (const CellReport& cell : report.cells) ++report.counts[cell.state];
  for (const auto* notes : {&seen.damaged, &seen.not_finite}) {
    report.notes.insert(report.notes.end(), notes->begin(), notes->end());
  }
  if (const auto note = seen.revisions.note()) report.notes.push_back(*note);
  return report;
}

}  // namespace attnlab
