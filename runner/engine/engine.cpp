// The engine's one exported function, and its signals.
#include "runner/engine/engine.h"

#include <csignal>
#include <map>

#include "framework/nn/device.h"

namespace attnlab {
namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

void on_signal(int signal) {
  stop = true;
  std::signal(signal, SIG_DFL);
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
  static const std::map<std::string, int (*)(const attnlab::Words&)> commands = {
      {"run", attnlab::run_command},
      {"eval", attnlab::eval_command},
      {"attention apply", attnlab::attention_apply_command},
      {"plugin check", attnlab::plugin_check_command},
      {"bench", attnlab::bench_command},
  };
  return commands.at(command)(words);
}
