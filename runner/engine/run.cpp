// attnlab run: trains and evaluates an experiment, seed by seed.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/experiment/compositions.h"
#include "framework/host/working_folder.h"
#include "framework/nn/modules/sizes_alone.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_result.h"
#include "framework/runs/source_run.h"
#include "framework/suites/cell.h"
#include "framework/suites/ensembles.h"
#include "framework/train/costs.h"
#include "framework/train/ensemble.h"
#include "framework/train/entries.h"
#include "framework/train/environment.h"
#include "framework/train/initialise.h"
#include "framework/train/task_check.h"
#include "framework/train/training_parts.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

struct RunJob {
  Experiment experiment;
  std::int64_t seed;
  RunFolder folder;
  Identity identity;  ///< of a run that is filed anew
  std::string note;   ///< for people, before it runs
};

/// Why a finished run of the same configuration does not count.
std::string revision_note(const Cell& cell) {
  if (cell.action != CellAction::stale || !cell.other_revision) return "";
  return fmt::format("a finished run is there, and {}; --accept-revision counts it: {}",
                     cell.reason, cell.folder.path());
}

/// Why a finished run would begin otherwise now; it counts all the same.
std::string source_note(const Experiment& experiment, std::int64_t seed, const RunFolder& folder,
                        const Catalogue& catalogue) {
  if (!folder.status().finished()) return "";
  const std::string change =
      source_change(experiment, folder, source_run(experiment, seed, folder, catalogue));
  return change.empty() ? ""
                        : fmt::format("{}: {}; remove this folder to train it again from that",
                                      folder.path(), change);
}

/// Opens the data as seed 0 has them: by these, runs are filed (Identity::data).
Identity identity_with_data(const Experiment& experiment, Registry& registry) {
  const auto dataset = registry.dataset(experiment.dataset, {RandomStreams(0)});
  return identity_of(experiment, dataset->info().fingerprint);
}

/// The runs that a word names: a run's folder, or an experiment with its seeds.
std::vector<RunJob> jobs_of(const std::string& what, const Arguments& arguments,
                            Registry& registry) {
  const Catalogue& catalogue = registry.catalogue();
  if (fs::exists(what + "/config.yaml")) {
    if (!arguments.overrides.empty()) {
      throw ConfigError(fmt::format("{}: a run's configuration is frozen; it takes no {}", what,
                                    arguments.overrides[0]));
    }
    const RunFolder folder(what);
    const Experiment experiment = folder.experiment(catalogue);
    const std::int64_t seed = experiment.seeds.at(0);
    return {{experiment, seed, folder, {}, source_note(experiment, seed, folder, catalogue)}};
  }
  if (fs::is_directory(what)) throw ConfigError(what + ": is not a run folder (no config.yaml)");
  const std::string path = find_composition(what, "experiments");
  const Experiment experiment = load_experiment(path, arguments.overrides, catalogue);
  const Identity identity = identity_with_data(experiment, registry);
  const std::string root = arguments.text("out", "runs");
  std::vector<RunJob> jobs;
  for (const std::int64_t seed : experiment.seeds) {
    std::vector<Cell> cell = {make_cell(experiment, seed, root, identity.data)};
    const RunFolder fresh = cell.front().folder;
    decide(cell, {.accept_revision = arguments.has("accept-revision")});
    const bool finished = cell.front().action == CellAction::finished;
    if (!arguments.has("dry-run")) record_accepted(cell);
    jobs.push_back({experiment, seed, finished ? cell.front().folder : fresh, identity,
                    finished ? source_note(experiment, seed, cell.front().folder, catalogue)
                             : revision_note(cell.front())});
  }
  return jobs;
}

std::vector<RunJob> jobs_of(const Arguments& arguments, Registry& registry) {
  std::vector<RunJob> jobs;
  for (const std::string& word : arguments.words) {
    for (RunJob& job : jobs_of(word, arguments, registry)) jobs.push_back(std::move(job));
  }
  return jobs;
}

