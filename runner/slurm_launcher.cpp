#include "runner/slurm_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "runner/process.h"
#include "runner/slurm_jobs.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// What the launcher says to sbatch itself.
constexpr std::array<std::string_view, 11> kOwnOptions = {
    "array",  "chdir",    "error",   "job-name",  "no-requeue", "open-mode",
    "output", "parsable", "requeue", "test-only", "wrap"};

/// Options that get a value from the launcher unless they are given.
constexpr std::string_view kSignal = "signal";

std::string key_of(const std::string& option) { return option.substr(0, option.find('=')); }

/// A job's name: says the suite, and belongs to this folder alone, so that squeue can be asked for
/// it even where its id was never recorded.
std::string name_of_job(const std::string& suite_folder, std::int64_t number) {
  const fs::path path = fs::weakly_canonical(suite_folder);
  std::string name = path.filename();
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return fmt::format("attnlab-{}-{}-{}", name, hex(fingerprint(path.string())).substr(0, 8),
                     number);
}

/// How many tasks Slurm takes in one array (its default where it does not say).
std::size_t largest_array() {
  constexpr std::size_t kDefault = 1001;
  const Captured answer = capture({"scontrol", "show", "config"});
  const std::size_t at = answer.out.find("MaxArraySize");
  if (!answer.ok() || at == std::string::npos) return kDefault;
  std::istringstream rest(answer.out.substr(answer.out.find('=', at) + 1));
  std::size_t size = 0;
  return rest >> size && size > 0 ? size : kDefault;
}

/// The batch script. The program takes the shell's place, so that Slurm's SIGTERM reaches it.
std::string script_text(const std::string& cells_file, bool fail_fast) {
  return fmt::format(
      "#!/bin/sh\n# Written by attnlab. Each task of the array does one line of cells.txt; stopped "
      "before\n# its time limit, it writes a checkpoint and goes back into the queue.\nexport "
      "OMP_NUM_THREADS=\"${{SLURM_CPUS_ON_NODE:-1}}\"\nexec {} slurm-task {}{}\n",
      shell_word(fs::read_symlink("/proc/self/exe").string()), shell_word(cells_file),
      fail_fast ? " --fail-fast" : "");
}

/// One call of `launch`.
class Submission {
 public:
  Submission(const LaunchOptions& options, ProgressSink& progress)
      : folder_(options.suite_folder), options_(options), progress_(progress) {
    std::error_code error;
    fs::create_directories(slurm_folder(folder_), error);
    if (error)
      throw FileError(
          fmt::format("{}: cannot be created: {}", slurm_folder(folder_), error.message()));
  }

  void run(const std::vector<LaunchedCell>& cells) {
    // Keeps a second attnlab from submitting the same cells at the same time.
    const FileLock lock(slurm_folder(folder_) + "/lock");
    if (lock.state() != FileLock::State::held) {
      throw ConfigError(slurm_folder(folder_) +
                        ": another attnlab submits runs of this suite now; try again later");
    }
    jobs_ = read_jobs(folder_);
    const std::vector<SlurmTask> tasks = without_queued(cells);
    if (tasks.empty()) return;
    const std::size_t most = largest_array();
    for (std::size_t begin = 0; begin < tasks.size(); begin += most) {
      const std::size_t end = std::min(tasks.size(), begin + most);
      submit({tasks.begin() + static_cast<std::ptrdiff_t>(begin),
              tasks.begin() + static_cast<std::ptrdiff_t>(end)});
    }
    progress_.say("follow them with: attnlab status " + folder_);
  }

 private:
  /// The cells that Slurm does not have yet; says which it has.
  std::vector<SlurmTask> without_queued(const std::vector<LaunchedCell>& cells) {
    const Queue queue = ask_queue(jobs_);
    const std::map<std::string, TaskPlace> latest = latest_tasks(jobs_);
    std::vector<SlurmTask> tasks;
    std::size_t waiting = 0;
    for (const LaunchedCell& cell : cells) {
      const std::string folder = fs::path(cell.folder.path()).lexically_relative(folder_);
      const auto place = latest.find(folder);
      if (place != latest.end()) {
        const auto known = queue.find({place->second.job->name, place->second.task});
        if (known != queue.end() && known->second.active()) {
          ++waiting;
          continue;
        }
      }
      tasks.push_back({folder, cell.label});
    }
    if (waiting > 0) {
      progress_.say(fmt::format("{}{} in Slurm's queue already and not submitted again{}", waiting,
                                waiting == 1 ? " run is" : " runs are",
                                tasks.empty() ? "; follow with: attnlab status " + folder_ : ""));
    }
    return tasks;
  }

