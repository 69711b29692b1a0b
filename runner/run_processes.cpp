// attnlab run in several processes of this machine: starts them and sees them end.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/cores.h"
#include "framework/base/error.h"
#include "framework/base/launched.h"
#include "framework/base/power_of_two.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"
#include "runner/commands.h"
#include "runner/process.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// After a process failed, others have so long to notice and to save; after process 0, which saves,
/// has ended, the others have nothing left to do. Then they are asked to end, and as much later
/// killed.
constexpr std::chrono::seconds kToSave{60}, kToEnd{5};

/// Where the processes meet, and what all but the first one say. It goes with this.
class Meeting {
 public:
  Meeting() {
    std::string path = (fs::temp_directory_path() / "attnlab-run-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw FileError(fmt::format("{}: cannot make a folder where processes meet: {}; set TMPDIR",
                                  path, std::strerror(errno)));
    }
    path_ = path;
  }
  ~Meeting() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::string store() const { return path_ + "/store"; }
  std::string log(std::int64_t rank) const { return fmt::format("{}/log-{}", path_, rank); }

 private:
  std::string path_;
};

/// An open file that a process is given.
class Given {
 public:
  Given(const std::string& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (file_ < 0) {
      throw FileError(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
    }
  }
  ~Given() { ::close(file_); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  int file() const { return file_; }

 private:
  int file_;
};

struct Worker {
  std::int64_t rank = 0;
  pid_t pid = 0;  ///< 0: it has ended
  int exit_code = 0, signal = 0;
};

/// One command in several processes.
class Workers {
 public:
  explicit Workers(Words words) : words_(std::move(words)) { words_.insert(words_.begin(), "run"); }
  ~Workers() {
    signal_all(SIGKILL);
    for (Worker& worker : workers_) {
      while (worker.pid > 0 && ::waitpid(worker.pid, nullptr, 0) < 0 && errno == EINTR) continue;
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// @returns the exit code
  int run(std::int64_t count) {
    const std::vector<int> cores = usable_cores();
    const std::vector<CoreShare> shares = share_cores(cores, core_quota(), count, most_threads());
    for (std::int64_t rank = 0; rank < count; ++rank) {
      start(rank, count, shares[static_cast<std::size_t>(rank)]);
    }
    bind_this_thread(cores);
    int handed_on = 0;
    while (look()) {
      while (handed_on < signals_noted()) {  // a second one ends a process at once
        signal_all(SIGTERM);
        ++handed_on;
      }
      end_what_is_left();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return exit_code();
  }

 private:
  void start(std::int64_t rank, std::int64_t count, const CoreShare& share) {
    const std::map<std::string, std::string> environment = {
        {kMeetingFile, meeting_.store()},      {kLauncher, std::to_string(::getpid())},
        {"RANK", std::to_string(rank)},        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(count)}, {"OMP_NUM_THREADS", std::to_string(share.threads)}};
    std::map<int, int> files;
    std::optional<Given> nothing, log;
    if (rank > 0) {  // they would say the same
      nothing.emplace("/dev/null", O_WRONLY);
      log.emplace(meeting_.log(rank), O_WRONLY | O_CREAT | O_APPEND);
      files = {{STDOUT_FILENO, nothing->file()}, {STDERR_FILENO, log->file()}};
    }
    bind_this_thread(share.cores);
    workers_.push_back({rank, start_self(words_, files, environment)});
  }

  void signal_all(int signal) const {
    for (const Worker& worker : workers_) {
      if (worker.pid <= 0) continue;
      ::kill(worker.pid, signal);
      ::kill(worker.pid, SIGCONT);  // one that is held answers, too
    }
  }

  /// @returns whether one still runs
  bool look() {
    bool runs = false;
    for (Worker& worker : workers_) {
      if (worker.pid <= 0) continue;
      int status = 0;
      const pid_t found = ::waitpid(worker.pid, &status, WNOHANG);
      if (found == 0 || (found < 0 && errno == EINTR)) {
        runs = true;
        continue;
      }
      if (found < 0) {  // somebody else has taken its end away
        worker.exit_code = kRunFailed;
      } else if (WIFSIGNALED(status)) {
        worker.signal = WTERMSIG(status);
      } else {
        worker.exit_code = WEXITSTATUS(status);
      }
      const bool failed = worker.signal != 0 || worker.exit_code != kDone;
      if (failed && !is_done() && !std::exchange(failed_, true)) {
        tell(worker);
        end_by(Clock::now() + kToSave);
      }
      if (worker.rank == 0) end_by(Clock::now() + kToEnd);
      worker.pid = 0;
    }
    return runs;
  }

  /// Says how the first one ended that did not end well, unless it has said so itself.
  void tell(const Worker& worker) const {
    const std::string name =
        fmt::format("process {} of {} (pid {})", worker.rank, workers_.size(), worker.pid);
    if (worker.signal != 0) {
      std::cerr << fmt::format("attnlab run: {}: {}\n", name, signal_text(worker.signal));
    } else if (worker.rank > 0 && worker.exit_code != kInterrupted) {
      std::cerr << fmt::format("attnlab run: {} ended with exit code {}:\n{}\n", name,
                               worker.exit_code, log_tail(meeting_.log(worker.rank), 10));
    }
  }

  void end_by(Clock::time_point moment) {
    if (!last_moment_ || *last_moment_ > moment) last_moment_ = moment;
  }

  void end_what_is_left() {
    if (!last_moment_ || Clock::now() < *last_moment_) return;
    signal_all(std::exchange(asked_to_end_, true) ? SIGKILL : SIGTERM);
    last_moment_ = Clock::now() + (workers_.front().pid > 0 ? kToSave : kToEnd);
  }

  /// Whether process 0 has written all that the command is for: how others end changes nothing.
  bool is_done() const {
    const Worker& first = workers_.front();
    return first.pid == 0 && first.signal == 0 && first.exit_code == kDone;
  }

  int exit_code() const {
    if (is_done()) return kDone;
    if (interrupted()) return kInterrupted;
    for (const Worker& worker : workers_) {
      if (worker.signal != 0) return kRunFailed;
      if (worker.exit_code != kDone) return worker.exit_code;
    }
    return kDone;
  }

  Words words_;
  Meeting meeting_;
  std::vector<Worker> workers_;
  std::optional<Clock::time_point> last_moment_;  ///< of those that still run
  bool failed_ = false, asked_to_end_ = false;
};

std::int64_t number_of(const std::string& text) {
  const auto number = parsed_number<std::int64_t>(text);
  if (number && *number <= 4096 && is_power_of_two(*number)) return *number;
  throw ConfigError(fmt::format(
      "--processes: '{}' is not a power of two from 1 to 4096; take 1, 2, 4, 8, ...", text));
}

/// `train.processes` of what a word names; 1 where it cannot be read: the run says why.
std::int64_t processes_of(const std::string& word, const Words& overrides) {
  try {
    const bool frozen = fs::exists(word + "/config.yaml");
    const Node root = frozen ? load_file(word + "/config.yaml")
                             : compose(find_composition(word, "experiments"), overrides).root;
    const Node* const value = find_key(root, "train.processes");
    return value == nullptr ? 1 : value->as_int().value_or(1);
  } catch (const Error&) {
    return 1;
  }
}

std::int64_t processes_asked(const Arguments& arguments) {
  if (arguments.has("processes")) return number_of(arguments.text("processes", ""));
  std::optional<std::int64_t> asked;
  for (const std::string& word : arguments.words) {
    const std::int64_t count = processes_of(word, arguments.overrides);
    if (asked && *asked != count) {
      throw ConfigError(fmt::format(
          "train.processes: {} asks for {} and {} for {}; give --processes N, or run them one by "
          "one",
          arguments.words.front(), *asked, word, count));
    }
    asked = count;
  }
  return asked.value_or(1);
}

/// Whether the process that started this one has ended before this one asked to end with it.
bool is_orphan() {
  const char* const launcher = std::getenv(kLauncher);
  return launcher != nullptr && launcher != std::to_string(::getppid());
}

/// Whether a word asks for help, or completion for the options: one process answers.
bool is_question(const std::string& word) {
  return word == kAskUsage || word == "--help" || word == "-h";
}

}  // namespace

int run_in_processes(const Words& words) {
  if (std::any_of(words.begin(), words.end(), is_question)) return engine_command("run", words);
  if (const auto launched = launched_as()) {
    if (launched->by == "attnlab") {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (is_orphan()) return kInterrupted;
    }
    return engine_command("run", words);
  }
  Usage usage = run_usage();
  const Arguments arguments = parse_arguments(words, usage);
  const std::int64_t count = processes_asked(arguments);
  // (What is not a power of two the run itself refuses, with its place.)
  if (count <= 1 || !is_power_of_two(count) || arguments.has("dry-run")) {
    return engine_command("run", words);
  }
  if (arguments.has("ensemble")) {
    throw ConfigError(
        "--ensemble: runs that are trained together are one process; leave it out, "
        "or set train.processes: 1");
  }
  const SignalsNoted noted;
  return Workers(words).run(count);
}

}  // namespace attnlab