void check_fresh(const std::vector<RunJob>& jobs, bool resume) {
  for (const RunJob& job : jobs) {
    const RunStatus status = job.folder.status();
    if (resume || status.finished() || status.state == RunState::pending) continue;
    throw ConfigError(
        fmt::format("{}: this run was begun and is {} at step {}; add --resume to go on, or remove "
                    "the folder to start over",
                    job.folder.path(), name_of(status.state), status.step));
  }
}

/// " (published: 5.7)"; empty where nothing is.
std::string published_text(double count, double unit, const char* name) {
  return count > 0 ? fmt::format(" (published: {:.4g}{})", count / unit, name) : "";
}

void show_plan(const RunJob& job, const BuiltRun& run, ProgressSink& progress) {
  const TrainOptions& train = job.experiment.train;
  const PublishedCounts& published = job.experiment.published;
  progress.say(fmt::format(
      "{}: {} parameters{}, {:.4g} GFLOPs forward an example{}, {} training, {} validation "
      "and {} test examples from {}, {} steps of {}; would go to {}",
      RunFolder::label(job.experiment, job.seed), run.parameter_count(),
      published_text(published.parameters, 1e6, " million"), double(forward_flops(run)) / 1e9,
      published_text(2 * published.multiply_adds, 1e9, ""), run.dataset->size(Split::train),
      run.dataset->size(Split::validation), run.dataset->size(Split::test),
      one_line(run.dataset->info().source, kLongestMessageLine), run.total_steps(),
      train.batch_size, job.folder.path()));
}

/// Says where the processor lacks the precision that is asked for.
void tell_products(const BuiltRun& run, ProgressSink& progress) {
  const std::string note = note_on_products(run);
  if (note.empty()) return;
  progress.say(RunFolder::label(run.experiment, run.seed) + ": " + note);
}

/// Says what the data were read without, as their source has it (docs/contracts/dataset.md).
void tell_left_out(const BuiltRun& run, ProgressSink& progress) {
  const std::string& source = run.dataset->info().source;
  if (source.find(" without ") == std::string::npos) return;
  progress.say(fmt::format("{}: data from {}", RunFolder::label(run.experiment, run.seed),
                           one_line(source, kLongestMessageLine)));
}

/// Whether a run was finished before; then that is told.
bool finished_before(const RunJob& job, ProgressSink& progress) {
  const RunStatus before = job.folder.status();
  if (!before.finished()) return false;
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(job.experiment, job.seed);
  event.text = std::string(name_of(before.state)) + " before";
  const RunResult result = read_result(job.folder.path());
  event.metrics = result.status.metrics;
  event.infos = result.infos;
  progress.report(event);
  return true;
}

/// Whether numbers of the run are there that it goes on from.
bool has_checkpoint(const RunFolder& folder) {
  std::error_code error;
  return fs::exists(folder.file("checkpoint.safetensors"), error);
}

/// Opened once for all runs of a process that have the same.
std::string data_of_seed_0(const Experiment& experiment, Registry& registry) {
  static std::map<std::string, std::string> known;
  const std::string section = canonical_text(experiment.resolved.at("dataset"));
  const auto found = known.find(section);
  if (found != known.end()) return found->second;
  return known[section] = identity_with_data(experiment, registry).data;
}

/// What a run that has no numbers yet was filed by, and would not be made of now.
/// @throws ConfigError where that is its configuration.
std::vector<std::string> changes_since_filed(const BuiltRun& run, const RunJob& job,
                                             Registry& registry) {
  const std::optional<Identity> filed = read_identity(job.folder.path());
  if (!filed || filed->hash() == job.identity.hash()) return {};
  if (filed->configuration != job.experiment.hash()) {
    throw ConfigError(fmt::format(
        "{}: is not the configuration that the run was filed by: the file was changed, or a plugin "
        "or attnlab has other options now; put it back, or run it as an experiment of its own "
        "(attnlab run FILE)",
        job.folder.file("config.yaml")));
  }
  Identity now = identity_of(job.experiment, "");
  std::vector<std::string> changes = changes_between(*filed, now);
  const std::string own = run.dataset->info().fingerprint;
  if (!changes.empty() || filed->data.empty() || filed->data == own) return changes;
  // It is filed by the data of seed 0, and data made by rule are others for each seed.
  now.data = job.seed == 0 ? own : data_of_seed_0(job.experiment, registry);
  return changes_between(*filed, now);
}

