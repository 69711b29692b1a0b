#include "runner/suite_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "framework/base/files.h"
#include "framework/base/links.h"
#include "framework/base/text.h"
#include "framework/experiment/ensembles.h"
#include "framework/experiment/evaluations.h"
#include "framework/experiment/identity.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_result.h"
#include "framework/runs/source_run.h"
#include "framework/runs/stored_run.h"
#include "framework/suites/dependency_levels.h"
#include "framework/suites/dry_run.h"
#include "runner/launcher.h"
#include "runner/probe_cells.h"
#include "runner/process.h"
#include "runner/stored_results.h"
#include "runner/suite_evaluations.h"
#include "runner/suite_results.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr std::int64_t kMeasuredSteps = 5;

void warn_loudly(const std::string& missing, const Node& fallback) {
  std::cerr << "\n*** WARNING: the data of this suite are not on this machine ***\n"
            << missing << "\n*** Falling back to: " << to_flow(fallback)
            << "\n*** The numbers below say nothing about the real data. ***\n\n"
            << std::flush;
}

/// How models were chosen is for everybody to know who reads the table.
void note_protocols(Suite& suite) {
  for (const Cell& cell : suite.cells) {
    const std::string note = protocol_note(cell.experiment);
    if (note.empty()) continue;
    const std::string line = fmt::format("{}: {}", cell.experiment.name, note);
    const auto known = std::find(suite.notes.begin(), suite.notes.end(), line);
    if (known == suite.notes.end()) suite.notes.push_back(line);
  }
}

/// The same answers, each asked for once.
DataOf remembered(DataOf data_of) {
  auto known = std::make_shared<std::map<std::string, std::string>>();
  return [known, data_of = std::move(data_of)](const Experiment& experiment) {
    const std::string section = canonical_text(experiment.resolved.at("dataset"));
    const auto found = known->find(section);
    if (found != known->end()) return found->second;
    return known->emplace(section, data_of(experiment)).first->second;
  };
}

/// `missing_data: skip`: cells whose data are not on this machine become absent ones.
/// @throws DataMissingError, the first one, where no cell is left.
void leave_out_missing(Suite& suite, const DataOf& data_of) {
  std::map<std::string, std::string> missing;  // by experiment
  std::vector<Cell> kept;
  for (Cell& cell : suite.cells) {
    const std::string& name = cell.experiment.name;
    if (missing.count(name) == 0) {
      try {
        data_of(cell.experiment);
        kept.push_back(std::move(cell));
        continue;
      } catch (const DataMissingError& error) {
        missing[name] = error.what();
      }
    }
    AbsentCell& absent = suite.absent.emplace_back();
    absent.experiment = name;
    absent.attention = cell.experiment.attention.label;
    absent.seed = cell.seed;
    absent.gap = {Absence::no_data, missing[name].substr(0, missing[name].find_first_of(";\n"))};
  }
  if (kept.empty() && !missing.empty()) throw DataMissingError(missing.begin()->second);
  suite.cells = std::move(kept);
  for (const AbsentCell& cell : suite.absent) {
    if (cell.gap.kind == Absence::no_plugin) missing[cell.experiment] = cell.gap.reason;
  }
  say_missing(missing);
}

/// The suite with every cell filed by its identity; with its fallback where data are missing.
Suite identified(const LoadSuite& load, ForkServer& server) {
  Suite suite = load(false);
  try {
    const DataOf data_of = remembered(ask_data(suite.cells, server));
    if (suite.skip_missing_data) leave_out_missing(suite, data_of);
    identify(suite.cells, suite.folder, data_of);
    return suite;
  } catch (const DataMissingError& missing) {
    if (suite.fallback.is_null()) throw ConfigError(missing.what());
    warn_loudly(missing.what(), suite.fallback);
  }
  suite = load(true);
  suite.notes.push_back("WARNING: the real data were missing; this ran on " +
                        to_flow(suite.fallback));
  identify(suite.cells, suite.folder, ask_data(suite.cells, server));
  return suite;
}

