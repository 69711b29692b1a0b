// What a process and all that it started take of this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab::sharing {

struct Footprint {
  std::int64_t bytes = 0;     ///< blocks of files, also of those that have no name any more
  std::size_t processes = 0;  ///< that run
  bool too_deep = false;      ///< there are folders deeper than `kDeepestFolder`
};

inline constexpr int kDeepestFolder = 256;

/// @param pid    the process; those below it count, too
/// @param paths  files, and folders with all in them; links are not followed. A folder that its
///               owner closed is opened to be counted.
Footprint footprint_of(pid_t pid, const std::vector<std::string>& paths);

}  // namespace attnlab::sharing
