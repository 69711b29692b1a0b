// What of the process, outside of computing, code that is not ours must leave alone.
#pragma once

#include <locale.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <locale>
#include <streambuf>
#include <string>
#include <vector>

namespace attnlab {

/// A snapshot of working folder, umask, signal handlers, locale, environment and standard streams,
/// of this thread's locale and blocked signals, and of what tells that a process was started.
class ProcessSettings {
 public:
  /// Takes the snapshot.
  ProcessSettings();
  /// What differs now, in words; empty when nothing does.
  std::vector<std::string> changes() const;
  /// Puts back what can be put back: not a standard stream's file, nor a process that runs.
  void restore() const;

 private:
  bool same_locale() const;

  std::string folder_, umask_, locale_;  ///< the locale of C
  std::locale streams_locale_;           ///< that of C++
  locale_t thread_locale_;               ///< of C, where a thread has its own
  sigset_t blocked_;
  std::vector<std::string> environment_;
  std::array<std::string, 3> streams_;
  bool synced_;                                ///< C++'s streams with C's
  std::array<std::streambuf*, 4> buffers_;     ///< of C++'s streams, as they are named in the .cpp
  std::array<struct sigaction, 65> handlers_;  ///< by number
  std::int64_t processes_ = 0;
};

}  // namespace attnlab
