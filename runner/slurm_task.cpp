// attnlab slurm-task: what a task of an array job does. Not for people; job scripts call it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/frozen.h"
#include "framework/runs/run_lock.h"
#include "runner/commands.h"
#include "runner/local_launcher.h"
#include "runner/process.h"
#include "runner/slurm_jobs.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// A number that Slurm gives its tasks. @throws ConfigError outside of a task.
std::string slurm_number(const char* variable) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0' &&
      std::string(value).find_first_not_of("0123456789") == std::string::npos) {
    return value;
  }
  throw ConfigError(
      fmt::format("slurm-task: {} is not set to a number; this command is for tasks of a Slurm "
                  "array, see attnlab suite --help",
                  variable));
}

/// The line of this task. @param task  counted from 0
LaunchedCell cell_of(const std::string& cells_file, const std::string& task) {
  std::istringstream lines(read_text(cells_file));
  std::string line;
  std::size_t number = 0;
  bool found = std::from_chars(task.data(), task.data() + task.size(), number).ec == std::errc();
  for (std::size_t i = 0; found && i <= number; ++i) found = bool(std::getline(lines, line));
  if (!found) {
    throw DataError(
        fmt::format("{}: has no line for task {}; submit the suite again", cells_file, task));
  }
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos)
    throw DataError(fmt::format("{}: no tab in '{}'", cells_file, line));
  return {RunFolder(line.substr(0, tab)), line.substr(tab + 1), ""};
}

/// A number of the job's environment; 1 where it is not set.
std::int64_t count_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return std::max<std::int64_t>(
      1, parsed_number<std::int64_t>(value == nullptr ? "" : value).value_or(1));
}

/// Those that were asked for, else its share of the node's.
std::int64_t cores_of_a_task() {
  if (std::getenv("SLURM_CPUS_PER_TASK") != nullptr) return count_of("SLURM_CPUS_PER_TASK");
  const std::int64_t nodes = count_of("SLURM_JOB_NUM_NODES");
  const std::int64_t tasks = (count_of("SLURM_NTASKS") + nodes - 1) / nodes;
  return std::max<std::int64_t>(1, count_of("SLURM_CPUS_ON_NODE") / tasks);
}

/// What starts a run in the processes that Slurm has for it (`--slurm ntasks=2`): as many as its
/// batches have parts for. Without words where that is one.
Starter starter_of(const RunFolder& folder) {
  const auto tasks = static_cast<std::uint64_t>(count_of("SLURM_NTASKS"));
  if (tasks == 1) return {};
  std::int64_t parts = 1;
  try {
    const Node config = frozen_file(folder.file("config.yaml"));
    const Node* const given = find_key(config, "train.parts");
    if (given != nullptr) parts = std::max<std::int64_t>(1, given->as_int().value_or(1));
  } catch (const Error&) {
    return {};  // the run says it
  }
  const std::uint64_t most = std::min(tasks, static_cast<std::uint64_t>(parts));
  const std::uint64_t processes = std::bit_floor(most);
  if (processes < tasks) {
    std::cerr << fmt::format(
        "attnlab slurm-task: the run has train.parts: {}, so it takes {} of the job's {} tasks\n",
        parts, processes, tasks);
  }
  if (processes == 1) return {};
  const std::int64_t cores = cores_of_a_task();
  Starter starter;
  // The first process goes on for a while after the others, and may outlive one that died.
  starter.words = {"srun",         fmt::format("--ntasks={}", processes),
                   "--wait=0",     "--kill-on-bad-exit=0",
                   "--input=none", fmt::format("--export=ALL,OMP_NUM_THREADS={}", cores)};
  // Since Slurm 22.05 srun does not take these of the job.
  if (std::getenv("SLURM_CPUS_PER_TASK") != nullptr) {
    starter.words.push_back(fmt::format("--cpus-per-task={}", cores));
  }
  starter.stop_signal = SIGUSR1;  // on SIGTERM srun kills its tasks
  return starter;
}

/// Puts the task back into the queue, unless somebody cancelled it. @returns an exit code.
int requeue(const std::string& job) {
  const Captured shown = capture({"scontrol", "--oneliner", "show", "job", job});
  if (shown.out.find("JobState=RUNNING") == std::string::npos) return kInterrupted;
  const Captured answer = capture({"scontrol", "requeue", job});
  if (answer.ok()) return kDone;
  std::cerr << "attnlab slurm-task: the run is interrupted, and Slurm does not take job " << job
            << " back: " << last_words(answer) << "; submit the suite again\n";
  return kInterrupted;
}

}  // namespace

int slurm_task_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab slurm-task CELLS [--fail-fast]";
  usage.about =
      "Runs the cell with the task's number, inside a Slurm array job. The job scripts of\n"
      "`attnlab suite --launcher slurm` call this command.";
  usage.options.add_options()("fail-fast", "cancel the whole job when the run fails");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string task = slurm_number("SLURM_ARRAY_TASK_ID");
  const std::string array = slurm_number("SLURM_ARRAY_JOB_ID");
  const LaunchedCell cell = cell_of(arguments.words[0], task);
  const RunStatus before = cell.folder.status();
  if (before.finished()) return kDone;
  LaunchOptions options;
  options.starter = starter_of(cell.folder);
  LocalLauncher().launch({cell}, options, *make_progress(ProgressMode::plain));
  const RunStatus status = cell.folder.status();
  if (status.finished()) return kDone;
  if (holder_of(cell.folder.path())) return kRunFailed;  // the launcher has said it
  if (status.state != RunState::failed || interrupted()) {
    const std::string file = vain_file(fs::path(arguments.words[0]).parent_path(), task);
    const std::int64_t vain = count_vain(file, before.step, status.step);
    if (vain >= kVainStops) {
      std::cerr << "attnlab slurm-task: stopped " << vain
                << " times in a row without a step; ask for more time (--slurm time=...), or for "
                   "SIGTERM closer to the limit (--slurm signal=B:TERM@60)\n";
      return kInterrupted;
    }
    return requeue(fmt::format("{}_{}", array, task));
  }
  if (arguments.has("fail-fast")) capture({"scancel", array});
  return kRunFailed;
}

}  // namespace attnlab
