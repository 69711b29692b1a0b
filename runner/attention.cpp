// attnlab attention: one mechanism by itself. Its commands run plugin code, so the engine has them.
#include "runner/commands.h"

namespace attnlab {
namespace {

constexpr const char* kHelp = R"(usage: attnlab attention COMMAND

  attnlab attention apply   compute one mechanism on the tensors of a file

`attnlab attention COMMAND --help` tells more.
)";

}  // namespace

int attention_command(const Words& words) {
  return run_subcommand(
      "attention", kHelp, words,
      {{"apply", [](const Words& rest) { return engine_command("attention apply", rest); }}});
}

}  // namespace attnlab