Rerun rerun_of(const Arguments& arguments) {
  Rerun rerun;
  if (arguments.has("rerun")) rerun = parse_rerun(arguments.options["rerun"].as<Words>());
  rerun.accept_revision = arguments.has("accept-revision");
  return rerun;
}

/// What is said of a cell that is not launched.
std::string left_text(const Cell& cell) {
  switch (cell.action) {
    case CellAction::failed:
      return fmt::format("failed before: {}\n  --rerun failed runs it again", cell.reason);
    case CellAction::stale:
      return fmt::format("stale: {}\n  --rerun stale runs it again; the old {} stays{}",
                         cell.reason,
                         stored_source(cell.folder.path()).empty() ? "run" : "result's file",
                         cell.other_revision ? "\n  --accept-revision counts it as it is" : "");
    case CellAction::busy:
      return cell.reason;
    default:
      const std::string state(name_of(cell.folder.status().state));
      return state + (stored_source(cell.folder.path()).empty() ? " before" : ", a stored result");
  }
}

void report_left(const Cell& cell, ProgressSink& progress) {
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(cell.experiment, cell.seed);
  event.text = left_text(cell);
  if (cell.action == CellAction::finished) {
    try {
      const RunResult run = read_result(cell.folder.path());
      event.metrics = run.status.metrics;
      event.infos = run.infos;
    } catch (const Error& damage) {  // the table names it, too
      event.text += std::string("; it cannot be read: ") + damage.what();
    }
  }
  progress.report(event);
}

/// Plugins of all cells and of their evaluations, and the data that is known of by now: what
/// evaluations used stands in their runs' locks once they were carried out.
void write_lock(const Suite& suite, const Catalogue& catalogue) {
  std::vector<const Experiment*> experiments;
  std::map<std::string, std::vector<EvaluationEntry>> entries;  // by experiment and attention
  std::set<std::string> data;
  for (const Cell& cell : suite.cells) {
    experiments.push_back(&cell.experiment);
    data.insert(cell.identity.data);
    data.merge(evaluation_data(cell.folder.path()));
    const std::string key = cell.experiment.name + "/" + cell.experiment.attention.label;
    if (entries.count(key) == 0) entries[key] = evaluations_of(cell.experiment, catalogue);
  }
  for (const auto& [key, some] : entries) {
    for (const EvaluationEntry& entry : some) experiments.push_back(&entry.experiment);
  }
  write_file(suite.folder + "/" + kLockFile, lock_text(experiments, data));
}

/// Freezes what is to be run of some cells. From here on the suite can be killed and goes on.
/// @returns one list a wave; without what need not be run
std::vector<std::vector<LaunchedCell>> frozen_waves(const std::vector<Cell>& cells,
                                                    const Catalogue& catalogue) {
  std::vector<std::vector<LaunchedCell>> waves;
  for (const std::vector<const Cell*>& wave : dependency_levels(cells)) {
    std::vector<LaunchedCell> launched;
    for (const Cell* cell : wave) {
      if (cell->action != CellAction::run) continue;
      // Who has begun it since it was decided on writes these files itself; launching it says so.
      if (!holder_of(cell->folder.path())) {
        cell->folder.freeze(cell->experiment, cell->seed, cell->identity);
        try {
          clear_failure(cell->folder);
        } catch (const BusyError&) {
        } catch (const FileError&) {
        }
      }
      const bool alone = !obstacle_to_ensemble(cell->experiment, catalogue).empty();
      launched.push_back({cell->folder, RunFolder::label(cell->experiment, cell->seed),
                          alone ? "" : ensemble_key(cell->experiment)});
    }
    if (!launched.empty()) waves.push_back(std::move(launched));
  }
  return waves;
}

void refuse_suite_links(const Suite& suite) {
  for (const char* name :
       {"suite.json", kLockFile, "table.md", "table.json", "comparison.md", "comparison.json"}) {
    refuse_link(fmt::format("{}/{}", suite.folder, name));
  }
}

