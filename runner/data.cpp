// attnlab data: the data of an experiment. Its commands run plugin code, so the engine has them.
#include "runner/commands.h"

namespace attnlab {
namespace {

constexpr const char* kDataHelp = R"(usage: attnlab data COMMAND

  attnlab data show   a picture of what the model sees, with labels

`attnlab data COMMAND --help` tells more.
)";

}  // namespace

int data_command(const Words& words) {
  return run_subcommand(
      "data", kDataHelp, words,
      {{"show", [](const Words& rest) { return engine_command("data show", rest); }}});
}

}  // namespace attnlab
