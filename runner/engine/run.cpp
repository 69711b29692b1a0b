// attnlab run: trains and evaluates an experiment, seed by seed.
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "framework/base/text.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_result.h"
#include "framework/suites/ensembles.h"
#include "framework/train/ensemble.h"
#include "framework/train/environment.h"
#include "framework/train/initialise.h"
#include "runner/engine/engine.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

struct Job {
  Experiment experiment;
  std::int64_t seed;
  RunFolder folder;
  Identity identity;  ///< of a run that is filed anew
};

/// Opens the data as seed 0 has them: by these, runs are filed (Identity::data).
Identity identity_with_data(const Experiment& experiment, Registry& registry) {
  const auto dataset = registry.dataset(experiment.dataset, {RandomStreams(0)});
  return identity_of(experiment, dataset->info().fingerprint);
}

/// The runs that a word names: a run's folder, or an experiment with its seeds.
std::vector<Job> jobs_of(const std::string& what, const Arguments& arguments, Registry& registry) {
  const Catalogue& catalogue = registry.catalogue();
  if (fs::exists(what + "/config.yaml")) {
    if (!arguments.overrides.empty()) {
      throw ConfigError(what + ": a run's configuration is frozen; it takes no " +
                        arguments.overrides[0]);
    }
    const RunFolder folder(what);
    const Experiment experiment = folder.experiment(catalogue);
    return {{experiment, experiment.seeds.at(0), folder, {}}};
  }
  if (fs::is_directory(what)) throw ConfigError(what + ": is not a run folder (no config.yaml)");
  const std::string path = find_composition(what, "experiments");
  const Experiment experiment = load_experiment(path, arguments.overrides, catalogue);
  const Identity identity = identity_with_data(experiment, registry);
  const std::string root = arguments.text("out", "runs");
  std::vector<Job> jobs;
  for (const std::int64_t seed : experiment.seeds) {
    jobs.push_back({experiment, seed, RunFolder::of(root, experiment, seed, identity), identity});
  }
  return jobs;
}

std::vector<Job> jobs_of(const Arguments& arguments, Registry& registry) {
  std::vector<Job> jobs;
  for (const std::string& word : arguments.words) {
    for (Job& job : jobs_of(word, arguments, registry)) jobs.push_back(std::move(job));
  }
  return jobs;
}

void check_fresh(const std::vector<Job>& jobs, bool resume) {
  for (const Job& job : jobs) {
    const RunStatus status = job.folder.status();
    if (resume || status.finished() || status.state == RunState::pending) continue;
    throw ConfigError(job.folder.path() + ": this run was begun and is " +
                      std::string(name_of(status.state)) + " at step " +
                      std::to_string(status.step) +
                      "; add --resume to go on, or remove the folder to start over");
  }
}

void show_plan(const Job& job, const BuiltRun& run, ProgressSink& progress) {
  const TrainOptions& train = job.experiment.train;
  progress.say(
      RunFolder::label(job.experiment, job.seed) + ": " + std::to_string(run.parameter_count()) +
      " parameters, " + std::to_string(run.dataset->size(Split::train)) + " training, " +
      std::to_string(run.dataset->size(Split::validation)) + " validation and " +
      std::to_string(run.dataset->size(Split::test)) + " test examples from " +
      run.dataset->info().source + ", " + std::to_string(run.total_steps()) + " steps of " +
      std::to_string(train.batch_size) + "; would go to " + job.folder.path());
}

/// `--dry-run`. @returns an exit code: other data may be taken where these are missing.
int show_plans(const Arguments& arguments, Registry& registry, ProgressMode mode) {
  const auto progress = make_progress(mode);
  try {
    for (const Job& job : jobs_of(arguments, registry)) {
      show_plan(job, build_run(job.experiment, job.seed, registry), *progress);
    }
  } catch (const DataMissingError& error) {
    std::cerr << "attnlab run: " << error.what() << "\n";
    return kDataMissing;
  }
  return kDone;
}

