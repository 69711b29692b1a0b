#include "tests/support/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>

extern char** environ;

namespace attnlab::testing {
namespace {

std::vector<std::string> environment_of(const Invocation& invocation) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (invocation.environment.count(text.substr(0, text.find('='))) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : invocation.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<std::string> words_of(const Invocation& invocation) {
  if (invocation.largest_file == 0) return invocation.words;
  // Without the trap the signal SIGXFSZ would end the program; with it, writing fails.
  const std::string blocks = std::to_string((invocation.largest_file + 1023) / 1024);
  std::vector<std::string> words = {
      "bash", "-c", "trap '' XFSZ; ulimit -f " + blocks + "; exec \"$@\"", "limited"};
  words.insert(words.end(), invocation.words.begin(), invocation.words.end());
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

std::string Ended::story() const {
  const std::string end =
      signal != 0 ? "signal " + std::to_string(signal) : "exit code " + std::to_string(exit_code);
  return end + "\n---- standard output\n" + out + "---- standard error\n" + err;
}

Process::Process(const Invocation& invocation) {
  std::vector<std::string> words = words_of(invocation);
  std::vector<std::string> environment = environment_of(invocation);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const auto open = [&](int descriptor, const char* name) {
    ::posix_spawn_file_actions_addopen(&actions, descriptor, (output_ / name).c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0666);
  };
  open(STDOUT_FILENO, "out");
  open(STDERR_FILENO, "err");
  ::posix_spawn_file_actions_addchdir_np(&actions, invocation.folder.c_str());
  // Whoever started the tests may have these ignored, and a program then goes on ignoring them.
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const int signal : {SIGINT, SIGHUP}) ::sigaddset(&heard, signal);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &heard);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawnp(&pid_, words.front().c_str(), &actions, &attributes,
                                   pointers(words).data(), pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return;
  ended_ = true;
  throw std::runtime_error(words.front() + ": cannot start: " + std::strerror(error));
}

Process::~Process() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool Process::running() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) note(status);
  return !ended_;
}

bool Process::handles(int signal) const {
  std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("SigCgt:", 0) != 0) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

Ended Process::wait() {
  int status = 0;
  while (!ended_) {
    if (::waitpid(pid_, &status, 0) == pid_) note(status);
  }
  return result_;
}

void Process::note(int status) {
  ended_ = true;
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  result_.out = file_text(output_ / "out");
  result_.err = file_text(output_ / "err");
}

Ended run(const Invocation& invocation) { return Process(invocation).wait(); }

bool wait_for(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  // However busy the machine is: no test passes or fails by its speed.
  constexpr std::chrono::minutes kHung(20);
  const Clock::time_point begin = Clock::now();
  while (!condition()) {
    if (Clock::now() - begin > kHung) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace attnlab::testing
