#include "framework/sharing/confine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/text.h"
#include "framework/sharing/footprint.h"
#include "framework/sharing/sandbox.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;
constexpr int kSignalled =
    128;  // an exit code above says which signal ended a process, as in shells
constexpr unsigned kCloseOnExec = 1U << 2;  // CLOSE_RANGE_CLOEXEC

/// What every program reads. Homes, mounts and other people's folders are not among them.
// (Of /dev only what holds nothing: for the superuser the disks themselves stand there.)
const std::vector<std::string> kSystem = {
    "/usr",         "/bin",       "/sbin", "/lib", "/lib32", "/lib64",
    "/etc",         "/opt",       "/proc", "/sys", "/nix",   "/run/current-system",
    "/dev/urandom", "/dev/random"};
const std::vector<std::string> kDevices = {"/dev/null", "/dev/zero", "/dev/full"};

/// Names, no patterns: any other variable may hold a secret.
constexpr auto kKept = std::to_array<std::string_view>({
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CMAKE_PREFIX_PATH",
    "CMAKE_INCLUDE_PATH",
    "CMAKE_LIBRARY_PATH",
    "CMAKE_PROGRAM_PATH",
    "CMAKE_GENERATOR",
    "CMAKE_MAKE_PROGRAM",
    "CMAKE_TOOLCHAIN_FILE",
    "CMAKE_BUILD_TYPE",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "LibTorch_ROOT",
    "LIBTORCH_ROOT",
    "Torch_ROOT",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDAToolkit_ROOT",
    "ATTNLAB_CPU",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "NUMBER_OF_PROCESSORS",
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
});

std::vector<std::string> environment_of(const Confinement& confinement) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    const bool kept = std::find(kKept.begin(), kKept.end(), name) != kKept.end();
    if (kept && confinement.environment.count(name) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : confinement.environment) {
    all.push_back(fmt::format("{}={}", name, value));
  }
  return all;
}

/// Tools may lie in a folder of PATH that is none of the system's: they may be read there.
std::vector<std::string> readable_of(const Confinement& confinement) {
  std::vector<std::string> all = kSystem;
  all.insert(all.end(), confinement.readable.begin(), confinement.readable.end());
  const char* const path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    if (folder.starts_with("/")) all.push_back(folder);
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return all;
}

/// Of all users of this machine, with their threads.
unsigned long running_processes() {
  std::string load = "0/0";
  std::ifstream in("/proc/loadavg");
  for (int i = 0; i < 4; ++i) in >> load;
  return std::strtoul(load.c_str() + std::min(load.find('/') + 1, load.size()), nullptr, 10);
}

/// Everything that the child needs, made before the fork: afterwards no memory is taken.
struct Prepared {
  std::vector<std::string> words, environment, readable, writable;
  std::vector<char*> argv, envp;
  std::string folder, log, output;
  unsigned long processes;
  std::vector<int> above;  ///< processes that it must not end