/// Notes what changed since the run began, or since it was filed where it has no numbers yet.
/// @param accept  go on all the same. @throws ConfigError naming what changed.
void note_changes(BuiltRun& run, const RunJob& job, Registry& registry, bool accept) {
  run.accepted = has_checkpoint(job.folder) ? changes_since_start(run, job.folder)
                                            : changes_since_filed(run, job, registry);
  if (run.accepted.empty() || accept) return;
  throw ConfigError(
      fmt::format("{}: since this run began, {}; a new run (--out) keeps its numbers of one "
                  "kind; --accept-changes goes on and records it",
                  job.folder.path(), join(run.accepted, ", ")));
}

/// A run that is ready to be trained from where it stands. @throws ConfigError as `note_changes`.
BuiltRun ready_run(const RunJob& job, Registry& registry, bool accept,
                   std::shared_ptr<Dataset> dataset = nullptr) {
  BuiltRun run = build_run(job.experiment, job.seed, registry, std::move(dataset));
  check_tasks(run, registry);
  note_changes(run, job, registry, accept);
  initialise(run, job.folder, registry.catalogue());
  prepare_training(run);
  return run;
}

/// Tells what an entry of `evaluate:` gave.
void tell(const EvaluationRecord& record, ProgressSink& progress) {
  std::string text = fmt::format("  {}: ", record.entry);
  if (!record.done) text += "failed: " + one_line(without_backtrace(record.reason));
  for (const auto& [name, value] : record.metrics) {
    text += fmt::format("{} {}  ", one_line(name),
                        metric_text(metric_or_plain(record.infos, name), value));
  }
  progress.say(text.substr(0, text.find_last_not_of(' ') + 1));
}

/// Evaluates what a finished run has no result of. Failures are results, not the run's.
void evaluate_left(const RunJob& job, BuiltRun& run, Registry& registry, ProgressSink& progress) {
  EntriesRequest request;
  request.names = entries_left(job.experiment, job.folder, registry.catalogue(), false);
  if (request.names.empty()) return;
  load_model(run, job.folder);
  try {
    evaluate_entries(run, job.folder, evaluations_of(job.experiment, registry.catalogue()), request,
                     registry, stop_requested(),
                     [&](const EvaluationRecord& record, bool) { tell(record, progress); });
  } catch (const Interrupted&) {
    progress.say(fmt::format("  interrupted; attnlab eval {} goes on", job.folder.path()));
  }
}

/// The same for a run that was finished before. @throws ChangedDataError.
void evaluate_left(const RunJob& job, Registry& registry, bool accept, ProgressSink& progress) {
  if (job.folder.status().state != RunState::done) return;
  if (entries_left(job.experiment, job.folder, registry.catalogue(), false).empty()) return;
  BuiltRun run = build_run(job.experiment, job.seed, registry);
  check_data(run, job.folder, accept);
  if (const std::string note = note_on_changes(run, job.folder); !note.empty()) progress.say(note);
  tell_products(run, progress);
  const RunLock lock(job.folder.path());
  evaluate_left(job, run, registry, progress);
}

void complain(const std::string& what, const std::exception& error) {
  std::cerr << fmt::format("attnlab run: {}: {}\n", one_line(what, kLongestMessageLine),
                           message_text(text_of(error)));
}

void complain_of_run(const RunJob& job, const std::exception& error) {
  complain(job.folder.path() + ": the run failed", error);
}

void complain_of_runs(std::size_t together, const std::exception& error) {
  complain(fmt::format("{} runs that were trained together failed", together), error);
}

/// Passes on what runs report, and knows which of them have told their end.
class EndsNoted final : public ProgressSink {
 public:
  explicit EndsNoted(ProgressSink& sink) : sink_(sink) {}
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::end) ended_.insert(event.run);
    sink_.report(event);
  }
  void say(const std::string& text) override { sink_.say(text); }

  bool ended(const std::string& run) const { return ended_.count(run) > 0; }

 private:
  ProgressSink& sink_;
  std::set<std::string> ended_;
};

