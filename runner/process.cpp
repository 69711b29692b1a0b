#include "runner/process.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
#include <string_view>
#include <thread>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "runner/fork_server.h"
#include "runner/signals.h"

extern char** environ;

namespace attnlab {
namespace {

/// A process that runs now. The signal handler reads it.
struct Running {
  std::atomic<pid_t> pid{0};  ///< 0: a free place
  std::atomic<int> stop_signal{SIGTERM};
};
std::array<Running, 256> children{};
static_assert(std::atomic<pid_t>::is_always_lock_free, "read in a signal handler");
std::atomic<int> caught{0};  ///< signals until now
static_assert(std::atomic<int>::is_always_lock_free, "counted in a signal handler");

/// A run ends with a checkpoint on SIGTERM; a second one ends it at once. A run that is held
/// (SIGSTOP) would answer when it is let go, which may be never. Signal handlers may call it.
void ask_to_end(pid_t pid, int signal) {
  ::kill(pid, signal);
  ::kill(pid, SIGCONT);
}

void hand_on(int) {
  ++caught;
  for (const Running& child : children) {
    const pid_t pid = child.pid;
    if (pid > 0) ask_to_end(pid, child.stop_signal);
  }
}

/// A place among `children` while a process runs, and among those of its switch.
class Registered {
 public:
  Registered(pid_t pid, const ProcessOptions& options) : pid_(pid), stop_(options.stop) {
    const int signal = options.starter.stop_signal;
    for (Running& child : children) {
      pid_t free = 0;
      if (!child.pid.compare_exchange_strong(free, -pid)) continue;  // not yet read
      child.stop_signal = signal;
      child.pid = pid;
      place_ = &child;
      break;
    }
    if (caught != 0) ask_to_end(pid, signal);  // came before it was known
    if (stop_ != nullptr) stop_->add(pid, signal);
  }
  ~Registered() {
    if (place_ != nullptr) place_->pid = 0;
    if (stop_ != nullptr) stop_->remove(pid_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  pid_t pid_;
  Running* place_ = nullptr;
  StopSwitch* stop_;
};

/// What happens between fork and exec.
class SpawnActions {
 public:
  SpawnActions() {
    ::posix_spawn_file_actions_init(&actions_);
    // A group of its own: the terminal's ^C reaches it once, through us.
    ::posix_spawnattr_init(&attributes_);
    // No signal is held back from it, whichever this thread leaves to others.
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    // Other programs expect these to end them.
    sigset_t usual = none;
    for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&usual, signal);
    ::posix_spawnattr_setsigdefault(&attributes_, &usual);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void dup(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void open(int descriptor, const char* path, int flags) {
    ::posix_spawn_file_actions_addopen(&actions_, descriptor, path, flags, 0666);
  }
  /// @param path  looked up in PATH where it has no slash
  /// @returns 0, or an errno
  int spawn(pid_t& pid, const char* path, std::vector<std::string> words,
            std::vector<std::string> environment) {
    return ::posix_spawnp(&pid, path, &actions_, &attributes_, pointers(words).data(),
                          pointers(environment).data());
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    all.reserve(texts.size() + 1);
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// This process's environment with some variables set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& set) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (set.count(text.substr(0, text.find('='))) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : set) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

/// Milliseconds until a moment, for poll(); -1 when there is none.
int milliseconds_left(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

/// Takes what a process prints apart into lines. One that is longer than any of this program's is
/// cut: a plugin may print without end, and without a newline.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<void(const std::string&)>& on_line)
      : on_line_(on_line) {}

  void add(std::string_view bytes) {
    for (std::size_t end = 0; (end = bytes.find('\n')) != std::string_view::npos;) {
      keep(bytes.substr(0, end));
      on_line_(line_);
      line_.clear();
      bytes.remove_prefix(end + 1);
    }
    keep(bytes);
  }
  /// What follows the last newline.
  void finish() const {
    if (!line_.empty()) on_line_(line_);
  }

 private:
  void keep(std::string_view part) {
    line_.append(part.substr(0, kLongestOutput - std::min(kLongestOutput, line_.size())));
  }

  const std::function<void(const std::string&)>& on_line_;
  std::string line_;
};

/// Whether a child has ended; it is left where it is.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  const int options = WEXITED | WNOWAIT | WNOHANG;
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, options) == 0 && info.si_pid == pid;
}

/// When a process's output is at its end: what it started may hold the other end of the pipe open
/// for ever, and print on.
class OutputEnd {
 public:
  explicit OutputEnd(pid_t pid) : pid_(pid) {}

  /// Before waiting for output. @returns the milliseconds to wait at most
  int wait() {
    constexpr int kLook = 500;
    ended_ = ended_ || has_ended(pid_);
    return ended_ ? 0 : kLook;
  }
  /// @param count  bytes that came @returns whether no more of the process's own can come
  bool reached(std::size_t count) {
    constexpr std::size_t kPipe = 1 << 20;  // more than a pipe holds
    if (ended_) after_ += count;
    return ended_ && (count == 0 || after_ > kPipe);
  }

 private:
  pid_t pid_;
  bool ended_ = false;
  std::size_t after_ = 0;
};

enum class Reading {
  ended,  ///< the output is at its end
  left,   ///< the process is, and something that it started holds the output open
  late,   ///< the moment came before
};

/// @param pid  whose output it is
Reading read_lines(int descriptor, pid_t pid, const std::optional<Clock::time_point>& deadline,
                   const std::function<void(const std::string&)>& on_line) {
  LineSplitter lines(on_line);
  OutputEnd end(pid);
  char buffer[4096];
  while (true) {
    const int left = milliseconds_left(deadline), look = end.wait();
    if (left == 0 && look > 0)
      return Reading::late;  // also where there is always something to read
    pollfd ready{descriptor, POLLIN, 0};
    const int events = ::poll(&ready, 1, left < 0 ? look : std::min(left, look));
    if (events < 0 && errno == EINTR) continue;
    if (events == 0 && end.reached(0)) {
      lines.finish();
      return Reading::left;
    }
    if (events == 0) continue;
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    lines.add({buffer, static_cast<std::size_t>(count)});
    if (end.reached(static_cast<std::size_t>(count))) {
      lines.finish();
      return Reading::left;
    }
  }
  lines.finish();
  return Reading::ended;
}

/// Leaves the ended process where it is, so that its id belongs to nobody else.
/// @returns false when the moment came before the process's end.
bool wait_for_end(pid_t pid, const std::optional<Clock::time_point>& deadline) {
  const int options = WEXITED | WNOWAIT | (deadline ? WNOHANG : 0);
  while (true) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, options) != 0) {
      if (errno == EINTR) continue;
      return true;  // nothing to wait for
    }
    if (info.si_pid == pid) return true;
    if (milliseconds_left(deadline) == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// A started process. One that nobody has waited for is killed with all that it has started: no way
/// out of a function leaves it behind.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ > 0) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Kills it with all that it has started, and waits for its end.
  ProcessResult end() {
    ::kill(-pid_, SIGKILL);
    wait_for_end(pid_, std::nullopt);
    return collect();
  }
  /// Waits for its end and takes it away.
  ProcessResult collect();

 private:
  pid_t pid_;
};

ProcessResult Child::collect() {
  ProcessResult result;
  int status = 0;
  rusage usage{};
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) continue;
  pid_ = 0;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.peak_memory = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return result;
}

/// A file that a process's standard error is appended to, open in this object's lifetime.
class Log {
 public:
  /// Never waits, as opening a FIFO would. @throws FileError; also for a FIFO or a socket.
  explicit Log(const std::string& path)
      : descriptor_(::open(
            path.c_str(),
            O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    struct stat there {};
    // A FIFO that nobody reads is ENXIO, as a socket is.
    const bool pipe = descriptor_ < 0
                          ? errno == ENXIO
                          : ::fstat(descriptor_, &there) == 0 && S_ISFIFO(there.st_mode);
    if (descriptor_ >= 0 && !pipe) {
      ::fcntl(descriptor_, F_SETFL, O_APPEND);  // a terminal is waited for
      return;
    }
    std::string reason = pipe ? "it is a pipe or a socket; remove it" : std::strerror(errno);
    if (!pipe && errno == ELOOP) reason = "it is a link; remove it";
    if (descriptor_ >= 0) ::close(descriptor_);
    throw FileError(fmt::format("{}: cannot write: {}", path, reason));
  }
  ~Log() { ::close(descriptor_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// @param program  looked up in PATH where it has no slash
/// @param files    descriptors of this process, by the number that they have there
/// @throws Error.
pid_t spawn(const char* program, const std::vector<std::string>& words,
            const std::map<int, int>& files,
            const std::map<std::string, std::string>& environment) {
  SpawnActions actions;
  for (const auto& [number, file] : files) actions.dup(file, number);
  pid_t pid = 0;
  const int error = actions.spawn(pid, program, words, environment_with(environment));
  if (error == 0) return pid;
  throw Error(fmt::format("cannot start {}: {}", words.front(), std::strerror(error)));
}

pid_t start(const std::vector<std::string>& words, const std::string& log, int output,
            const ProcessOptions& options) {
  note_signals();
  const Log errors(log);
  const std::map<int, int> files = {{STDOUT_FILENO, output}, {STDERR_FILENO, errors.descriptor()}};
  if (!options.starter.words.empty()) {
    std::vector<std::string> all = options.starter.words;
    all.push_back(std::filesystem::read_symlink("/proc/self/exe"));
    all.insert(all.end(), words.begin(), words.end());
    return spawn(all.front().c_str(), all, files, options.environment);
  }
  if (options.server != nullptr) {
    const auto job = options.server->start(words, output, errors.descriptor());
    if (job) return *job;
  }
  return start_self(words, files, options.environment);
}

/// A pipe; its ends are closed when it goes.
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

/// Reads two descriptors to their ends, whichever has something first. @param pid  whose they are
void read_both(pid_t pid, int first, std::string& first_text, int second,
               std::string& second_text) {
  OutputEnd end(pid);
  std::array<pollfd, 2> ready{{{first, POLLIN, 0}, {second, POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&first_text, &second_text};
  char buffer[4096];
  while (ready[0].fd >= 0 || ready[1].fd >= 0) {
    const int events = ::poll(ready.data(), ready.size(), end.wait());
    if (events < 0 && errno == EINTR) continue;
    if (events < 0 || (events == 0 && end.reached(0))) return;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].fd < 0 || ready[i].revents == 0) continue;
      const ssize_t count = ::read(ready[i].fd, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count > 0) texts[i]->append(buffer, static_cast<std::size_t>(count));
      if (count > 0 && end.reached(static_cast<std::size_t>(count))) return;
      if (count <= 0) ready[i].fd = -1;  // poll passes over it
    }
  }
}

}  // namespace

std::string last_words(const Captured& captured) {
  const std::string_view words = trimmed(captured.err.empty() ? captured.out : captured.err);
  if (!words.empty()) return std::string(words);
  return captured.exit_code < 0 ? "it was killed"
                                : fmt::format("it ended with exit code {}", captured.exit_code);
}

bool interrupted() { return caught != 0; }

int signals_noted() { return caught; }

void note_signals() {
  std::signal(SIGTERM, hand_on);
  for (const int signal : {SIGINT, SIGHUP}) {
    if (!is_ignored(signal)) std::signal(signal, hand_on);
  }
}

bool end_on_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction now {};
    const bool ours = ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == hand_on;
    if (ours) std::signal(signal, SIG_DFL);
  }
  return interrupted();  // asked last, so that none goes unnoticed
}

std::string signal_text(int signal) {
  return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
}

std::string log_tail(const std::string& path, std::size_t lines) {
  std::vector<std::string> tail = last_lines(path, lines);
  for (std::string& line : tail) line = one_line(line, kLongestMessageLine);
  return join(tail, "\n");
}

pid_t start_self(const std::vector<std::string>& words, const std::map<int, int>& files,
                 const std::map<std::string, std::string>& environment) {
  std::vector<std::string> all = {"attnlab"};
  all.insert(all.end(), words.begin(), words.end());
  return spawn("/proc/self/exe", all, files, environment);
}

ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line,
                       const ProcessOptions& options) {
  std::optional<Clock::time_point> deadline;
  if (options.time_limit > 0) {
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(options.time_limit));
  }
  Pipe pipe;
  Child child(start(words, log, pipe.ends[1], options));
  pipe.close_writing();
  bool timed_out = false;
  {
    const Registered registered(child.pid(), options);
    const Reading reading = read_lines(pipe.ends[0], child.pid(), deadline, on_line);
    timed_out = reading == Reading::late || !wait_for_end(child.pid(), deadline);
    // Ended and not yet taken away: its group's number belongs to nobody else.
    if (reading == Reading::left) ::kill(-child.pid(), SIGKILL);
  }
  ProcessResult result = timed_out ? child.end() : child.collect();
  if (!options.starter.words.empty()) result.peak_memory = 0;  // of the starter
  result.timed_out = timed_out;
  return result;
}

Captured capture(const std::vector<std::string>& words) {
  Pipe out, err;
  SpawnActions actions;
  actions.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  actions.dup(out.ends[1], STDOUT_FILENO);
  actions.dup(err.ends[1], STDERR_FILENO);
  pid_t pid = 0;
  const int error = actions.spawn(pid, words.front().c_str(), words, environment_with({}));
  Captured captured;
  captured.found = error != ENOENT;
  if (!captured.found) return captured;
  if (error != 0)
    throw Error(fmt::format("{}: cannot be started: {}", words.front(), std::strerror(error)));
  Child child(pid);
  out.close_writing();
  err.close_writing();
  read_both(pid, out.ends[0], captured.out, err.ends[0], captured.err);
  const ProcessResult result = child.collect();
  captured.exit_code = result.signal != 0 ? -1 : result.exit_code;
  return captured;
}

void StopSwitch::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& [pid, signal] : running_) ask_to_end(pid, signal);
}

bool StopSwitch::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void StopSwitch::add(pid_t pid, int signal) {
  const std::lock_guard lock(mutex_);
  running_[pid] = signal;
  if (stopped_) ask_to_end(pid, signal);
}

void StopSwitch::remove(pid_t pid) {
  const std::lock_guard lock(mutex_);
  running_.erase(pid);
}

}  // namespace attnlab