/// `frozen_waves` of a suite, after which its record is written.
std::vector<std::vector<LaunchedCell>> prepare(const Suite& suite, const std::string& record,
                                               const Catalogue& catalogue) {
  refuse_suite_links(suite);
  std::vector<std::vector<LaunchedCell>> waves = frozen_waves(suite.cells, catalogue);
  fs::create_directories(suite.folder);
  write_file(suite.folder + "/suite.json", record);
  write_lock(suite, catalogue);
  return waves;
}

bool any_failed(const std::vector<LaunchedCell>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const LaunchedCell& cell) {
    return cell.folder.status().state == RunState::failed;
  });
}

/// One wave after the other. A launcher that does not wait gets the first alone: the runs of the
/// next cannot begin before these have ended.
void launch_waves(const std::vector<std::vector<LaunchedCell>>& waves, Launcher& launcher,
                  const LaunchOptions& options, ProgressSink& progress) {
  for (const std::vector<LaunchedCell>& wave : waves) {
    launcher.launch(wave, options, progress);
    if (interrupted() || (options.fail_fast && any_failed(wave))) return;
    if (!launcher.waits() && &wave != &waves.back()) {
      progress.say("other runs begin with these; give the same command again when they are done");
      return;
    }
  }
}

/// The run that a cell would begin with now: one that this suite is about to train, or that is
/// there.
std::optional<RunFolder> source_of(const Cell& cell, const Suite& suite,
                                   const Catalogue& catalogue) {
  const auto& init = cell.experiment.init;
  if (!init || init->experiment.empty()) return std::nullopt;
  for (const Cell& other : suite.cells) {
    if (other.action == CellAction::run && other.seed == cell.seed &&
        other.experiment.attention.label == cell.experiment.attention.label &&
        other.experiment.hash_without_attention() == init->configuration) {
      return other.folder;
    }
  }
  return source_run(cell.experiment, cell.seed, cell.folder, catalogue);
}

/// Finished runs that would begin with other weights now are for everybody to know who reads the
/// table.
void note_sources(Suite& suite, const Catalogue& catalogue) {
  std::map<std::string, std::vector<const Cell*>> others;  // by experiment
  std::map<std::string, std::string> changes;              // of the first of them
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::finished) continue;
    const std::string change =
        source_change(cell.experiment, cell.folder, source_of(cell, suite, catalogue));
    if (change.empty()) continue;
    others[cell.experiment.name].push_back(&cell);
    changes.emplace(cell.experiment.name, change);
  }
  for (const auto& [experiment, cells] : others) {
    std::vector<std::string> labels;
    for (const Cell* cell : cells) labels.push_back(RunFolder::label(cell->experiment, cell->seed));
    suite.notes.push_back(fmt::format(
        "{}: would begin with other weights now: {}{}; they count as they are: remove {}{} and run "
        "the suite again to train from those",
        first_of(labels), changes.at(experiment), cells.size() > 1 ? " (the first one)" : "",
        cells.front()->folder.path(), cells.size() > 1 ? " and the like" : ""));
  }
}

/// What the estimates of a dry run leave out: each is of a run by itself.
std::string together_text(const Suite& suite, const Catalogue& catalogue) {
  std::map<std::string, std::int64_t> by_key;
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::run) continue;
    if (!obstacle_to_ensemble(cell.experiment, catalogue).empty()) continue;
    ++by_key[ensemble_key(cell.experiment)];
  }
  std::int64_t runs = 0;
  for (const auto& [key, count] : by_key) runs += count > 1 ? count : 0;
  if (runs == 0) return "";
  return fmt::format(
      "{} of them are trained together where they run on this machine (--ensemble), which takes "
      "less than that\n",
      runs);
}

