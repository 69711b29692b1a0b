// The runs that a command line names, and what comes before each one's first step: shared by a run
// and its rehearsal (--dry-run), so that both refuse the same.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"
#include "framework/experiment/identity.h"
#include "framework/host/registry.h"
#include "framework/runs/run_folder.h"
#include "framework/runs/run_lock.h"
#include "framework/train/ensemble.h"
#include "framework/train/run.h"
#include "runner/arguments.h"

namespace attnlab {

struct RunJob {
  Experiment experiment;
  std::int64_t seed;
  RunFolder folder;
  Identity identity;  ///< of a run that is filed anew
  std::string note;   ///< for people, before it runs
};

/// The runs that the words name: runs' folders, and experiments with their seeds.
/// @param record  whether finished runs that are counted by --accept-revision are marked
/// @throws ConfigError, DataMissingError.
std::vector<RunJob> jobs_of(const Arguments& arguments, Registry& registry, bool record = true);

/// @throws ConfigError for a run that was begun, without `--resume`.
void check_fresh(const std::vector<RunJob>& jobs, bool resume);

/// Whether numbers of the run are there that it goes on from.
bool has_checkpoint(const RunFolder& folder);

/// Notes in the run what changed since it began, or since it was filed where it has no numbers yet.
/// @param accept  go on all the same. @throws ConfigError naming what changed.
void note_changes(BuiltRun& run, const RunJob& job, Registry& registry, bool accept);

/// Builds a run that is ready to be trained from where it stands.
/// @param accept   go on although plugins, data or attnlab changed since it began
/// @param dataset  its data, where they are open already
/// @param world    the processes that carry it out
/// @throws ConfigError naming what changed.
BuiltRun ready_run(const RunJob& job, Registry& registry, bool accept,
                   std::shared_ptr<Dataset> dataset = nullptr,
                   const std::shared_ptr<World>& world = World::alone());

/// What `held` would refuse. @throws as `held`.
void check_place(const RunJob& job);
/// Holds a run's folder before the first byte is written into it. @throws FileError, BusyError.
std::unique_ptr<RunLock> held(const RunJob& job, const Catalogue& catalogue);

/// Does something for one run of several. @returns false where another process holds it, its folder
/// cannot be written, or its data changed: that is said, and the others go on.
/// @param alone  it is the only run: that is thrown
bool done_for_one(bool alone, const std::function<void()>& action);

/// Runs that can be trained together, and have not been finished before.
using Together = std::vector<const RunJob*>;

/// @throws ConfigError where it is a run that cannot be trained together with any.
void check_ensemble(const RunJob& job, const Catalogue& catalogue);
std::vector<Together> listed(std::map<std::string, Together> by_key);

/// Runs that are trained together.
struct ReadyRuns {
  Together jobs;
  std::vector<Member> members;
  bool had = true;  ///< false where one is left out
};

/// @param alone  this is the only run of the command
/// @param take   whether a run that is ready takes part
ReadyRuns ready_runs(const Together& all, bool alone, Registry& registry, bool accept,
                     const std::function<bool(const RunJob&, BuiltRun&)>& take);

/// Says where the processor lacks the precision that is asked for.
void tell_products(const BuiltRun& run, ProgressSink& progress);
void complain(const std::string& what, const std::exception& error);
void complain_of_run(const RunJob& job, const std::exception& error);
void complain_of_runs(std::size_t together, const std::exception& error);

/// `attnlab run --dry-run`. @returns its exit code.
int dry_run(const Arguments& arguments, Registry& registry, ProgressMode mode);

}  // namespace attnlab
