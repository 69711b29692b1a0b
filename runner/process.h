// A child process whose output is read line by line.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace attnlab {

struct ProcessResult {
  int exit_code = 0;             ///< of a process that ended by itself
  int signal = 0;                ///< that killed it; 0: none
  bool timed_out = false;        ///< it was killed, since its time was up
  std::int64_t peak_memory = 0;  ///< bytes that it held in memory at most; 0: not known
  bool ok() const { return exit_code == 0 && signal == 0; }
};

class ForkServer;

/// Ends processes early: those that run with it, and those that are started with it later.
class StopSwitch {
 public:
  /// Sends SIGTERM, upon which a run ends with a checkpoint, and SIGCONT, so that one that is held
  /// does, too.
  void stop();
  bool stopped() const;

  /// @param signal  SIGTERM, or that of its `Starter`
  void add(pid_t pid, int signal);
  void remove(pid_t pid);

 private:
  mutable std::mutex mutex_;
  std::map<pid_t, int> running_;  ///< and their signals
  bool stopped_ = false;
};

/// Another program that starts this one.
struct Starter {
  std::vector<std::string> words = {};  ///< {"srun", "--ntasks=2"}; empty: none
  /// Which it hands on, and upon which a run ends with a checkpoint.
  int stop_signal = SIGTERM;
};

struct ProcessOptions {
  double time_limit = 0;  ///< seconds after which it and all that it started are killed; 0: none
  std::map<std::string, std::string> environment = {};  ///< set beside this process's own
  StopSwitch* stop = nullptr;                           ///< not owned; null: none
  /// Starts it where it can, in its own environment; not owned; null: a process is started anew.
  ForkServer* server = nullptr;
  Starter starter = {};  ///< where it has words, `server` is not asked
};

/// Bytes of a line that a process prints, at most: what is longer is cut.
constexpr std::size_t kLongestOutput = std::size_t{1} << 20;

/// Starts this program with other words, as the first process of a group.
/// @param files  descriptors of this process, by the number that they have there
/// @throws Error.
pid_t start_self(const std::vector<std::string>& words, const std::map<int, int>& files,
                 const std::map<std::string, std::string>& environment);

/// Runs this program with other words and waits for it. May be called from several threads; the
/// process inherits the calling thread's cores.
/// @param log      file that its standard error is appended to
/// @param on_line  called with each line of its standard output, on the calling thread; of one that
///                 is longer than kLongestOutput, with its beginning
/// While it runs, SIGINT, SIGTERM and SIGHUP are handed on to it as SIGTERM (and SIGCONT), but for
/// SIGINT and SIGHUP where this process was started to ignore them.
/// @throws FileError when the log cannot be written; Error when the process cannot be started; what
/// `on_line` throws, once the process has been killed.
ProcessResult run_self(const std::vector<std::string>& words, const std::string& log,
                       const std::function<void(const std::string&)>& on_line,
                       const ProcessOptions& options = {});

/// How another program ended, and what it wrote.
struct Captured {
  bool found = true;  ///< false: there is no such program
  int exit_code = 0;  ///< -1: a signal ended it
  std::string out, err;
  bool ok() const { return found && exit_code == 0; }
};

/// Runs another program, looked up in PATH, with no input. @throws Error when it cannot be started
/// although it is there.
Captured capture(const std::vector<std::string>& words);

/// What a program that failed said, for an error: its standard error, else its output, without the
/// last newline.
std::string last_words(const Captured& captured);

/// Whether SIGINT, SIGTERM or SIGHUP came since the first child was started, or since they are
/// noted.
bool interrupted();
/// How many came.
int signals_noted();

/// From here on these signals are noted, and end nothing by themselves (SIGINT and SIGHUP only
/// where this process was not started to ignore them): for what must not leave a folder behind.
void note_signals();

/// From here on these signals end this process at once, until it starts a child again: for work of
/// its own, which does not look whether to stop. Only where no child runs.
/// @returns interrupted(), by a signal that came before
bool end_on_signals();

/// Notes signals while it lives; then they end this process again.
struct SignalsNoted {
  SignalsNoted() { note_signals(); }
  ~SignalsNoted() { end_on_signals(); }
  SignalsNoted(const SignalsNoted&) = delete;
  SignalsNoted& operator=(const SignalsNoted&) = delete;
};

/// "killed by signal 11 (Segmentation fault)".
std::string signal_text(int signal);

/// The last lines of a log, for the reader of an error; empty when there is no log.
std::string log_tail(const std::string& path, std::size_t lines);

}  // namespace attnlab
