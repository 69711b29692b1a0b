#include "runner/engine/run_jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/ensembles.h"
#include "framework/host/working_folder.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/source_run.h"
#include "framework/suites/cell.h"
#include "framework/train/environment.h"
#include "framework/train/initialise.h"
#include "framework/train/task_check.h"
#include "framework/train/training_parts.h"
#include "runner/engine/open_run.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

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
std::vector<RunJob> jobs_of(const std::string& what, const Arguments& arguments, Registry& registry,
                            bool record) {
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
  const std::string root = runs_folder(arguments);
  std::vector<RunJob> jobs;
  for (const std::int64_t seed : experiment.seeds) {
    std::vector<Cell> cell = {make_cell(experiment, seed, root, identity.data)};
    const RunFolder fresh = cell.front().folder;
    decide(cell, {.accept_revision = arguments.has("accept-revision")});
    const bool finished = cell.front().action == CellAction::finished;
    if (record && !arguments.has("dry-run")) record_accepted(cell);
    jobs.push_back({experiment, seed, finished ? cell.front().folder : fresh, identity,
                    finished ? source_note(experiment, seed, cell.front().folder, catalogue)
                             : revision_note(cell.front())});
  }
  return jobs;
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

[[noreturn]] void refuse_folder(const RunJob& job, const std::string& why) {
  throw FileError(fmt::format("{}: cannot create the run's folder: {}; look at the folder above it",
                              job.folder.path(), why));
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

}  // namespace

std::vector<RunJob> jobs_of(const Arguments& arguments, Registry& registry, bool record) {
  std::vector<RunJob> jobs;
  for (const std::string& word : arguments.words) {
    for (RunJob& job : jobs_of(word, arguments, registry, record)) jobs.push_back(std::move(job));
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

void tell_products(const BuiltRun& run, ProgressSink& progress) {
  const std::string note = note_on_products(run);
  if (note.empty()) return;
  progress.say(RunFolder::label(run.experiment, run.seed) + ": " + note);
}

bool has_checkpoint(const RunFolder& folder) {
  std::error_code error;
  return fs::exists(folder.file("checkpoint.safetensors"), error);
}

void note_changes(BuiltRun& run, const RunJob& job, Registry& registry, bool accept) {
  run.accepted = has_checkpoint(job.folder) ? changes_since_start(run, job.folder)
                                            : changes_since_filed(run, job, registry);
  if (run.accepted.empty() || accept) return;
  throw ConfigError(
      fmt::format("{}: since this run began, {}; a new run (--out) keeps its numbers of one "
                  "kind; --accept-changes goes on and records it",
                  job.folder.path(), join(run.accepted, ", ")));
}

BuiltRun ready_run(const RunJob& job, Registry& registry, bool accept,
                   std::shared_ptr<Dataset> dataset, const std::shared_ptr<World>& world) {
  look_for_data_of(job.folder);
  BuiltRun run = build_run(job.experiment, job.seed, registry, std::move(dataset));
  run.world = world;
  check_tasks(run, registry);
  note_changes(run, job, registry, accept);
  initialise(run, job.folder, registry.catalogue());
  prepare_training(run);
  return run;
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

void check_place(const RunJob& job) {
  fs::path there = fs::absolute(job.folder.path());
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) refuse_folder(job, std::strerror(ENOTDIR));
  if (::access(there.c_str(), W_OK | X_OK) != 0) refuse_folder(job, std::strerror(errno));
  check_free(job.folder.path());
}

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

bool done_for_one(bool alone, const std::function<void()>& action) {
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

void check_ensemble(const RunJob& job, const Catalogue& catalogue) {
  const std::string obstacle = obstacle_to_ensemble(job.experiment, catalogue);
  if (!obstacle.empty()) throw ConfigError(fmt::format("--ensemble: {}; leave it out", obstacle));
}

std::vector<Together> listed(std::map<std::string, Together> by_key) {
  std::vector<Together> all;
  for (auto& [key, together] : by_key) all.push_back(std::move(together));
  return all;
}

ReadyRuns ready_runs(const Together& all, bool alone, Registry& registry, bool accept,
                     const std::function<bool(const RunJob&, BuiltRun&)>& take) {
  SharedData data;
  ReadyRuns ready;
  for (const RunJob* job : all) {
    ready.had &= done_for_one(alone, [&] {
      look_for_data_of(job->folder);  // before the data are opened
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

}  // namespace attnlab
