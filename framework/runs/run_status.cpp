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
#include "framework/runs/evaluations.h"
#include "framework/runs/run_folder.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_records.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kCellStates[] = {"running",  "queued",       "killed",    "interrupted",
                                            "failed",   "unreadable",   "pending",   "stale",
                                            "skipped",  "incompatible", "no data",   "no plugin",
                                            "diverged", "done",         "superseded"};
constexpr std::size_t kLogLines = 5;

/// The last step that metrics.jsonl has; status.json is only as new as the last checkpoint.
std::int64_t last_step(const std::string& run_folder) {
  for (const std::string& line : last_lines(run_folder + "/metrics.jsonl", 1)) {
    const json entry = json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    try {
      return entry.value("step", std::int64_t{0});
    } catch (
        const json::exception&) {  // of another hand: no whole number, or one that does not fit
      continue;
    }
  }
  return 0;
}

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

/// What has changed since a run was frozen, among what can be seen without opening its data.
std::string changes_since(const RunRecord& run, const Catalogue& catalogue) {
  const auto then = read_identity(run.folder);
  if (!then) return "";
  std::vector<std::string> changes;
  for (const Kind kind : {Kind::model, Kind::attention, Kind::task, Kind::dataset}) {
    const std::string key(name_of(kind));
    const auto file = then->plugins.find(key);
    if (file == then->plugins.end()) continue;
    try {
      const Candidate& plugin = catalogue.find(kind, run.config.at(key).at("use").text());
      if (file_hash(plugin.path) == file->second.hash) continue;
      changes.push_back(fmt::format("the file of {} '{}' changed", key, file->second.name));
    } catch (const PluginError&) {
      changes.push_back(fmt::format("the file of {} '{}' is gone", key, file->second.name));
    }
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

CellReport report_of(const RunRecord& run, const Catalogue& catalogue, const std::string& said) {
  CellReport report;
  report.experiment = run.experiment;
  report.attention = run.attention;
  report.seed = run.seed;
  report.folder = run.folder;
  report.state = state_of(run.status.state);
  report.detail = run.status.reason;
  report.steps = run.status.steps;
  report.step = std::max(run.status.step, last_step(run.folder));
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
  const std::string changes = changes_since(run, catalogue);
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

/// What must be known of the runs that are done before their numbers are used.
void add_notes(const std::vector<RunRecord>& done, std::vector<std::string>& notes) {
  for (const RunRecord& run : done) {
    const std::vector<std::string> names = run.not_finite();
    if (names.empty()) continue;
    notes.push_back(fmt::format("{}: done, with values that are not finite: {}", run.label(),
                                join(names, ", ")));
  }
  if (const auto note = revisions_note(done)) notes.push_back(*note);
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

const SuiteRecord* suite_around(const std::string& run, const std::vector<SuiteRecord>& suites) {
  const SuiteRecord* nearest = nullptr;
  for (const SuiteRecord& suite : suites) {
    if (run.rfind(suite.folder + "/", 0) != 0) continue;
    if (nearest == nullptr || suite.folder.size() > nearest->folder.size()) nearest = &suite;
  }
  return nearest;
}

/// The run that a suite has given up for a newer one, or says to be stale.
void apply_suite(const SuiteRecord& suite, CellReport& report) {
  const std::string place = RunFolder(report.folder).place();
  if (std::count(suite.runs.begin(), suite.runs.end(), place) > 0) return;
  for (const AbsentCell& cell : suite.absent) {
    if (cell.gap.kind != Absence::stale || RunFolder(cell.folder).place() != place) continue;
    report.state = CellState::stale;
    report.detail = cell.gap.reason;
    return;
  }
  report.state = CellState::superseded;
  report.detail = "of another configuration, plugin or data than its suite has now";
}

void add_absent(const SuiteRecord& suite, std::vector<CellReport>& cells) {
  for (const AbsentCell& cell : suite.absent) {
    if (cell.gap.kind == Absence::stale) continue;  // its folder is among the runs
    CellReport report;
    report.experiment = cell.experiment;
    report.attention = cell.attention;
    report.seed = cell.seed;
    report.detail = cell.gap.reason;
    report.state = cell.gap.kind == Absence::skipped     ? CellState::skipped
                   : cell.gap.kind == Absence::no_data   ? CellState::no_data
                   : cell.gap.kind == Absence::no_plugin ? CellState::no_plugin
                                                         : CellState::incompatible;
    cells.push_back(std::move(report));
  }
}

/// Without a suite: of runs with one configuration and seed, the one begun last counts.
void supersede_older(std::vector<CellReport>& cells, const std::set<std::string>& lone) {
  struct Last {
    CellReport* cell = nullptr;
    RunStart start;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t, std::string>, Last> last;
  for (CellReport& cell : cells) {
    if (lone.count(cell.folder) == 0) continue;
    const auto identity = read_identity(cell.folder);
    if (!identity) continue;
    Last& known = last[{cell.experiment, cell.attention, cell.seed, identity->configuration}];
    const RunStart start = RunFolder(cell.folder).start();
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

/// What was found of the runs.
struct Seen {
  std::vector<CellReport> cells;
  std::set<std::string> lone;  ///< folders of runs that no suite is around
  std::vector<RunRecord> done;
  std::vector<std::string> notes;  ///< on evaluations that cannot be read
};

/// @throws Error where the run cannot be read.
void add_run(const std::string& path, const std::string& said, const Catalogue& catalogue,
             const std::vector<SuiteRecord>& suites, Seen& seen) {
  RunRecord run = read_run(path);
  static_cast<void>(read_identity(path));  // what is damaged is found here
  CellReport cell = report_of(run, catalogue, said);
  const SuiteRecord* suite = suite_around(path, suites);
  if (suite == nullptr) seen.lone.insert(path);
  if (suite != nullptr && cell.state != CellState::running) apply_suite(*suite, cell);
  for (const std::string& file : read_evaluations(path).damaged) {
    seen.notes.push_back("an evaluation cannot be read: " + file);
  }
  if (cell.state == CellState::done) seen.done.push_back(std::move(run));
  seen.cells.push_back(std::move(cell));
}

}  // namespace

std::string_view name_of(CellState state) { return kCellStates[static_cast<std::size_t>(state)]; }

StatusReport status_of(const std::string& folder, const Catalogue& catalogue,
                       const std::map<std::string, std::string>& launcher) {
  const FoundFolders found = search_folders(folder);
  std::error_code error;
  std::map<std::string, std::string> said;
  for (const auto& [path, text] : launcher) said[fs::weakly_canonical(path, error).string()] = text;
  StatusReport report;
  report.folder = folder;
  const std::vector<SuiteRecord> suites = read_suites(found.suites, report.notes);
  Seen seen;
  std::vector<Unreadable> unreadable = found.unreadable;
  for (const std::string& path : found.runs) {
    try {
      const auto word = said.find(path);
      add_run(path, word == said.end() ? "" : word->second, catalogue, suites, seen);
    } catch (const Error& damage) {
      unreadable.push_back({path, damage.what()});
    }
  }
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
  report.notes.insert(report.notes.end(), seen.notes.begin(), seen.notes.end());
  add_notes(seen.done, report.notes);
  return report;
}

}  // namespace attnlab
