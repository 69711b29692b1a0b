// Where attnlab keeps what it can make again.
#pragma once

#include <string>

namespace attnlab {

/// `$XDG_CACHE_HOME/attnlab`, else `$HOME/.cache/attnlab`; empty without such a folder. Relative
/// paths do not count, as the XDG Base Directory Specification has it.
std::string cache_folder();

}  // namespace attnlab
