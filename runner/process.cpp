#include "runner/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "framework/core/error.h"
#include "framework/core/files.h"

extern char** environ;

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;

/// Processes that run now; 0: a free place. The signal handler reads it.
std::array<std::atomic<pid_t>, 256> children{};
static_assert(std::atomic<pid_t>::is_always_lock_free, "read in a signal handler");
volatile sig_atomic_t caught = 0;

void hand_on(int signal) {
  caught = signal;
  // A run ends with a checkpoint on SIGTERM; a second signal ends it at once.
  for (const std::atomic<pid_t>& child : children) {
    const pid_t pid = child;
    if (pid > 0) ::kill(pid, SIGTERM);
  }
}

/// A place among `children` while a process runs.
class Registered {
 public:
  explicit Registered(pid_t pid) {
    for (std::atomic<pid_t>& child : children) {
      pid_t free = 0;
      if (!child.compare_exchange_strong(free, pid)) continue;
      place_ = &child;
      break;
    }
    if (caught != 0) ::kill(pid, SIGTERM);  // came before it was known
  }
  ~Registered() {
    if (place_ != nullptr) *place_ = 0;
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::atomic<pid_t>* place_ = nullptr;
};

class SpawnActions {
 public:
  SpawnActions(int output, const std::string& log) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0666);
    // A group of its own: the terminal's ^C reaches it once, through us.
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  int spawn(pid_t& pid, std::vector<char*>& argv) {
    return ::posix_spawn(&pid, "/proc/self/exe", &actions_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Milliseconds until a moment, for poll(); -1 when there is none.
int milliseconds_left(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

/// @returns false when the moment came before the output's end.
bool read_lines(int descriptor, const std::optional<Clock::time_point>& deadline,
                const std::function<void(const std::string&)>& on_line) {
  std::string rest;
  char buffer[4096];
  while (true) {
    pollfd ready{descriptor, POLLIN, 0};
    const int events = ::poll(&ready, 1, milliseconds_left(deadline));
    if (events < 0 && errno == EINTR) continue;
    if (events == 0 && milliseconds_left(deadline) == 0) return false;
    if (events == 0) continue;
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    rest.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos;) {
      on_line(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  if (!rest.empty()) on_line(rest);
  return true;
}

/// @returns false when the moment came before the process's end.
bool wait_for_end(pid_t pid, const std::optional<Clock::time_point>& deadline, int& status) {
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, deadline ? WNOHANG : 0);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (ended != 0) continue;
    if (milliseconds_left(deadline) == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

pid_t start(const std::vector<std::string>& words, const std::string& log, int output) {
  std::vector<std::string> all = {"attnlab"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::signal(SIGINT, hand_on);
  std::signal(SIGTERM, hand_on);
  pid_t pid = 0;
  const int error = SpawnActions(output, log).spawn(pid, argv);
  if (error != 0) throw Error(std::string("cannot start a process: ") + std::strerror(error));
  return pid;
}

/// The reading end of a pipe is closed when it goes.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(std::string("cannot make a pipe: ") + std::strerror(errno));
    }
  }
  ~Pipe() {
    ::close(ends[0]);
    close_writing();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_writing() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2];
};

}  // namespace

bool interrupted() { return caught != 0; }

std::string signal_text(int signal) {
  return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

std::string log_tail(const std::string& path, std::size_t lines) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  std::string text = read_text(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t start = text.size();
  for (std::size_t i = 0; i < lines && start != std::string::npos && start > 0; ++i) {
    start = text.rfind('\n', start - 1);
  }
  return start == std::string::npos || start == 0 ? text : text.substr(start + 1);
}

ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line, double time_limit) {
  std::optional<Clock::time_point> deadline;
  if (time_limit > 0) {
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(time_limit));
  }
  Pipe pipe;
  const pid_t pid = start(words, log, pipe.ends[1]);
  pipe.close_writing();
  const Registered registered(pid);
  ProcessResult result;
  int status = 0;
  result.timed_out =
      !read_lines(pipe.ends[0], deadline, on_line) || !wait_for_end(pid, deadline, status);
  if (result.timed_out) {
    ::kill(-pid, SIGKILL);
    wait_for_end(pid, std::nullopt, status);
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace attnlab
