// attnlab run --dry-run: all that comes before the first step, and nothing that writes.
#include <fmt/format.h>

#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/experiment/ensembles.h"
#include "framework/nn/modules/sizes_alone.h"
#include "framework/train/costs.h"
#include "framework/train/environment.h"
#include "framework/train/task_check.h"
#include "runner/engine/run_jobs.h"

namespace attnlab {
namespace {

/// " (published: 5.7)"; empty where nothing is.
std::string published_text(double count, double unit, const char* name) {
  return count > 0 ? fmt::format(" (published: {:.4g}{})", count / unit, name) : "";
}

void show_plan(const RunJob& job, const BuiltRun& run, ProgressSink& progress) {
  const TrainOptions& train = job.experiment.train;
  const PublishedCounts& published = job.experiment.published;
  progress.say(fmt::format(
      "{}: {} parameters{}, {:.4g} GFLOPs per example (forward){}, {} training, {} validation and "
      "{} test examples from {}, {} steps of {}; would go to {}",
      RunFolder::label(job.experiment, job.seed), run.parameter_count(),
      published_text(published.parameters, 1e6, " million"), double(forward_flops(run)) / 1e9,
      published_text(2 * published.multiply_adds, 1e9, ""), run.dataset->size(Split::train),
      run.dataset->size(Split::validation), run.dataset->size(Split::test),
      one_line(run.dataset->info().source, kLongestMessageLine), run.total_steps(),
      train.batch_size, job.folder.path()));
}

void show(const RunJob& job, const BuiltRun& run, ProgressSink& progress) {
  show_plan(job, run, progress);
  tell_products(run, progress);
}

/// One that was finished before is built, and would not be trained again.
void show_finished(const RunJob& job, Registry& registry, ProgressSink& progress) {
  const SizesAlone sizes;
  look_for_data_of(job.folder);
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

}  // namespace

// Other data may be taken where these are missing: that has an exit code of its own.
int dry_run(const Arguments& arguments, Registry& registry, ProgressMode mode) {
  try {
    return show_plans(arguments, registry, mode);
  } catch (const DataMissingError& error) {
    std::cerr << fmt::format("attnlab run: {}\n", message_text(error.what()));
    return kDataMissing;
  }
}

}  // namespace attnlab
