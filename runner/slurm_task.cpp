// attnlab slurm-task: what a task of an array job does. Not for people; job scripts call it.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "framework/base/files.h"
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
      "Carries out the cell that the task's number names, inside a Slurm array job. Job scripts\n"
      "that `attnlab suite --launcher slurm` writes call it.";
  usage.options.add_options()("fail-fast", "cancel the whole job when the run fails");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string task = slurm_number("SLURM_ARRAY_TASK_ID");
  const std::string array = slurm_number("SLURM_ARRAY_JOB_ID");
  const LaunchedCell cell = cell_of(arguments.words[0], task);
  const RunStatus before = cell.folder.status();
  if (before.finished()) return kDone;
  LocalLauncher().launch({cell}, {}, *make_progress(ProgressMode::plain));
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
