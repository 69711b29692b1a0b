// What of the process, outside of computing, code that is not ours must leave alone.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <locale>
#include <string>
#include <vector>

namespace attnlab {

/// A snapshot of working folder, umask, signal handlers, locale, environment and standard streams,
/// and of what tells that a process was started.
class Surroundings {
 public:
  /// Takes the snapshot.
  Surroundings();
  /// What differs now, in words; empty when nothing does.
  std::vector<std::string> changes() const;
  /// Puts back what can be put back: not a standard stream, nor a process that runs.
  void restore() const;

 private:
  bool same_locale() const;

  std::string folder_, umask_, locale_;  ///< the locale of C
  std::locale streams_locale_;           ///< that of C++
  std::vector<std::string> environment_;
  std::array<std::string, 3> streams_;
  std::array<struct sigaction, 65> handlers_;  ///< by number
  std::int64_t processes_ = 0;
};

}  // namespace attnlab
