// What both libraries of commands begin with, and their signals.
#include "runner/engine/engine.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/threads.h"
#include "framework/base/work_to_save.h"
#include "framework/data/long_work.h"
#include "framework/tensor/device.h"
#include "runner/signals.h"

namespace attnlab {
namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

/// When the first signal came, in nanoseconds; 0: none has.
std::atomic<std::int64_t> asked_at{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "set in a signal handler");

/// Looks again after so long whether there is work to save.
void look_after(long milliseconds) {
  const itimerval timer{{0, 0}, {0, milliseconds * 1000}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Making data, loading or evaluating may take long before it looks whether to stop. What is on the
/// disk is whole at any moment, so nothing is lost by not waiting.
void on_patience_gone(int) {
  if (WorkToSave::any()) return look_after(50);
  constexpr char kText[] = "attnlab: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(kInterrupted);
}

void on_signal(int signal) {
  // Slurm signals every process of a job, and a suite hands its own signal on to its runs: two
  // signals at the same moment are one request.
  constexpr std::int64_t kSameMoment = 50'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t time = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  std::int64_t first = 0;
  stop = true;
  constexpr long kPatience = 700;  // ms
  if (asked_at.compare_exchange_strong(first, time)) return look_after(kPatience);
  if (signal == SIGUSR1) return;  // srun may hand on what Slurm has sent by itself before
  if (time - first < kSameMoment) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this returns
}

/// Handles signals on a thread of its own, and on no other that starts after this. oneDNN's
/// products use the stack pointer as one more register: while they run it points into the heap, and
/// a handler on their thread would write its frame over what lies there.
void take_signals() {
  for (const int signal : {SIGTERM, SIGUSR1}) std::signal(signal, on_signal);
  for (const int signal : {SIGINT, SIGHUP}) {  // a terminal that goes asks to stop, too
    if (!is_ignored(signal)) std::signal(signal, on_signal);
  }
  std::signal(SIGALRM, on_patience_gone);
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGALRM}) {
    ::sigaddset(&taken, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  start_thread([taken] {
    ::pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
    while (true) ::pause();
  }).detach();
}

}  // namespace

const std::atomic<bool>& stop_requested() { return stop; }

int run_engine_command(const EngineCommands& commands, const std::string& command,
                       const Words& words) {
  use_widest_vectors();
  keep_freed_memory();
  take_signals();
  // (A check's standard error is read by the program that started it.)
  if (command != "plugin check") {
    on_long_work([](const std::string& text) { std::cerr << one_line(text) << std::endl; });
  }
  return commands.at(command)(words);
}

}  // namespace attnlab