/// Ends a run that failed for readers of its progress. One whose evaluations failed has told its
/// end by then: it is trained.
/// @param together  how many runs were trained in one; which of them failed is not known
void report_failure(const RunJob& job, const std::exception& error, EndsNoted& progress,
                    std::size_t together = 1) {
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(job.experiment, job.seed);
  event.text = fmt::format("failed: {}{}", together > 1 ? "trained together with others: " : "",
                           one_line(without_backtrace(text_of(error))));
  if (!progress.ended(event.run)) progress.report(event);
}

[[noreturn]] void refuse_folder(const RunJob& job, const std::string& why) {
  throw FileError(fmt::format("{}: cannot create the run's folder: {}; look at the folder above it",
                              job.folder.path(), why));
}

/// What `held` would refuse. @throws as `held`.
void check_place(const RunJob& job) {
  fs::path there = fs::absolute(job.folder.path());
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) refuse_folder(job, std::strerror(ENOTDIR));
  if (::access(there.c_str(), W_OK | X_OK) != 0) refuse_folder(job, std::strerror(errno));
  check_free(job.folder.path());
}

/// Holds a run's folder before the first byte is written into it.
std::unique_ptr<RunLock> held(const RunJob& job, const Catalogue& catalogue) {
  std::error_code error;
  fs::create_directories(job.folder.path(), error);
  if (error) refuse_folder(job, error.message());
  auto lock = std::make_unique<RunLock>(job.folder.path());
  job.folder.freeze(job.experiment, job.seed, job.identity);
  // Now, as a run that diverges is evaluated nowhere, and its configuration names them all the
  // same.
  lock_entries(job.folder.path(), evaluations_of(job.experiment, catalogue));
  return lock;
}

/// Looks again at a run that is held now: data were opened since it was looked at first, and
/// another process may have gone on with it meanwhile.
/// @returns whether it was finished; then it is told, and evaluated where that is left.
bool finished_meanwhile(const RunJob& job, BuiltRun& run, Registry& registry, bool accept,
                        ProgressSink& progress) {
  if (!finished_before(job, progress)) {
    if (has_checkpoint(job.folder)) note_changes(run, job, registry, accept);
    return false;
  }
  if (job.folder.status().state == RunState::done) evaluate_left(job, run, registry, progress);
  return true;
}

/// @returns false when the run failed.
bool run_job(const RunJob& job, Registry& registry, bool accept, ProgressSink& progress) {
  if (!job.note.empty()) progress.say(job.note);
  if (finished_before(job, progress)) {
    evaluate_left(job, registry, accept, progress);
    return true;
  }
  BuiltRun run = ready_run(job, registry, accept);
  tell_left_out(run, progress);
  tell_products(run, progress);
  const std::unique_ptr<RunLock> lock = held(job, registry.catalogue());
  if (finished_meanwhile(job, run, registry, accept, progress)) return true;
  EndsNoted noted(progress);
  try {
    const RunStatus status = train_run(run, job.folder, noted, stop_requested());
    if (status.state == RunState::done) evaluate_left(job, run, registry, noted);
  } catch (const std::exception& error) {
    report_failure(job, error, noted);
    complain_of_run(job, error);
    return false;
  }
  progress.say("  " + job.folder.path());
  return true;
}

/// Opens data once where several runs have the same: of one configuration and one seed, by which a
/// dataset may hold examples out or generate them. (A fingerprint is of files alone where there are
/// files, not of what is done with them.)
class SharedData {
 public:
  std::shared_ptr<Dataset> of(const RunJob& job, Registry& registry) {
    const RandomStreams streams(static_cast<std::uint64_t>(job.seed));
    const auto opened = registry.dataset(job.experiment.dataset, {streams});
    const std::string key =
        fmt::format("{};{};{}", canonical_text(job.experiment.resolved.at("dataset")),
                    opened->info().fingerprint, job.seed);
    return known_.emplace(key, opened).first->second;
  }

 private:
  std::map<std::string, std::shared_ptr<Dataset>> known_;
};

/// Runs that can be trained together, and have not been finished before.
using Together = std::vector<const RunJob*>;

