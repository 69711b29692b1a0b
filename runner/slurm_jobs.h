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
  std::string id;           ///< Slurm's; empty while sbatch has not answered
  std::vector<SlurmTask> tasks;
};

/// "runs/quickstart/slurm".
std::string slurm_folder(const std::string& suite_folder);
/// The folder of one submission.
std::string job_folder(const std::string& suite_folder, const SlurmJob& job);
/// The file that a task's output goes to; "%a" for all of them.
std::string output_file(const std::string& suite_folder, const SlurmJob& job,
                        const std::string& task);

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

/// As `launcher_states`.
std::map<std::string, std::string> slurm_states(const std::string& suite_folder);

}  // namespace attnlab
