// attnlab attention: one mechanism by itself. Its commands run plugin code, so the engine has them.
#include <fmt/format.h>
#include <iostream>

#include "framework/base/error.h"
#include "framework/base/text.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

constexpr const char* kHelp = R"(usage: attnlab attention COMMAND

  attnlab attention apply   compute one mechanism on the tensors of a file

`attnlab attention COMMAND --help` tells more.
)";

}  // namespace

int attention_command(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << kHelp;
    return words.empty() ? kUsage : kDone;
  }
  if (words[0] == "apply") {
    return engine_command("attention apply", Words(words.begin() + 1, words.end()));
  }
  throw ConfigError(
      fmt::format("unknown command 'attention {}'{}", words[0], suggestion(words[0], {"apply"})));
}

}  // namespace attnlab