/// Whether a run was finished before; then that is told.
bool finished_before(const Job& job, ProgressSink& progress) {
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

/// A run that is ready to be trained from where it stands.
/// @param accept  go on although something changed since the run began
/// @throws ConfigError naming what changed.
BuiltRun ready_run(const Job& job, Registry& registry, bool accept,
                   std::shared_ptr<Dataset> dataset = nullptr) {
  BuiltRun run = build_run(job.experiment, job.seed, registry, std::move(dataset));
  run.accepted = changes_since_start(run, job.folder);
  if (!run.accepted.empty() && !accept) {
    throw ConfigError(job.folder.path() + ": since this run began, " + join(run.accepted, ", ") +
                      "; a new run (--out) keeps its numbers of one kind; --accept-changes goes on "
                      "and records it");
  }
  initialise(run, job.folder, registry.catalogue());
  return run;
}

/// @returns false when the run failed.
bool run_job(const Job& job, Registry& registry, bool accept, ProgressSink& progress) {
  if (finished_before(job, progress)) return true;
  BuiltRun run = ready_run(job, registry, accept);
  job.folder.freeze(job.experiment, job.seed, job.identity);
  const RunLock lock(job.folder.path());
  try {
    train_run(run, job.folder, progress, stop_requested());
  } catch (const std::exception& error) {
    progress.say("");  // ends a bar's line
    std::cerr << "attnlab run: " << job.folder.path() << ": the run failed: " << error.what()
              << "\n";
    return false;
  }
  progress.say("  " + job.folder.path());
  return true;
}

/// Opens data once where several runs have the same.
class SharedData {
 public:
  std::shared_ptr<Dataset> of(const Job& job, Registry& registry) {
    const RandomStreams streams(static_cast<std::uint64_t>(job.seed));
    const auto opened = registry.dataset(job.experiment.dataset, {streams});
    const DatasetInfo& info = opened->info();
    return known_.emplace(info.name + info.fingerprint, opened).first->second;
  }

 private:
  std::map<std::string, std::shared_ptr<Dataset>> known_;
};

/// Runs that can be trained together, and have not been finished before.
using Together = std::vector<const Job*>;

/// @throws ConfigError where there is a run that cannot be trained together with any.
std::vector<Together> ensembles_of(const std::vector<Job>& jobs, Registry& registry,
                                   ProgressSink& progress) {
  std::map<std::string, Together> by_key;
  for (const Job& job : jobs) {
    const std::string obstacle = obstacle_to_ensemble(job.experiment, registry.catalogue());
    if (!obstacle.empty()) throw ConfigError("--ensemble: " + obstacle + "; leave it out");
    if (!finished_before(job, progress)) by_key[ensemble_key(job.experiment)].push_back(&job);
  }
  std::vector<Together> all;
  for (auto& [key, together] : by_key) all.push_back(std::move(together));
  return all;
}

/// @returns false when the runs failed.
bool run_together(const Together& jobs, Registry& registry, bool accept, ProgressSink& progress) {
  SharedData data;
  std::vector<Member> members;
  std::vector<std::unique_ptr<RunLock>> locks;
  for (const Job* job : jobs) {
    BuiltRun run = ready_run(*job, registry, accept, data.of(*job, registry));
    run.together = static_cast<std::int64_t>(jobs.size());
    job->folder.freeze(job->experiment, job->seed, job->identity);
    locks.push_back(std::make_unique<RunLock>(job->folder.path()));
    members.push_back({std::move(run), job->folder});
  }
  try {
    train_ensemble(members, registry, progress, stop_requested());
  } catch (const std::exception& error) {
    progress.say("");  // ends a bar's line
    std::cerr << "attnlab run: " << jobs.size()
              << " runs that were trained together failed: " << error.what() << "\n";
    return false;
  }
  for (const Member& member : members) progress.say("  " + member.folder.path());
  return true;
}

}  // namespace

int run_command(const Words& words) {
  Usage usage = run_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const ProgressMode mode = parse_progress_mode(arguments.text("progress", "auto"));
  if (arguments.has("dry-run")) return show_plans(arguments, registry, mode);
  const std::vector<Job> jobs = jobs_of(arguments, registry);
  const auto progress = make_progress(mode, static_cast<std::int64_t>(jobs.size()));
  check_fresh(jobs, arguments.has("resume"));
  const bool accept = arguments.has("accept-changes");
  bool all = true;
  if (arguments.has("ensemble")) {
    for (const Together& together : ensembles_of(jobs, registry, *progress)) {
      all &= run_together(together, registry, accept, *progress);
      if (stop_requested()) return kInterrupted;
    }
    return all ? kDone : kRunFailed;
  }
  for (const Job& job : jobs) {
    all &= run_job(job, registry, accept, *progress);
    if (stop_requested()) return kInterrupted;
  }
  return all ? kDone : kRunFailed;
}

}  // namespace attnlab
