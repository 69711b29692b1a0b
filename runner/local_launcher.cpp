#include "runner/local_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "framework/base/cores.h"
#include "framework/base/foreign_text.h"
#include "framework/base/launched.h"
#include "framework/base/threads.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/run_lock.h"
#include "runner/fork_server.h"
#include "runner/process.h"

namespace attnlab {
namespace {

/// Lets several threads report to one sink.
class SharedProgress final : public ProgressSink {
 public:
  explicit SharedProgress(ProgressSink& sink) : sink_(sink) {}
  void report(const ProgressEvent& event) override {
    const std::lock_guard lock(mutex_);
    sink_.report(event);
  }
  void say(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    sink_.say(text);
  }

 private:
  std::mutex mutex_;
  ProgressSink& sink_;
};

/// What a run's process said on its way, and how it ended.
struct Outcome {
  ProcessResult process;
  bool reported_end = false;
  std::vector<ProgressEvent> failures;  ///< ends of runs that failed; kept from the reader
};

/// Whether a run says that it failed. Its launcher tells that itself, with the run's log, or runs
/// it again.
bool is_failure(const ProgressEvent& event) {
  return event.kind == ProgressEvent::Kind::end && event.text.starts_with("failed: ");
}

/// Why a run that came to no result did not, for its record.
std::string cause_of(const ProcessResult& result, const std::string& log) {
  if (result.signal != 0) {
    std::string cause = signal_text(result.signal);
    if (result.signal == SIGKILL) {
      cause += "; unless somebody killed it, the machine's memory ran out and the kernel did";
    }
    if (result.peak_memory == 0) return cause;
    return fmt::format("{}; it held up to {} of memory", cause,
                       memory_text(static_cast<double>(result.peak_memory)));
  }
  const std::string last = log_tail(log, 1);
  return last.empty()
             ? fmt::format("ended with exit code {} and without a result", result.exit_code)
             : last;
}

/// What a run recorded; nothing where the record is damaged, which is one of the ways to fail.
RunStatus last_status(const RunFolder& folder) {
  try {
    return folder.status();
  } catch (const DataError&) {
    return {};
  }
}

/// Cells that one process runs: several are trained together.
using Unit = std::vector<const LaunchedCell*>;

/// @param most    cells of one unit
/// @param places  units that run at once; cells that could be one unit are spread over them
std::vector<Unit> units_of(const std::vector<LaunchedCell>& cells, std::int64_t most,
                           std::int64_t places) {
  std::map<std::string, Unit> together;
  for (const LaunchedCell& cell : cells) {
    if (!cell.ensemble.empty()) together[cell.ensemble].push_back(&cell);
  }
  // As many units as the places can run in whole rounds, so that none waits for another.
  const auto size_of = [&](const Unit& all) {
    const auto count = static_cast<std::int64_t>(all.size());
    const std::int64_t rounds = (count + most * places - 1) / (most * places);
    return static_cast<std::size_t>((count + rounds * places - 1) / (rounds * places));
  };
  std::vector<Unit> units;
  std::map<std::string, std::size_t> open;  // the unit that a key's next cell goes to
  for (const LaunchedCell& cell : cells) {
    const auto found = open.find(cell.ensemble);
    if (!cell.ensemble.empty() && found != open.end() &&
        units[found->second].size() < size_of(together[cell.ensemble])) {
      units[found->second].push_back(&cell);
      continue;
    }
    open[cell.ensemble] = units.size();
    units.push_back({&cell});
  }
  return units;
}

/// Where runs are carried out one after the other.
struct RunPlace {
  RunPlace(std::size_t index, std::int64_t threads)
      : environment{{"OMP_NUM_THREADS", std::to_string(threads)},
                    {kRunPlace, std::to_string(index)}},
        server(environment) {}

