// The one function that the engine exports.
#include "runner/engine/engine.h"

extern "C" [[gnu::visibility("default")]] int attnlab_commands(const std::string& command,
                                                               const attnlab::Words& words) {
  static const attnlab::EngineCommands commands = {
      {"run", attnlab::run_command},         {"eval", attnlab::eval_command},
      {"sample", attnlab::sample_command},   {"probe", attnlab::probe_command},
      {"match", attnlab::match_command},     {"doctor", attnlab::doctor_engine_command},
      {"summary", attnlab::summary_command}, {"attention apply", attnlab::attention_apply_command},
      {"bench", attnlab::bench_command},
  };
  return attnlab::run_engine_command(commands, command, words);
}
