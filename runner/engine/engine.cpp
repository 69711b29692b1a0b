// The engine's one exported function, and its signals.
#include "runner/engine/engine.h"

#include <csignal>
#include <ctime>
#include <iostream>
#include <map>

#include "framework/data/long_work.h"
#include "framework/tensor/device.h"

namespace attnlab {
namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

/// When the first signal came, in nanoseconds; 0: none has.
std::atomic<std::int64_t> asked_at{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "set in a signal handler");

void on_signal(int signal) {
  // Slurm signals every process of a job, and a suite hands its own signal on to its runs: two
  // signals at the same moment are one request.
  constexpr std::int64_t kSameMoment = 50'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t time = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  std::int64_t first = 0;
  stop = true;
  if (asked_at.compare_exchange_strong(first, time) || time - first < kSameMoment) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this returns
}

}  // namespace

const std::atomic<bool>& stop_requested() { return stop; }

}  // namespace attnlab

extern "C" [[gnu::visibility("default")]] int attnlab_engine(const std::string& command,
                                                             const attnlab::Words& words) {
  attnlab::use_widest_vectors();
  attnlab::keep_freed_memory();
  std::signal(SIGINT, attnlab::on_signal);
  std::signal(SIGTERM, attnlab::on_signal);
  // (A check's standard error is read by the program that started it.)
  if (command != "plugin check") {
    attnlab::on_long_work([](const std::string& text) { std::cerr << text << std::endl; });
  }
  static const std::map<std::string, int (*)(const attnlab::Words&)> commands = {
      {"run", attnlab::run_command},
      {"eval", attnlab::eval_command},
      {"sample", attnlab::sample_command},
      {"show", attnlab::show_command},
      {"probe", attnlab::probe_command},
      {"match", attnlab::match_command},
      {"attention apply", attnlab::attention_apply_command},
      {"plugin check", attnlab::plugin_check_command},
      {"bench", attnlab::bench_command},
      {"study", attnlab::study_command},
      {"data show", attnlab::data_show_command},
  };
  return commands.at(command)(words);
}
