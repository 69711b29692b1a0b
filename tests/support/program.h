// Runs programs for tests: words, environment, folder; what they print and how they end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace attnlab::testing {

/// What to run.
struct Invocation {
  std::vector<std::string> words;  ///< the program first; looked up in PATH without a slash
  std::string folder = ".";        ///< working folder
  /// Set beside the test's own environment.
  std::map<std::string, std::string> environment = {};
  /// Bytes that a file may have before writing to it fails, as on a full disk; 0: no limit.
  std::int64_t largest_file = 0;
};

/// How a program ended.
struct Ended {
  int exit_code = -1;  ///< -1: a signal ended it
  int signal = 0;      ///< that ended it; 0: none
  std::string out, err;

  /// Everything about it, for messages of failed checks.
  std::string story() const;
};

/// A program that runs beside the test; killed when it is still running at the end.
class Process {
 public:
  /// @throws std::runtime_error when it cannot be started.
  explicit Process(const Invocation& invocation);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return pid_; }
  void send(int signal) const;
  bool running();
  /// Whether it has a handler of its own for a signal, so that its start is over.
  bool handles(int signal) const;
  /// Waits for the end.
  Ended wait();

 private:
  void note(int status);

  TempFolder output_;
  pid_t pid_ = 0;
  bool ended_ = false;
  Ended result_;
};

/// Runs to the end.
Ended run(const Invocation& invocation);

/// Looks every millisecond; false when the condition does not hold within two minutes.
bool wait_for(const std::function<bool()>& condition);

/// The whole file; empty when there is none.
std::string file_text(const std::string& path);

}  // namespace attnlab::testing