/// Does something for one run of several. @returns false where another process holds it, its
/// folder cannot be written, or its data changed: that is said, and the others go on.
/// @param alone  it is the only run: that is thrown
template <class Action>
bool done_for_one(bool alone, const Action& action) {
  const WorkingFolder home;  // of the next one, too
  try {
    action();
    return true;
  } catch (const BusyError& error) {
    if (alone) throw;
    complain("left out", error);
  } catch (const FileError& error) {
    if (alone) throw;
    complain("left out", error);
  } catch (const ChangedDataError& error) {
    if (alone) throw;
    complain("left out", error);
  }
  return false;
}

/// @throws ConfigError where it is a run that cannot be trained together with any.
void check_ensemble(const RunJob& job, const Catalogue& catalogue) {
  const std::string obstacle = obstacle_to_ensemble(job.experiment, catalogue);
  if (!obstacle.empty()) throw ConfigError(fmt::format("--ensemble: {}; leave it out", obstacle));
}

std::vector<Together> listed(std::map<std::string, Together> by_key) {
  std::vector<Together> all;
  for (auto& [key, together] : by_key) all.push_back(std::move(together));
  return all;
}

/// Evaluations that are left of finished ones are made up for. @param all  becomes false where one
/// could not be had
/// @throws as `check_ensemble`.
std::vector<Together> ensembles_of(const std::vector<RunJob>& jobs, Registry& registry, bool accept,
                                   ProgressSink& progress, bool& all_had) {
  std::map<std::string, Together> by_key;
  for (const RunJob& job : jobs) {
    check_ensemble(job, registry.catalogue());
    if (stop_requested()) return {};
    if (!job.note.empty()) progress.say(job.note);
    if (finished_before(job, progress)) {
      all_had &=
          done_for_one(jobs.size() == 1, [&] { evaluate_left(job, registry, accept, progress); });
    } else {
      by_key[ensemble_key(job.experiment)].push_back(&job);
    }
  }
  return listed(std::move(by_key));
}

/// Runs that are trained together.
struct ReadyRuns {
  Together jobs;
  std::vector<Member> members;
  bool had = true;  ///< false where one is left out
};

/// @param alone  these are one run, and there is no other
/// @param take   whether a run that is ready takes part
template <class Take>
ReadyRuns ready_runs(const Together& all, bool alone, Registry& registry, bool accept,
                     const Take& take) {
  SharedData data;
  ReadyRuns ready;
  for (const RunJob* job : all) {
    ready.had &= done_for_one(alone, [&] {
      BuiltRun run = ready_run(*job, registry, accept, data.of(*job, registry));
      if (!take(*job, run)) return;
      ready.jobs.push_back(job);
      ready.members.push_back({std::move(run), job->folder});
    });
  }
  const auto together = static_cast<std::int64_t>(ready.members.size());
  for (Member& member : ready.members) member.run.together = together;
  return ready;
}

/// @returns false when the runs failed.
bool run_together(const Together& all, bool alone, Registry& registry, bool accept,
                  ProgressSink& progress) {
  std::vector<std::unique_ptr<RunLock>> locks;
  const auto take = [&](const RunJob& job, BuiltRun& run) {
    std::unique_ptr<RunLock> lock = held(job, registry.catalogue());
    if (finished_meanwhile(job, run, registry, accept, progress)) return false;
    locks.push_back(std::move(lock));
    return true;
  };
  auto [jobs, members, had] = ready_runs(all, alone, registry, accept, take);
  if (members.empty()) return had;
  tell_left_out(members.front().run, progress);
  tell_products(members.front().run, progress);
  EndsNoted noted(progress);
  try {
    train_ensemble(members, registry, noted, stop_requested());
  } catch (const std::exception& error) {
    for (const RunJob* job : jobs) report_failure(*job, error, noted, jobs.size());
    complain_of_runs(jobs.size(), error);
    return false;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string& folder = members[i].folder.path();
    try {
      if (members[i].folder.status().state == RunState::done) {
        evaluate_left(*jobs[i], members[i].run, registry, progress);
      }
      progress.say("  " + folder);
    } catch (const std::exception& error) {
      complain(folder + ": its evaluations failed", error);
      had = false;
    }
  }
  return had;
}

// ---- --dry-run: all that comes before the first step, and nothing that writes

void show(const RunJob& job, const BuiltRun& run, ProgressSink& progress) {
  show_plan(job, run, progress);
  tell_products(run, progress);
}

