// attnlab run: trains and evaluates an experiment, seed by seed.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>

#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/experiment/ensembles.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/run_result.h"
#include "framework/train/entries.h"
#include "framework/train/environment.h"
#include "framework/train/step_profile.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/engine/run_jobs.h"
#include "runner/engine/together.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

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
  look_for_data_of(job.folder);
  BuiltRun run = build_run(job.experiment, job.seed, registry);
  check_data(run, job.folder, accept);
  if (const std::string note = note_on_changes(run, job.folder); !note.empty()) progress.say(note);
  tell_products(run, progress);
  const RunLock lock(job.folder.path());
  evaluate_left(job, run, registry, progress);
}

/// Passes on what runs report, and knows which of them have told their end.
class EndRecorder final : public ProgressSink {
 public:
  explicit EndRecorder(ProgressSink& sink) : sink_(sink) {}
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
void report_failure(const RunJob& job, const std::exception& error, EndRecorder& progress,
                    std::size_t together = 1) {
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(job.experiment, job.seed);
  event.text = fmt::format("failed: {}{}", together > 1 ? "trained together with others: " : "",
                           one_line(without_backtrace(text_of(error))));
  if (!progress.ended(event.run)) progress.report(event);
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

/// Trains, and records some of the steps where that is asked for.
RunStatus train(const RunJob& job, BuiltRun& run, bool profiled, ProgressSink& progress) {
  if (!profiled) return train_run(run, job.folder, progress, stop_requested());
  const StepProfile profile(5);
  const RunStatus status = train_run(run, job.folder, progress, stop_requested());
  if (profile.steps() == 0) {
    progress.say("  no profile: the run has too few steps left");
    return status;
  }
  try {
    profile.write(job.folder.file("profile.json"));
  } catch (const Error& error) {  // the run itself is done
    progress.say(fmt::format("  no profile: {}", error.what()));
  }
  return status;
}

/// @returns false when the run failed.
bool run_job(const RunJob& job, Registry& registry, const Arguments& arguments,
             ProgressSink& progress) {
  const bool accept = arguments.has("accept-changes");
  if (!job.note.empty()) progress.say(job.note);
  if (finished_before(job, progress)) {
    evaluate_left(job, registry, accept, progress);
    if (arguments.has("profile")) progress.say("  no profile: the run was finished before");
    progress.say("  " + job.folder.path());
    return true;
  }
  BuiltRun run = ready_run(job, registry, accept);
  tell_left_out(run, progress);
  tell_products(run, progress);
  const std::unique_ptr<RunLock> lock = held(job, registry.catalogue());
  if (finished_meanwhile(job, run, registry, accept, progress)) return true;
  EndRecorder noted(progress);
  try {
    const RunStatus status = train(job, run, arguments.has("profile"), noted);
    if (status.state == RunState::done) evaluate_left(job, run, registry, noted);
  } catch (const std::exception& error) {
    report_failure(job, error, noted);
    complain_of_run(job, error);
    return false;
  }
  progress.say("  " + job.folder.path());
  return true;
}

/// The same in several processes. Which evaluations are left, the first one sees to in the end,
/// when the others need not wait for it.
void run_job_together(const RunJob& job, Registry& registry, const Arguments& arguments,
                      ProgressSink& progress, const std::shared_ptr<World>& world) {
  const bool accept = arguments.has("accept-changes");
  if (!job.note.empty()) progress.say(job.note);
  if (world->first_says(world->first() && finished_before(job, progress))) return;
  BuiltRun run = ready_run(job, registry, accept, nullptr, world);
  check_same_run(*world, job, run);
  tell_left_out(run, progress);
  tell_products(run, progress);
  const std::unique_ptr<RunLock> lock = world->first() ? held(job, registry.catalogue()) : nullptr;
  if (world->first_says(world->first() && finished_before(job, progress))) return;
  check_sees_folder(*world, job);
  const bool profiled = arguments.has("profile") && world->first();
  train(job, run, profiled, progress);
  progress.say("  " + job.folder.path());
}

/// Whether other processes are gone, and the error does not say which.
bool is_nameless(const std::exception& error) {
  return dynamic_cast<const WorldError*>(&error) != nullptr &&
         dynamic_cast<const LostProcess*>(&error) == nullptr;
}

/// Tells the others why this process ends, where it is not their end that it noticed.
void leave(World& world, const std::exception& error) {
  if (dynamic_cast<const WorldError*>(&error) == nullptr) world.leave(text_of(error));
}

/// All runs of a command, in several processes. Where one fails, the processes part.
int run_jobs_together(const std::vector<RunJob>& jobs, Registry& registry,
                      const Arguments& arguments, ProgressSink& progress,
                      const std::shared_ptr<World>& world) {
  const auto asked = [&] { return stop_requested() || world->stop(); };
  for (const RunJob& job : jobs) {
    EndRecorder noted(progress);
    try {
      run_job_together(job, registry, arguments, noted, world);
    } catch (const ConfigError&) {
      throw;
    } catch (const std::exception& error) {
      if (asked()) return kInterrupted;
      leave(*world, error);
      report_failure(job, error, noted);
      complain_of_run(job, error);
      if (is_nameless(error)) complain(world->missing().text, error);
      return kRunFailed;
    }
    if (asked()) return kInterrupted;
  }
  if (!world->first()) return kDone;
  const bool accept = arguments.has("accept-changes");
  bool all = true;
  for (const RunJob& job : jobs) {
    all &= done_for_one(jobs.size() == 1, [&] { evaluate_left(job, registry, accept, progress); });
    if (stop_requested()) return kInterrupted;
  }
  return all ? kDone : kRunFailed;
}

/// Joins the other processes of this one. @returns the exit code.
int run_together_with(const std::shared_ptr<World>& world, Registry& registry,
                      const Arguments& arguments, ProgressMode mode) {
  try {
    for (const char* option : {"ensemble", "dry-run"}) {
      if (!arguments.has(option)) continue;
      throw ConfigError(
          fmt::format("--{}: is for one process, and this is one of {}; leave it out, "
                      "or start one",
                      option, world->size()));
    }
    const std::vector<RunJob> jobs = jobs_of(arguments, registry, world->first());
    const auto progress = make_progress(world->first() ? mode : ProgressMode::none,
                                        static_cast<std::int64_t>(jobs.size()));
    check_together(*world, jobs);
    check_fresh(jobs, arguments.has("resume"));
    world->meet();  // all have looked, before the first one writes
    return run_jobs_together(jobs, registry, arguments, *progress, world);
  } catch (const WorldError& error) {
    throw LostProcess(fmt::format("{}; {}", world->missing().text, error.what()));
  } catch (const std::exception& error) {
    leave(*world, error);
    throw;
  }
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
  EndRecorder noted(progress);
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
        look_for_data_of(members[i].folder);
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

}  // namespace

int run_command(const Words& words) {
  Usage usage = run_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const ProgressMode mode = parse_progress_mode(arguments.text("progress", "auto"));
  const std::shared_ptr<World> world = world_of_this_process();
  if (world->size() > 1) return run_together_with(world, registry, arguments, mode);
  if (arguments.has("dry-run")) return dry_run(arguments, registry, mode);
  if (arguments.has("profile") && arguments.has("ensemble")) {
    throw ConfigError("--profile shows the steps of one run: leave out --ensemble");
  }
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
    all &= done_for_one(alone, [&] { done = run_job(job, registry, arguments, *progress); });
    all &= done;
    if (stop_requested()) return kInterrupted;
  }
  return all ? kDone : kRunFailed;
}

}  // namespace attnlab