  Prepared(const std::vector<std::string>& given, const Confinement& confinement)
      : words(given),
        environment(environment_of(confinement)),
        readable(readable_of(confinement)),
        writable(kDevices),
        folder(confinement.folder),
        log(confinement.log),
        output(confinement.output.empty() ? confinement.log : confinement.output),
        processes(confinement.most_processes + running_processes()),
        above(sandbox::processes_above()) {
    above.reserve(above.size() + 2);
    writable.push_back(folder);
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& entry : environment) envp.push_back(entry.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
};

bool open_as(const std::string& path, int descriptor) {
  const int opened = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return opened >= 0 && ::dup2(opened, descriptor) >= 0;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Ends every process below this one. Each that loses its parent becomes this one's child.
/// @param group  of the program, which is all that can be ended where a kernel tells no more
void end_all_below(pid_t group) {
  char text[4096];
  while (true) {
    pid_t ended = 1;
    while (ended > 0) ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return;
    const int list = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    const ssize_t size = list < 0 ? 0 : ::read(list, text, sizeof text - 1);
    if (list < 0) ::kill(-group, SIGKILL);  // this kernel has no such list
    ::close(list);
    text[size > 0 ? size : 0] = '\0';
    char* at = text;
    for (long child = 0; (child = std::strtol(at, &at, 10)) > 0;) {
      if (*at != '\0') ::kill(static_cast<pid_t>(child), SIGKILL);  // (the last may be cut off)
    }
    ::usleep(1000);
  }
}

/// Goes on in a child. @returns in the child alone
/// This process waits for the child's end, or for SIGTERM. Then it calls `in_parent` with the child
/// and ends with the child's exit code, or with that of SIGTERM.
template <typename InParent>
void go_on_in_a_child(const InParent& in_parent) {
  ::prctl(PR_SET_DUMPABLE, 0);  // it has the user's environment: nobody may read it
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const pid_t child = ::fork();
  if (child < 0) ::_exit(126);
  if (child == 0) {
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    return;
  }
  int code = kSignalled + SIGTERM;
  for (int signal = 0; signal != SIGTERM;) {
    ::sigwait(&signals, &signal);
    int status = 0;
    for (pid_t ended = 1; ended > 0 && signal != SIGTERM;) {  // it takes away what else ends
      ended = ::waitpid(-1, &status, WNOHANG);
      if (ended != child) continue;
      code = code_of(status);
      signal = SIGTERM;
    }
  }
  in_parent(child);
  ::_exit(code);
}

/// For a system without namespaces of processes. The program runs in a child of this process, which
/// becomes the parent of everything that the program leaves behind, ends it, and then ends as the
/// program did.
void go_on_below_a_guard() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  go_on_in_a_child(end_all_below);
  ::setsid();  // who ends its own group does not end the guard
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/// Goes on in a child that is the first of a namespace of processes, or in that one's child. This
/// process ends last: the kernel reports the first one's end once all others in it have ended.
void go_on_in_a_namespace() {
  go_on_in_a_child([](pid_t first) {
    if (::waitpid(first, nullptr, WNOHANG) != 0) return;  // it has ended by itself
    ::kill(first, SIGKILL);
    while (::waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
    }
  });
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/// What the program's process tells just before it becomes the program.
struct LaunchReport {
  Walls sandbox;
  pid_t group = 0;  ///< of its own; 0: that of the process above it, or it cannot be seen
};

/// The first process of the new namespace, which signals do not end, and in it the program's.
void enter_namespaces(Prepared& prepared, LaunchReport& told) {
  Walls& sandbox = told.sandbox;
  const sandbox::LeftNamespaces left = sandbox::leave_namespaces();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a new namespace of users took it away
  if (left == sandbox::LeftNamespaces::nothing) {
    const pid_t guard = ::getpid();
    go_on_below_a_guard();
    for (const int above : {guard, -guard}) prepared.above.push_back(above);
    told.group = ::getpid();
    return;
  }
  prepared.above.clear();  // it sees none of them
  sandbox.network_namespace = true;
  go_on_in_a_namespace();
  if (left == sandbox::LeftNamespaces::mounts_too) {
    sandbox.read_only = sandbox::keep_only_writable(prepared.folder);
    sandbox.processes = sandbox::hide_other_processes();
  }
  go_on_in_a_namespace();
}

[[noreturn]] void become(Prepared& prepared, int report) {
  // A handler of this program would keep what stands above the foreign one; what this one ignores
  // ends others.
  for (const int signal : {SIGTERM, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::setsid();  // away from the user's terminal, into which it could type otherwise
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!open_as(prepared.log, STDERR_FILENO) || !open_as(prepared.output, STDOUT_FILENO)) {
    ::_exit(126);
  }
  LaunchReport told;
  Walls& sandbox = told.sandbox;
  enter_namespaces(prepared, told);
  // Opened behind the read-only mounts: through what is open, also modes could be changed.
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::dup2(input, STDIN_FILENO) < 0 || ::chdir(prepared.folder.c_str()) != 0) ::_exit(126);
  sandbox::limit_sizes(prepared.processes);
  sandbox.landlock = sandbox::keep_to_folders(prepared.readable, prepared.writable);
  constexpr int kKnowsTruncate = 3;
  const bool cut = !sandbox.read_only && sandbox::landlock_version() < kKnowsTruncate;
  sandbox::drop_capabilities();
  sandbox.seccomp = sandbox::refuse_calls(/*truncate=*/cut, prepared.above);
  [[maybe_unused]] const ssize_t written = ::write(report, &told, sizeof told);
  ::syscall(SYS_close_range, 3U, ~0U, kCloseOnExec);
  ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  const char* const text = "cannot start the program\n";
  [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, text, std::strlen(text));
  ::_exit(127);
}

/// Looks now and then what a confined process takes.
class Watch {
 public:
  Watch(pid_t pid, const Confinement& confinement) : pid_(pid), confinement_(confinement) {
    for (const std::string& path : {confinement.folder, confinement.log, confinement.output}) {
      if (!path.empty()) paths_.push_back(path);
    }
  }

  /// Of what it has too much; empty also until it is time to look again.
  std::string excess() {
    const auto begin = Clock::now();
    if (begin < next_) return "";
    const Footprint now = footprint_of(pid_, paths_);
    const auto end = Clock::now();
    // Looking takes a tenth of the time at most.
    next_ = end + std::max<Clock::duration>(std::chrono::milliseconds(500), 9 * (end - begin));
    if (now.bytes > confinement_.largest_folder) {
      return fmt::format("it had written {} MiB, more than it may", now.bytes >> 20);
    }
    if (now.too_deep) {
      return fmt::format("it had made more than {} folders within each other", kDeepestFolder);
    }
    // (For the superuser the kernel's own limit does not bind.)
    if (now.processes > confinement_.most_processes) {
      return fmt::format("it had started {} processes, more than it may", now.processes);
    }
    return "";
  }

 private:
  pid_t pid_;
  const Confinement& confinement_;
  std::vector<std::string> paths_;
  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(500);
};

/// Waits, and kills it with all that it has started when its time is up or it takes too much.
/// @param group  of the program, where it is not that of `pid`; else 0
ConfinedEnd end_of(pid_t pid, pid_t group, const Confinement& confinement) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(confinement.time_limit));
  constexpr auto kToClear = std::chrono::seconds(5);
  Watch watch(pid, confinement);
  ConfinedEnd end;
  std::optional<Clock::time_point> told;  // to end
  const auto kill_groups = [&] {
    ::kill(-pid, SIGKILL);
    if (group > 0) ::kill(-group, SIGKILL);
  };
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) break;
    if (!told) {
      end.timed_out = Clock::now() > deadline;
      if (!end.timed_out) end.excess = watch.excess();
      end.stopped = confinement.stopped();
      if (end.timed_out || end.stopped || !end.excess.empty()) {
        told = Clock::now();
        ::kill(pid, SIGTERM);  // what stands above the program ends all of it
      }
    } else if (Clock::now() > *told + kToClear) {
      kill_groups();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill_groups();  // what it left running
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (end.exit_code > kSignalled) end.signal = end.exit_code - kSignalled;
  return end;
}

}  // namespace

