#include "runner/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "framework/core/error.h"

extern char** environ;

namespace attnlab {
namespace {

volatile sig_atomic_t child = 0;
volatile sig_atomic_t caught = 0;

void hand_on(int signal) {
  caught = signal;
  // The child ends its run with a checkpoint on SIGTERM; a second signal ends it at once.
  if (child > 0) ::kill(static_cast<pid_t>(child), SIGTERM);
}

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

void read_lines(int descriptor, const std::function<void(const std::string&)>& on_line) {
  std::string rest;
  char buffer[4096];
  while (true) {
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
}

}  // namespace

bool interrupted() { return caught != 0; }

ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  std::vector<std::string> all = {"attnlab"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::signal(SIGINT, hand_on);
  std::signal(SIGTERM, hand_on);
  pid_t pid = 0;
  const int error = SpawnActions(ends[1], log).spawn(pid, argv);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    throw Error(std::string("cannot start a process: ") + std::strerror(error));
  }
  child = pid;
  if (caught != 0) ::kill(pid, SIGTERM);  // came between two children
  read_lines(ends[0], on_line);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  ProcessResult result;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace attnlab