/// @param tries  of its `tune:`
int show_plan(Suite suite, const std::vector<Cell>& tries, std::int64_t jobs,
              const Catalogue& catalogue, ForkServer& server) {
  const std::string reach = seeds_text(suite);
  suite.cells.insert(suite.cells.begin(), tries.begin(), tries.end());
  const SuiteForecast forecast = measure_costs(suite, kMeasuredSteps, server);
  if (end_on_signals()) return kInterrupted;
  std::cout << dry_run_text(suite, forecast, jobs, reach) << together_text(suite, catalogue)
            << entries_text(suite, catalogue) << std::flush;
  const bool sound = std::all_of(forecast.begin(), forecast.end(),
                                 [](const auto& one) { return one.second.problem.empty(); });
  return sound ? kDone : kUsage;
}

/// Carries out what is left of the tries of `tune:`.
/// @returns an exit code where the seeds cannot begin; nothing where they can
std::optional<int> launch_tries(const Suite& suite, std::vector<Cell>& tries,
                                const Arguments& arguments, Launcher& launcher,
                                const LaunchOptions& options, const std::string& command,
                                const Catalogue& catalogue) {
  refuse_suite_links(suite);
  const std::vector<std::vector<LaunchedCell>> waves = frozen_waves(tries, catalogue);
  record_accepted(tries);
  if (waves.empty()) return std::nullopt;
  Suite waiting = suite;  // what `attnlab status` shows until its values are chosen
  choose_values(waiting, tries);
  write_file(suite.folder + "/suite.json", suite_record(waiting, command));
  const auto progress = make_progress(parse_progress_mode(arguments.text("progress", "auto")),
                                      static_cast<std::int64_t>(tries.size()));
  progress->say(fmt::format("tune: {} tries come before the seeds", tries.size()));
  for (const Cell& cell : tries) {
    if (cell.action != CellAction::run) report_left(cell, *progress);
  }
  launch_waves(waves, launcher, options, *progress);
  if (end_on_signals()) {
    progress->say("interrupted; go on with: " + command);
    return kInterrupted;
  }
  if (!launcher.waits()) {
    progress->say("the seeds begin when the tries are done; give the same command again then");
    return kDone;
  }
  Rerun seen;  // a cell that was decided on may have another run's folder
  seen.accept_revision = rerun_of(arguments).accept_revision;
  tries = try_cells(suite);
  decide(tries, seen);
  const bool failed = std::any_of(tries.begin(), tries.end(), [](const Cell& cell) {
    return cell.action == CellAction::failed;
  });
  if (!failed || !options.fail_fast) return std::nullopt;
  progress->say("a try failed: no seed begins (--fail-fast)");
  return kIncomplete;
}

/// Carries out the tries of a suite's `tune:`, and gives its cells what they chose.
/// @returns as `launch_tries`
std::optional<int> tune(Suite& suite, const Arguments& arguments, Launcher& launcher,
                        const LaunchOptions& options, const std::string& command,
                        const Catalogue& catalogue) {
  std::vector<Cell> tries = try_cells(suite);
  decide(tries, rerun_of(arguments));
  const auto ended = launch_tries(suite, tries, arguments, launcher, options, command, catalogue);
  if (ended) return ended;
  choose_values(suite, tries);
  for (std::string& note : suite.tuned->notes()) suite.notes.push_back(std::move(note));
  const std::string earlier = earlier_tries_note(suite, tries);
  if (!earlier.empty()) suite.notes.push_back(earlier);
  return std::nullopt;
}

/// A dry run's tries; the suite's cells get what is chosen by now.
/// @param waiting  gets the others, which are to be run whatever there is
std::vector<Cell> planned_tries(Suite& suite, const Rerun& rerun, std::vector<Cell>& waiting) {
  if (!suite.tuning) return {};
  std::vector<Cell> tries = try_cells(suite);
  decide(tries, rerun);
  choose_values(suite, tries, &waiting);
  return tries;
}

