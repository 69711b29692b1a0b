// The array jobs that a suite was submitted as, and what Slurm says of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/runs/run_folder.h"

namespace attnlab {

/// A run of a job. Its place in the job is the number of its array task.
struct SlurmTask {
  std::string folder;  ///< relative to the suite's: "vit/quest/0-1a2b3c4d"
  std::string label;
};

/// One submission.
struct SlurmJob {
  std::int64_t number = 0;  ///< of the folder below slurm/, from 1
  std::string name;         ///< "attnlab-quickstart-1a2b3c4d-1": of one suite folder alone
  std::string id;           ///< Slurm's number; empty where sbatch has not told it
  std::vector<SlurmTask> tasks;
};

/// "runs/quickstart/slurm".
std::string slurm_folder(const std::string& suite_folder);
/// The folder of one submission.
std::string job_folder(const std::string& suite_folder, const SlurmJob& job);
/// The file that a task's output goes to; "%a" for all of them.
std::string output_file(const std::string& suite_folder, const SlurmJob& job,
                        const std::string& task);

/// The number of the job in what `sbatch --parsable` printed, where a site's own words may stand
/// around it; empty where there is none.
std::string submitted_id(const std::string& printed);

/// What slurm/jobs.json records; empty without one. @throws DataError for a damaged file.
std::vector<SlurmJob> read_jobs(const std::string& suite_folder);
void write_jobs(const std::string& suite_folder, const std::vector<SlurmJob>& jobs);

/// The latest task of a run.
struct TaskPlace {
  const SlurmJob* job = nullptr;
  std::size_t task = 0;
};
/// By the run's folder, relative to the suite's. @param jobs  must outlive the places
std::map<std::string, TaskPlace> latest_tasks(const std::vector<SlurmJob>& jobs);

/// What squeue says of a task.
struct TaskState {
  std::string id;     ///< "12_3"
  std::string state;  ///< "PENDING", "RUNNING", "OUT_OF_MEMORY"
  std::string nodes;  ///< that it runs on
  std::string reason;

  /// It waits, runs, or is about to again; not: it has ended.
  bool active() const;
};

/// Tasks that Slurm knows, by their job's name and their number: those waiting and running, and
/// those that ended some minutes ago.
using Queue = std::map<std::pair<std::string, std::size_t>, TaskState>;

/// Asks squeue. @throws ConfigError where it is not there, Error with its words where it fails.
Queue ask_queue(const std::vector<SlurmJob>& jobs);
/// The number of the job that squeue has under this job's name; empty where it has none.
/// @throws as `ask_queue`.
std::string id_in_queue(const SlurmJob& job);

/// A task that is stopped so many times in a row without a step would go round for ever.
inline constexpr std::int64_t kVainStops = 3;
/// Where its stops are counted, beside its output.
std::string vain_file(const std::string& job_folder, const std::string& task);
/// Counts how often in a row a task was stopped without a step, this time included. Slurm's own
/// count of restarts has those in which the run went forward, too.
/// @param file    the run's step at the last count, and that count. Going forward in between, in a
///                time that was killed before it counted, ends the row
/// @param before  the run's step when the task began
/// @param after   and when it was stopped
std::int64_t count_vain(const std::string& file, std::int64_t before, std::int64_t after);

/// What Slurm says of the runs of one suite, by the paths of their folders; asks it at most once.
/// @throws Error where the record of what was submitted cannot be read.
std::map<std::string, std::string> slurm_states(const std::string& suite_folder);

}  // namespace attnlab
