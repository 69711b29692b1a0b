// The one function that this library exports: commands that show what a run, a dataset or a plugin
// does. They need all domains, and so stand apart from what trains.
#include "runner/engine/engine.h"

extern "C" [[gnu::visibility("default")]] int attnlab_commands(const std::string& command,
                                                               const attnlab::Words& words) {
  static const attnlab::EngineCommands commands = {
      {"show", attnlab::show_command},
      {"detect", attnlab::detect_command},
      {"segment", attnlab::segment_command},
      {"data show", attnlab::data_show_command},
      {"plugin check", attnlab::plugin_check_command},
      {"study", attnlab::study_command},
  };
  return attnlab::run_engine_command(commands, command, words);
}