/// Launches, waits where the launcher does, and writes the table.
int launch_suite(Suite& suite, const Arguments& arguments, Launcher& launcher,
                 const LaunchOptions& options, const std::string& command,
                 const Catalogue& catalogue) {
  const ProgressMode mode = parse_progress_mode(arguments.text("progress", "auto"));
  const std::string record = suite_record(suite, command);
  const std::vector<std::vector<LaunchedCell>> waves = prepare(suite, record, catalogue);
  const auto progress = make_progress(mode, static_cast<std::int64_t>(suite.cells.size()));
  const std::string warning = seeds_warning(suite);
  if (!warning.empty()) progress->say("compare: " + warning);
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::run) report_left(cell, *progress);
  }
  record_accepted(suite.cells);
  launch_waves(waves, launcher, options, *progress);
  std::vector<LeftEntries> left;
  if (!end_on_signals()) {
    left = evaluate_left(suite, catalogue, rerun_of(arguments).failed, launcher.waits(), *progress);
  }
  if (end_on_signals()) {
    progress->say("interrupted; go on with: " + command);
    return kInterrupted;
  }
  write_lock(suite, catalogue);
  if (!launcher.waits() && !waves.empty()) return kDone;
  note_still_left(suite, left, catalogue);
  remove_older_results(suite);
  const bool whole = write_table(suite, command);
  // With the notes that the table has; where another call wrote its own in the meantime, that
  // stands.
  const std::string file = suite.folder + "/suite.json";
  if (is_there(file) && read_text(file, kLargestRecord) == record) {
    write_file(file, suite_record(suite, command));
  }
  write_comparison(suite, catalogue);
  write_page(suite, command, catalogue);
  warn_of(suite);
  return whole ? kDone : kIncomplete;
}

}  // namespace

void add_suite_options(Usage& usage) {
  add_runs_folder(usage);
  usage.options.add_options()(
      "rerun", po::value<Words>()->composing()->value_name("failed|stale"),
      "failed: run failed cells and evaluations again; stale: run cells again whose plugin, data "
      "or framework changed; may be given several times")(
      "accept-revision",
      "also accept finished runs of other framework revisions and stored results of another "
      "version of its numbers, and record that")(
      "dry-run", "check every cell, measure a few steps, report what would run; write nothing")(
      "progress", po::value<std::string>()->value_name("MODE"),
      "auto (default), bar, plain, json or none");
  add_launch_options(usage);
}

std::string command_text(const std::string& command, const Words& words) {
  std::string text = "attnlab " + command;
  for (const std::string& word : words) text += " " + shell_word(word);
  return text;
}

int run_suite(const LoadSuite& load, const Arguments& arguments, const std::string& command,
              const Catalogue& catalogue) {
  const Rerun rerun = rerun_of(arguments);
  const auto launcher = launcher_of(arguments);
  launch_options(arguments, "");  // what is wrong with them is said before anything is opened
  parse_progress_mode(arguments.text("progress", "auto"));
  ForkServer probes({});
  probes.begin();
  Suite suite = identified(load, probes);
  if (end_on_signals()) return kInterrupted;
  const LaunchOptions options = launch_options(arguments, suite.folder);
  const bool dry_run = arguments.has("dry-run");
  warn_of(suite);
  std::vector<Cell> tries, waiting;
  if (dry_run) {
    tries = planned_tries(suite, rerun, waiting);
  } else if (suite.tuning) {
    const auto ended = tune(suite, arguments, *launcher, options, command, catalogue);
    if (ended) return *ended;
  }
  decide(suite.cells, rerun);
  take_stored(suite, catalogue, rerun, dry_run);
  note_protocols(suite);
  note_lost_models(suite, catalogue, rerun.failed);
  note_sources(suite, catalogue);
  if (dry_run) {
    suite.cells.insert(suite.cells.end(), waiting.begin(), waiting.end());
    return show_plan(std::move(suite), tries, options.jobs, catalogue, probes);
  }
  return launch_suite(suite, arguments, *launcher, options, command, catalogue);
}

}  // namespace attnlab
