// Writing to an open file.
#pragma once

#include <string_view>

namespace attnlab {

/// Writes everything, going on after signals and short writes.
/// @returns 0, or an errno.
int write_all(int descriptor, std::string_view bytes);

}  // namespace attnlab