  std::map<std::string, std::string> environment;
  ForkServer server;
};

/// One call of `launch`.
class LocalLaunch {
 public:
  LocalLaunch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
              ProgressSink& progress)
      : units_(units_of(cells, options.ensemble, std::max<std::int64_t>(1, options.jobs))),
        options_(options),
        progress_(progress) {}

  void run() {
    const auto count = static_cast<std::int64_t>(units_.size());
    if (count == 0) return;
    const std::int64_t places = std::clamp<std::int64_t>(options_.jobs, 1, count);
    const std::vector<int> cores = usable_cores();
    const std::vector<CoreShare> shares = share_cores(cores, core_quota(), places, most_threads());
    shares_load_ = count > places;
    tell(shares, cores.size());
    start(shares);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// Returns when all work is done. @throws ThreadError, once what has begun has ended.
  void start(const std::vector<CoreShare>& shares) {
    std::vector<std::jthread> workers;  // joined on every way out
    try {
      for (std::size_t i = 0; i < shares.size(); ++i) {
        workers.push_back(start_thread([this, i, &share = shares[i]] { work(i, share); }));
      }
    } catch (const ThreadError&) {
      stop_.stop();
      throw;
    }
  }

  void tell(const std::vector<CoreShare>& shares, std::size_t cores) {
    if (shares.size() < 2) return;
    const std::string runs = fmt::format("{} runs side by side on {}{}", shares.size(), cores,
                                         cores == 1 ? " core" : " cores");
    if (shares[0].cores.empty()) {
      progress_.say(runs + ": more runs than cores, each with one thread; they share the time");
    } else {
      progress_.say(fmt::format("{}: {}{}", runs, shares[0].threads,
                                shares[0].threads == 1 ? " thread each" : " threads each"));
    }
  }

  /// @param index  of the place among those side by side
  void work(std::size_t index, const CoreShare& share) {
    try {
      bind_this_thread(share.cores);  // the runs that this thread starts inherit it
      RunPlace place(index, share.threads);
      for (std::size_t i = next_++; i < units_.size(); i = next_++) {
        if (interrupted() || stop_.stopped()) return;
        if (units_[i].size() > 1 && run_together(units_[i], place)) continue;
        for (const LaunchedCell* cell : units_[i]) {
          if (interrupted() || stop_.stopped()) return;
          if (!last_status(cell->folder).finished()) run_cell(*cell, place);
        }
      }
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
      stop_.stop();
    }
  }

  /// @returns false where that failed: then each cell is run by itself, so that one that dies does
  ///          not touch the others.
  bool run_together(const Unit& unit, RunPlace& place) {
    Words words = {"run", "--ensemble", "--resume", "--progress", "json"};
    for (const LaunchedCell* cell : unit) words.push_back(cell->folder.path());
    const std::string log = unit.front()->folder.file("log.txt");
    Outcome outcome;
    try {
      outcome = carry_out(words, log, "", place);
    } catch (const FileError&) {  // of the first of them, which says so when it is run by itself
      return false;
    }
    if (outcome.process.ok()) return true;
    if (ended_on_request(outcome.process)) {
      for (const ProgressEvent& end : outcome.failures) progress_.report(end);
      return true;
    }
    progress_.say(
        fmt::format("{} and {} others, trained together: {}; what is left of them runs one by one",
                    unit.front()->label, unit.size() - 1, cause_of(outcome.process, log)));
    return false;
  }

  void run_cell(const LaunchedCell& cell, RunPlace& place) {
    Outcome outcome;
    try {
      outcome = carry_out({"run", cell.folder.path(), "--resume", "--progress", "json"},
                          cell.folder.file("log.txt"), cell.label, place);
    } catch (const FileError& error) {
      return report_closed(cell, error);
    }
    if (outcome.reported_end && outcome.process.ok()) return;
    if (ended_on_request(outcome.process)) {
      if (!outcome.reported_end) {
        report_end(cell, outcome.failures.empty() ? "interrupted before it began"
                                                  : outcome.failures.back().text);
      }
      return;
    }
    const std::string log = cell.folder.file("log.txt");
    RunStatus status;
    try {
      std::optional<RunLock> lock;  // who begins it now writes a status of its own
      try {
        lock.emplace(cell.folder.path());
      } catch (const FileError& error) {
        return report_closed(cell, error);
      }
      status = last_status(cell.folder);
      if (!status.finished()) {
        if (status.state != RunState::failed || outcome.process.signal != 0) {
          status.reason = cause_of(outcome.process, log);
        }
        status.state = RunState::failed;
        cell.folder.write_status(status);
      }
    } catch (const BusyError& busy) {  // began elsewhere in the meantime
      report_end(cell, busy.what());
      return;
    }
    if (status.finished()) {  // its process failed later: the result stands, and has been told
      if (!outcome.reported_end) report_end(cell, std::string(name_of(status.state)));
      progress_.say(fmt::format("{}: its result stands; its process failed after it: {}\n  log: {}",
                                cell.label, cause_of(outcome.process, log), log));
      return;
    }
    const std::string tail = log_tail(log, 8);
    report_end(cell, fmt::format("failed: {}\n  log: {}{}", status.reason, log,
                                 tail.empty() ? "" : "\n" + tail));
    if (options_.fail_fast) stop_.stop();
  }

  /// A run whose log or lock cannot be opened: its status cannot be written either. The others of a
  /// suite go on, where its folder is still there.
  void report_closed(const LaunchedCell& cell, const FileError& error) {
    const bool others = !options_.suite_folder.empty() && !options_.fail_fast;
    if (!others || !cell.folder.exists()) throw error;
    report_end(cell, fmt::format("failed: {}", error.what()));
    std::cerr << fmt::format("attnlab: {}: {}\n", cell.label, error.what());
  }

  /// @param label  of the run; empty: of many, whose names are in what they report
  Outcome carry_out(const Words& words, const std::string& log, const std::string& label,
                    RunPlace& place) {
    Outcome outcome;
    const auto on_line = [&](const std::string& line) {
      ProgressEvent event;
      try {
        event = progress_event(line);
        if (event.kind == ProgressEvent::Kind::note) return;  // for the reader of a single run
        if (is_failure(event)) {
          outcome.failures.push_back(event);
          return;
        }
        outcome.reported_end |= event.kind == ProgressEvent::Kind::end;
      } catch (const Error&) {
        event = {};
        event.text = one_line(line);  // a plugin that prints
      }
      if (!label.empty()) event.run = label;
      progress_.report(event);
    };
    ProcessOptions options;
    options.stop = &stop_;
    options.environment = place.environment;
    options.server = shares_load_ ? &place.server : nullptr;
    options.starter = options_.starter;
    outcome.process = run_self(words, log, on_line, options);
    return outcome;
  }

  /// Whether a run ended because it was told to, by us or by somebody else: with a checkpoint, or
  /// killed before it listened.
  bool ended_on_request(const ProcessResult& result) const {
    if (result.exit_code == kInterrupted && result.signal == 0) return true;
    if (!interrupted() && !stop_.stopped()) return false;
    return result.signal == SIGTERM || (!result.ok() && !options_.starter.words.empty());
  }

  void report_end(const LaunchedCell& cell, const std::string& text) {
    ProgressEvent event;
    event.kind = ProgressEvent::Kind::end;
    event.run = cell.label;
    event.text = text;
    progress_.report(event);
  }

  const std::vector<Unit> units_;
  const LaunchOptions& options_;
  SharedProgress progress_;
  StopSwitch stop_;
  std::atomic<std::size_t> next_{0};
  bool shares_load_ = false;  ///< some place has several runs
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace

void LocalLauncher::launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
                           ProgressSink& progress) {
  LocalLaunch(cells, options, progress).run();
}

}  // namespace attnlab
