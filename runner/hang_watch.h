// Ends a program that would wait for ever: OpenBLAS asks for memory again and again where it gets
// none.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace attnlab {

/// What this process has done until now, as the kernel counts it.
struct Activity {
  double processor = 0;          ///< seconds of all threads
  double in_kernel = 0;          ///< of these
  std::int64_t page_faults = 0;  ///< new memory, and files that are mapped
  std::int64_t waits = 0;        ///< for a disk, a server, another thread
};
Activity activity_so_far();

/// Adds up how long a process has hung. Takes no memory, so that signal handlers may use it.
class HangClock {
 public:
  /// How long each look found the same, in seconds.
  struct Times {
    double computing = 0;  ///< without touching new memory and without waiting
    double waiting = 0;    ///< for the same
    double in_kernel = 0;  ///< a good part of the time, without touching new memory
  };
  /// @param seconds  since the last look; where these are many, who looks was held, too (SIGSTOP),
  /// or
  ///                 waited for a disk, and all begins anew
  const Times& look(const Activity& now, double seconds);

 private:
  bool looked_ = false;
  Activity last_;
  Times times_;
};

/// Ends the program, with kNoRoom and a message, where the start of libraries hangs while this
/// lives: it computes for `patience` without touching new memory, or waits ten minutes for the
/// same. It looks each second, by SIGALRM: a second thread would make loading libraries slower by 4
/// %.
class StartWatch {
 public:
  /// @param patience  seconds
  /// @param advice    what is short, and what to do, as the end of a sentence
  StartWatch(double patience, const std::string& advice);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  static void look(int signal);

  std::string text_;
  double patience_;
  struct sigaction before_ {};
  timer_t timer_{};
  bool runs_ = false;
};

/// Ends the program in the same way where a call of a library hangs while this lives: it spends its
/// time in the kernel and gets nothing for it.
class WorkWatch {
 public:
  /// @param patience  seconds
  /// @param advice    what is short, and what to do, as the end of a sentence; nothing where the
  ///                  program does not hang although it looks so
  /// @throws ThreadError.
  WorkWatch(double patience, std::function<std::optional<std::string>()> advice);
  ~WorkWatch();
  WorkWatch(const WorkWatch&) = delete;
  WorkWatch& operator=(const WorkWatch&) = delete;

 private:
  void look();

  const double patience_;
  const std::function<std::optional<std::string>()> advice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::jthread thread_;
};

}  // namespace attnlab