/// One that was finished before is built, and would not be trained again.
void show_finished(const RunJob& job, Registry& registry, ProgressSink& progress) {
  const SizesAlone sizes;
  const BuiltRun run = build_run(job.experiment, job.seed, registry);
  check_tasks(run, registry);
  show(job, run, progress);
}

/// @returns false where the run would fail.
bool show_job(const RunJob& job, Registry& registry, bool accept, ProgressSink& progress) {
  const SizesAlone sizes;
  BuiltRun run = ready_run(job, registry, accept);
  check_place(job);
  try {
    show(job, run, progress);
    rehearse_run(run, job.folder);
  } catch (const std::exception& error) {
    complain_of_run(job, error);
    return false;
  }
  return true;
}

/// @returns false where the runs would fail.
bool show_together(const Together& all, bool alone, Registry& registry, bool accept,
                   ProgressSink& progress) {
  const auto take = [](const RunJob& job, const BuiltRun&) {
    check_place(job);
    return true;
  };
  auto [jobs, members, had] = ready_runs(all, alone, registry, accept, take);
  if (members.empty()) return had;
  try {
    for (std::size_t i = 0; i < members.size(); ++i) show(*jobs[i], members[i].run, progress);
    rehearse_ensemble(members, registry);
  } catch (const std::exception& error) {
    complain_of_runs(members.size(), error);
    return false;
  }
  return had;
}

int show_plans(const Arguments& arguments, Registry& registry, ProgressMode mode) {
  const std::vector<RunJob> jobs = jobs_of(arguments, registry);
  const auto progress = make_progress(mode);
  check_fresh(jobs, arguments.has("resume"));
  const bool accept = arguments.has("accept-changes"), alone = jobs.size() == 1;
  bool all = true;
  std::map<std::string, Together> by_key;
  for (const RunJob& job : jobs) {
    if (arguments.has("ensemble")) check_ensemble(job, registry.catalogue());
    if (!job.note.empty()) progress->say(job.note);
    if (job.folder.status().finished()) {
      show_finished(job, registry, *progress);
    } else if (arguments.has("ensemble")) {
      by_key[ensemble_key(job.experiment)].push_back(&job);
    } else {
      bool done = true;
      all &= done_for_one(alone, [&] { done = show_job(job, registry, accept, *progress); });
      all &= done;
    }
  }
  for (const Together& together : listed(std::move(by_key))) {
    all &= show_together(together, alone, registry, accept, *progress);
  }
  return all ? kDone : kRunFailed;
}

/// @returns an exit code: other data may be taken where these are missing.
int dry_run(const Arguments& arguments, Registry& registry, ProgressMode mode) {
  try {
    return show_plans(arguments, registry, mode);
  } catch (const DataMissingError& error) {
    std::cerr << fmt::format("attnlab run: {}\n", message_text(error.what()));
    return kDataMissing;
  }
}

}  // namespace

int run_command(const Words& words) {
  Usage usage = run_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const ProgressMode mode = parse_progress_mode(arguments.text("progress", "auto"));
  if (arguments.has("dry-run")) return dry_run(arguments, registry, mode);
  const std::vector<RunJob> jobs = jobs_of(arguments, registry);
  const auto progress = make_progress(mode, static_cast<std::int64_t>(jobs.size()));
  check_fresh(jobs, arguments.has("resume"));
  const bool accept = arguments.has("accept-changes");
  const bool alone = jobs.size() == 1;
  bool all = true;
  if (arguments.has("ensemble")) {
    const std::vector<Together> ensembles = ensembles_of(jobs, registry, accept, *progress, all);
    if (stop_requested()) return kInterrupted;
    for (const Together& together : ensembles) {
      all &= run_together(together, alone, registry, accept, *progress);
      if (stop_requested()) return kInterrupted;
    }
    return all ? kDone : kRunFailed;
  }
  for (const RunJob& job : jobs) {
    bool done = true;
    all &= done_for_one(alone, [&] { done = run_job(job, registry, accept, *progress); });
    all &= done;
    if (stop_requested()) return kInterrupted;
  }
  return all ? kDone : kRunFailed;
}

}  // namespace attnlab
