// Commands around sharing plugins and results with other labs.
#pragma once

#include "runner/arguments.h"

namespace attnlab {

int new_command(const Words& words);
int cite_command(const Words& words);

/// Commands that share plugins and results (`plugin install`, `key`, `index`): loads their library.
/// @throws ConfigError where attnlab was built without it.
int sharing_command(const std::string& command, const Words& words);

}  // namespace attnlab
