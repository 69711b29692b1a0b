#include "runner/slurm_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/links.h"
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

/// With these sbatch does not say which job it submitted, or submits none.
constexpr std::array<std::string_view, 4> kSilentOptions = {"help", "quiet", "usage", "version"};

/// With these the job is in another cluster, where squeue and the others do not look for it.
constexpr std::array<std::string_view, 2> kClusterOptions = {"cluster", "clusters"};

/// With this sbatch ends with its jobs, and as they do: nothing would be said of them until then.
constexpr std::array<std::string_view, 1> kWaitingOptions = {"wait"};

/// What sbatch and squeue read of the environment as they do those options.
constexpr std::array<const char*, 2> kClusterVariables = {"SBATCH_CLUSTERS", "SLURM_CLUSTERS"};
constexpr const char* kWaitingVariable = "SBATCH_WAIT";

constexpr std::string_view kOneCluster =
    "attnlab asks the cluster of this machine about its jobs, and no other";
constexpr std::string_view kNoWait =
    "sbatch would wait for the end of all runs, and attnlab with it";

/// Options that get a value from the launcher unless they are given.
constexpr std::string_view kSignal = "signal";

std::string key_of(const std::string& option) { return option.substr(0, option.find('=')); }

/// Which of some options a key names, also cut short, as sbatch understands it; empty: none.
template <std::size_t N>
std::string_view named_by(const std::string& key, const std::array<std::string_view, N>& options) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](std::string_view option) { return option.starts_with(key); });
  return found == options.end() ? std::string_view() : *found;
}

/// Why an option of sbatch is not to be given; empty where it may be.
std::string objection_to(const std::string& key) {
  // A wrong guess would be a wrong reason: "par" may be meant for another option than "parsable".
  for (const std::string_view full : {named_by(key, kOwnOptions), named_by(key, kSilentOptions),
                                      named_by(key, kWaitingOptions)}) {
    if (full.empty()) continue;
    if (full == key) break;
    return fmt::format("may be short for --{}, which cannot be given here; write the option out",
                       full);
  }
  if (const std::string_view own = named_by(key, kOwnOptions); !own.empty()) {
    return fmt::format("attnlab says --{} to sbatch itself; leave it out{}", own,
                       own == "array" ? " (-j sets how many runs there are at once)" : "");
  }
  if (const std::string_view silent = named_by(key, kSilentOptions); !silent.empty()) {
    return fmt::format("with --{} sbatch does not say which job it submitted; leave it out",
                       silent);
  }
  if (!named_by(key, kWaitingOptions).empty()) {
    return fmt::format("{}; leave it out, and follow the runs with: attnlab status", kNoWait);
  }
  if (!named_by(key, kClusterOptions).empty()) {
    return fmt::format("{}; submit from a machine of that cluster", kOneCluster);
  }
  return "";
}

/// @throws ConfigError for a variable of the environment that is an option as those refused.
void check_slurm_environment() {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  for (const char* name : kClusterVariables) {
    if (!is_set(name)) continue;
    throw ConfigError(
        fmt::format("--launcher slurm: the environment has {}={}: {}; unset it where that is this "
                    "cluster, else submit from a machine of that one",
                    name, std::getenv(name), kOneCluster));
  }
  const char* const waits = std::getenv(kWaitingVariable);
  if (!is_set(kWaitingVariable) || std::string_view(waits) == "0" ||
      std::string_view(waits) == "no") {
    return;
  }
  throw ConfigError(fmt::format("--launcher slurm: the environment has {}: {}; unset it",
                                kWaitingVariable, kNoWait));
}

/// Whether sbatch ended without Slurm's answer, so that the job may come into the queue yet.
bool is_unanswered(const Captured& answer) {
  return answer.exit_code < 0 || last_words(answer).find("timed out") != std::string::npos;
}

