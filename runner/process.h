// A child process whose output is read line by line.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace attnlab {

struct ProcessResult {
  int exit_code = 0;  ///< of a process that ended by itself
  int signal = 0;     ///< that killed it; 0: none
  bool ok() const { return exit_code == 0 && signal == 0; }
};

/// Runs this program with other words and waits for it.
/// @param log      file that its standard error is appended to
/// @param on_line  called with each line of its standard output
/// While it runs, SIGINT and SIGTERM are handed on to it.
/// @throws Error when it cannot be started.
ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line);

/// Whether SIGINT or SIGTERM came while a child ran.
bool interrupted();

}  // namespace attnlab
