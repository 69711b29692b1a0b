// attnlab data: the data of an experiment. Its commands run plugin code, so the engine has them.
#include <fmt/format.h>
#include <iostream>

#include "framework/base/error.h"
#include "framework/base/text.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

constexpr const char* kHelp = R"(usage: attnlab data COMMAND

  attnlab data show   a picture of what the model sees, with labels

`attnlab data COMMAND --help` tells more.
)";

}  // namespace

int data_command(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << kHelp;
    return words.empty() ? kUsage : kDone;
  }
  if (words[0] == "show") return engine_command("data show", Words(words.begin() + 1, words.end()));
  throw ConfigError(
      fmt::format("unknown command 'data {}'{}", words[0], suggestion(words[0], {"show"})));
}

}  // namespace attnlab