  void submit(const std::vector<SlurmTask>& tasks) {
    SlurmJob job;
    job.number = jobs_.empty() ? 1 : jobs_.back().number + 1;
    job.name = name_of_job(folder_, job.number);
    job.tasks = tasks;
    write_job(job);
    // Recorded before and after: killed in between, the job's name still finds it in the queue.
    jobs_.push_back(job);
    write_jobs(folder_, jobs_);
    const Captured answer = capture(command(job));
    if (!answer.ok()) {
      jobs_.pop_back();
      write_jobs(folder_, jobs_);
      refuse(answer);
    }
    const std::string id = answer.out.substr(0, answer.out.find_first_of(";\n"));
    jobs_.back().id = id;
    write_jobs(folder_, jobs_);
    progress_.say(fmt::format("submitted {}{} as Slurm's job {}", tasks.size(),
                              tasks.size() == 1 ? " run" : " runs", id));
  }

  void write_job(const SlurmJob& job) const {
    const std::string folder = job_folder(folder_, job);
    fs::create_directories(folder);
    std::string cells;
    for (const SlurmTask& task : job.tasks) {
      const fs::path run = fs::absolute(fs::path(folder_) / task.folder).lexically_normal();
      cells += fmt::format("{}\t{}\n", run.string(), task.label);
    }
    const std::string cells_file = fs::absolute(folder + "/cells.txt").lexically_normal();
    write_file(cells_file, cells);
    write_file(folder + "/job.sh", script_text(cells_file, options_.fail_fast));
  }

  Words command(const SlurmJob& job) const {
    // In a file's name % stands for something, unless it is doubled.
    std::string output = fs::absolute(output_file(folder_, job, "")).lexically_normal();
    output.resize(output.size() - std::string_view(".txt").size());
    for (std::size_t at = 0; (at = output.find('%', at)) != std::string::npos; at += 2) {
      output.insert(at, "%");
    }
    Words words = {"sbatch",
                   "--parsable",
                   "--requeue",
                   "--open-mode=append",
                   "--job-name=" + job.name,
                   "--chdir=" + fs::current_path().string(),
                   fmt::format("--output={}%a.txt", output),
                   fmt::format("--array=0-{}{}", job.tasks.size() - 1,
                               options_.jobs > 0 ? fmt::format("%{}", options_.jobs) : "")};
    const auto is_signal = [](const std::string& option) { return key_of(option) == kSignal; };
    if (std::none_of(options_.slurm.begin(), options_.slurm.end(), is_signal)) {
      words.emplace_back("--signal=B:TERM@120");
    }
    for (const std::string& option : options_.slurm) words.push_back("--" + option);
    words.push_back(job_folder(folder_, job) + "/job.sh");
    return words;
  }

  [[noreturn]] void refuse(const Captured& answer) const {
    if (!answer.found) {
      throw ConfigError(
          "--launcher slurm: there is no program 'sbatch' in PATH; submit from a machine of the "
          "cluster, or run here with --launcher local");
    }
    std::string given;
    for (const std::string& option : options_.slurm) given += " --slurm " + option;
    throw ConfigError(
        fmt::format("--launcher slurm: sbatch refused the job, nothing was submitted{}\n{}",
                    given.empty() ? "; job options are given as --slurm KEY=VALUE"
                                  : "; mend its options:" + given,
                    last_words(answer)));
  }

  std::string folder_;
  const LaunchOptions& options_;
  ProgressSink& progress_;
  std::vector<SlurmJob> jobs_;
};

}  // namespace

void SlurmLauncher::launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
                           ProgressSink& progress) {
  check_slurm_options(options.slurm);
  if (!cells.empty()) Submission(options, progress).run(cells);
}

void check_slurm_options(const Words& options) {
  for (const std::string& option : options) {
    const std::string key = key_of(option);
    const bool is_name =
        !key.empty() && key[0] != '-' &&
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    if (!is_name) {
      throw ConfigError(
          fmt::format("--slurm {}: expected KEY=VALUE, KEY being a long option of sbatch without "
                      "its dashes, as in --slurm time=4:00:00",
                      option));
    }
    if (std::find(kOwnOptions.begin(), kOwnOptions.end(), key) != kOwnOptions.end()) {
      throw ConfigError(
          fmt::format("--slurm {}: attnlab says --{} to sbatch itself; leave it out{}", option, key,
                      key == "array" ? " (-j sets how many runs there are at once)" : ""));
    }
  }
}

}  // namespace attnlab
