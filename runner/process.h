// A child process whose output is read line by line.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace attnlab {

struct ProcessResult {
  int exit_code = 0;       ///< of a process that ended by itself
  int signal = 0;          ///< that killed it; 0: none
  bool timed_out = false;  ///< it was killed, since its time was up
  bool ok() const { return exit_code == 0 && signal == 0; }
};

/// Runs this program with other words and waits for it. May be called from several threads.
/// @param log         file that its standard error is appended to
/// @param on_line     called with each line of its standard output, on the calling thread
/// @param time_limit  seconds after which it and all that it started are killed; 0: none
/// While it runs, SIGINT and SIGTERM are handed on to it.
/// @throws Error when it cannot be started.
ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line,
                       double time_limit = 0);

/// Whether SIGINT or SIGTERM came while a child ran.
bool interrupted();

/// "killed by signal 11 (Segmentation fault)".
std::string signal_text(int signal);

/// The last lines of a log, for the reader of an error; empty when there is no log.
std::string log_tail(const std::string& path, std::size_t lines);

}  // namespace attnlab