/// A job's name: says the suite, and belongs to this submission alone, so that squeue can be asked
/// for it even where its id was never recorded. A folder may be deleted and made again while its
/// jobs wait, so the time counts, too.
std::string name_of_job(const std::string& suite_folder, std::int64_t number) {
  const fs::path path = fs::weakly_canonical(suite_folder);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::string name = path.filename();
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  const std::string key = fmt::format("{} {}", path.string(), now);
  return fmt::format("attnlab-{}-{}-{}", name, hex(fingerprint(key)).substr(0, 8), number);
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
    refuse_links(slurm_folder(folder_));
  }

  void run(const std::vector<LaunchedCell>& cells) {
    // Keeps a second attnlab from submitting the same cells at the same time.
    const FileLock lock(slurm_folder(folder_) + "/lock");
    if (lock.state() != FileLock::State::held) {
      throw ConfigError(slurm_folder(folder_) +
                        ": another attnlab submits runs of this suite now; try again later");
    }
    // That of an allocation in which this is called: sbatch hands it on where it sets none.
    ::unsetenv("SLURM_NTASKS");
    jobs_ = read_jobs(folder_);
    const std::vector<SlurmTask> tasks = without_queued(cells);
    if (tasks.empty()) return;
    total_ = tasks.size();
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
    jobs_.back().id = answer.ok() ? submitted_id(answer.out) : id_despite(answer);
    write_jobs(folder_, jobs_);
    tell(jobs_.back(), answer);
  }

  /// The number of a job that Slurm took although sbatch failed, as where its answer came too late.
  /// @throws ConfigError where it was refused; its record is gone then. Error where that is not
  ///         known; the record stays, so that the job's name finds it once it is in the queue.
  std::string id_despite(const Captured& answer) {
    std::string id, problem;
    if (answer.found) {
      // A number that is printed may be any site's; the queue knows.
      const std::string printed = submitted_id(answer.out);
      try {
        id = id_in_queue(jobs_.back());
        if (!printed.empty()) problem = fmt::format("it printed {}, which is not there", printed);
        if (is_unanswered(answer)) problem = "it is not in the queue yet";
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    if (!id.empty()) return id;
    if (!problem.empty()) doubt(answer, problem);
    jobs_.pop_back();
    write_jobs(folder_, jobs_);
    refuse(answer);
  }

  void tell(const SlurmJob& job, const Captured& answer) {
    submitted_ += job.tasks.size();
    names_.push_back(job.id.empty() ? job.name : job.id);
    std::string more;
    if (!answer.ok()) {
      more = "; sbatch failed, but Slurm has the job: " + one_line(last_words(answer));
    } else if (job.id.empty()) {
      more = "; sbatch did not print its number, so attnlab will look for it by this name";
    }
    progress_.say(fmt::format("submitted {}{} as Slurm's job {}{}", job.tasks.size(),
                              job.tasks.size() == 1 ? " run" : " runs", names_.back(), more));
  }

  void write_job(const SlurmJob& job) const {
    const std::string folder = job_folder(folder_, job);
    fs::create_directories(folder);
    std::string cells;
    for (std::size_t i = 0; i < job.tasks.size(); ++i) {
      const SlurmTask& task = job.tasks[i];
      std::error_code none;  // of an earlier job of this number, whose record was deleted
      fs::remove(vain_file(folder, std::to_string(i)), none);
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

  /// "2 of 4 runs were submitted as job 101": of this call; empty where none was.
  std::string so_far() const {
    if (submitted_ == 0) return "";
    return fmt::format("{} of {} runs {} submitted as {} {}", submitted_, total_,
                       submitted_ == 1 ? "was" : "were", names_.size() == 1 ? "job" : "jobs",
                       join(names_, ", "));
  }

  [[noreturn]] void doubt(const Captured& answer, const std::string& problem) const {
    const std::string before = so_far();
    throw Error(fmt::format(
        "--launcher slurm: {}sbatch failed, and it is not known whether Slurm took the {}: {}\n"
        "look with: squeue --name={}\nthen give the same command again, which submits what is not "
        "in the queue\n{}",
        before.empty() ? "" : before + "; then ", before.empty() ? "job" : "rest", problem,
        jobs_.back().name, last_words(answer)));
  }

  [[noreturn]] void refuse(const Captured& answer) const {
    if (!answer.found) {
      throw ConfigError(
          "--launcher slurm: there is no program 'sbatch' in PATH; submit from a machine of the "
          "cluster, or run here with --launcher local");
    }
    const std::string before = so_far();
    if (!before.empty()) {
      throw ConfigError(
          fmt::format("--launcher slurm: {}, the rest was refused; give the same command again "
                      "later, which submits what is not in the queue\n{}",
                      before, last_words(answer)));
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
  std::size_t total_ = 0;           // runs to submit in this call
  std::size_t submitted_ = 0;       // of them
  std::vector<std::string> names_;  // of the jobs that they were submitted as: Slurm's numbers
};

}  // namespace

void SlurmLauncher::launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
                           ProgressSink& progress) {
  check_slurm_options(options.slurm);
  if (!cells.empty()) Submission(options, progress).run(cells);
}

void check_slurm_options(const Words& options) {
  check_slurm_environment();
  for (const std::string& option : options) {
    const std::string key = key_of(option);
    const bool is_name =
        key.size() > 1 && key[0] != '-' &&
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    if (!is_name) {
      throw ConfigError(
          fmt::format("--slurm {}: expected KEY=VALUE, KEY being a long option of sbatch without "
                      "its dashes, as in --slurm time=4:00:00",
                      option));
    }
    const std::string objection = objection_to(key);
    if (!objection.empty()) throw ConfigError(fmt::format("--slurm {}: {}", option, objection));
  }
}

}  // namespace attnlab