std::string Walls::text() const {
  std::vector<std::string> up, missing;
  std::vector<std::string> ways;
  if (network_namespace) ways.emplace_back("namespace");
  if (seccomp) ways.emplace_back("seccomp");
  (network() ? up : missing)
      .push_back("no network" + (ways.empty() ? "" : fmt::format(" ({})", join(ways, ", "))));
  (landlock ? up : missing).emplace_back("no files but its own (Landlock)");
  (read_only ? up : missing).emplace_back("no change of other files' modes (read-only mounts)");
  (processes ? up : missing).emplace_back("no other processes (namespace)");
  std::string text = up.empty() ? "not confined" : "confined: " + join(up, ", ");
  if (!missing.empty()) text += "; this kernel or user cannot have: " + join(missing, ", ");
  return text;
}

std::string ConfinedEnd::text() const {
  if (timed_out) return "killed, since its time was up (--time-limit)";
  if (!excess.empty()) return "killed, since " + excess;
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

ConfinedEnd run_confined(const std::vector<std::string>& words, const Confinement& confinement) {
  Prepared prepared(words, confinement);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw Error("cannot make a pipe");
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(report[0]);
    ::close(report[1]);
    throw Error(fmt::format("cannot start {}: {}", words.front(), std::strerror(errno)));
  }
  if (pid == 0) become(prepared, report[1]);
  ::close(report[1]);
  LaunchReport told;
  if (::read(report[0], &told, sizeof told) != sizeof told) told = {};
  ::close(report[0]);
  ConfinedEnd end = end_of(pid, told.group, confinement);
  end.sandbox = told.sandbox;
  return end;
}

Walls possible_walls() {
  std::error_code ignored;
  const std::string folder = fs::temp_directory_path(ignored).string();
  Confinement nothing;
  nothing.folder = folder;
  nothing.log = "/dev/null";
  nothing.time_limit = 20;
  return run_confined({"true"}, nothing).sandbox;
}

}  // namespace attnlab::sharing
