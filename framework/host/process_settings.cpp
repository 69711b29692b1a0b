#include "framework/host/process_settings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <locale>
#include <set>

extern char** environ;

namespace attnlab {
namespace {

std::string working_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

/// As /proc says it: asking the kernel means setting it, and other threads may be making files.
std::string file_mask() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Umask:", 0) == 0) return line.substr(7);
  }
  return "";
}

std::vector<std::string> variables() {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    all.emplace_back(*entry);
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Names of variables that differ between two sorted lists.
std::set<std::string> changed_variables(const std::vector<std::string>& a,
                                        const std::vector<std::string>& b) {
  std::vector<std::string> differ;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(differ));
  std::set<std::string> names;
  for (const std::string& entry : differ) names.insert(entry.substr(0, entry.find('=')));
  return names;
}

/// Which file a descriptor stands for, and how it is open.
std::string stream(int descriptor) {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0) return "closed";
  return fmt::format("{}:{} {}", file.st_dev, file.st_ino, ::fcntl(descriptor, F_GETFL));
}

struct sigaction handler_of(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);  // two numbers are the C library's own: they stay zeros
  return action;
}

bool same(const sigset_t& a, const sigset_t& b) {
  for (int i = 1; i < NSIG; ++i) {
    if (::sigismember(&a, i) != ::sigismember(&b, i)) return false;
  }
  return true;
}

bool same(const struct sigaction& a, const struct sigaction& b) {
  constexpr int kRestorer = 0x04000000;  // the kernel's own, set once a handler has been
  return a.sa_handler == b.sa_handler && (a.sa_flags | kRestorer) == (b.sa_flags | kRestorer) &&
         same(a.sa_mask, b.sa_mask);
}

sigset_t blocked_signals() {
  sigset_t blocked{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return blocked;
}

struct NamedStream {
  const char* name;
  std::ios& stream;
};
const std::array<NamedStream, 4>& named_streams() {
  static const std::array<NamedStream, 4> streams = {{{"std::cin", std::cin},
                                                      {"std::cout", std::cout},
                                                      {"std::cerr", std::cerr},
                                                      {"std::clog", std::clog}}};
  return streams;
}

/// Whether C++'s streams go with C's. (With `true` the call changes nothing.)
bool synced() { return std::ios::sync_with_stdio(true); }

std::atomic<std::int64_t> forks{0};

/// Rises with each process that this one starts: by fork(), or otherwise where it was waited for
/// (system()) or has ended.
std::int64_t processes_started() {
  [[maybe_unused]] static const int counting = ::pthread_atfork([] { ++forks; }, nullptr, nullptr);
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  siginfo_t child{};
  const bool waits = ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
  return forks + used.ru_minflt + used.ru_majflt + (waits ? 1 : 0);
}

}  // namespace

ProcessSettings::ProcessSettings()
    : folder_(working_folder()),
      umask_(file_mask()),
      locale_(std::setlocale(LC_ALL, nullptr)),
      thread_locale_(::uselocale(nullptr)),
      blocked_(blocked_signals()),
      environment_(variables()),
      synced_(synced()),
      processes_(processes_started()) {
  for (int i = 0; i < 3; ++i) streams_[i] = stream(i);
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i] = named_streams()[i].stream.rdbuf();
  for (int i = 1; i < int(handlers_.size()); ++i) handlers_[i] = handler_of(i);
}

std::vector<std::string> ProcessSettings::changes() const {
  std::vector<std::string> changed;
  if (working_folder() != folder_) changed.emplace_back("the working folder");
  if (file_mask() != umask_) changed.emplace_back("the umask");
  if (!same_locale()) changed.emplace_back("the locale");
  for (const std::string& name : changed_variables(variables(), environment_)) {
    changed.push_back(fmt::format("the environment's {}", name));
  }
  for (int i = 1; i < int(handlers_.size()); ++i) {
    if (same(handler_of(i), handlers_[i])) continue;
    changed.push_back(fmt::format("the handler of signal {} ({})", i, ::strsignal(i)));
  }
  if (!same(blocked_signals(), blocked_)) changed.emplace_back("which signals are blocked");
  constexpr const char* kStreams[] = {"standard input", "standard output", "standard error"};
  for (int i = 0; i < 3; ++i) {
    if (stream(i) != streams_[i]) changed.emplace_back(kStreams[i]);
  }
  if (synced() != synced_) changed.emplace_back("whether C++'s streams go with C's");
  for (std::size_t i = 0; synced() == synced_ && i < buffers_.size(); ++i) {
    const NamedStream& named = named_streams()[i];
    if (named.stream.rdbuf() != buffers_[i]) {
      changed.push_back(fmt::format("the buffer of {}", named.name));
    }
  }
  if (processes_started() != processes_) changed.emplace_back("what processes there are (a fork)");
  return changed;
}

bool ProcessSettings::same_locale() const {
  return locale_ == std::setlocale(LC_ALL, nullptr) && std::locale() == streams_locale_ &&
         ::uselocale(nullptr) == thread_locale_;
}

void ProcessSettings::restore() const {
  std::error_code ignored;
  if (working_folder() != folder_) std::filesystem::current_path(folder_, ignored);
  if (file_mask() != umask_) ::umask(static_cast<mode_t>(std::strtoul(umask_.c_str(), nullptr, 8)));
  for (int i = 1; i < int(handlers_.size()); ++i) {
    if (!same(handler_of(i), handlers_[i])) ::sigaction(i, &handlers_[i], nullptr);
  }
  if (!same_locale()) {
    std::locale::global(streams_locale_);  // before C's, which it may set, too
    std::setlocale(LC_ALL, locale_.c_str());
    ::uselocale(thread_locale_);
  }
  if (!same(blocked_signals(), blocked_)) ::pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  // Streams that go with C's no longer have other buffers for good: the first ones are destroyed.
  for (std::size_t i = 0; synced() == synced_ && i < buffers_.size(); ++i) {
    std::ios& named = named_streams()[i].stream;
    if (named.rdbuf() != buffers_[i]) named.rdbuf(buffers_[i]);
  }
  const std::vector<std::string> now = variables();
  if (now == environment_) return;
  for (const std::string& entry : now) ::unsetenv(entry.substr(0, entry.find('=')).c_str());
  for (const std::string& entry : environment_) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
  }
}

}  // namespace attnlab
