// What this machine or its administrator allows this process, in words, for those who run short.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace attnlab {

/// There is less of this machine for this process than it needs: memory, threads.
class LimitError : public Error {
 public:
  using Error::Error;
};

/// Whether so many bytes more can be mapped and written to, as far as limits of the address space,
/// of data and of memory that is promised go. Takes none of it.
bool can_map(std::int64_t bytes);

/// Whether memory may be refused to this process by a limit of its own (`ulimit -v`, `-d`), or
/// since the machine promises no more than it has (`vm.overcommit_memory=2`).
bool mapping_is_limited();

/// Whether threads may be refused to this process: by a limit of some thousands or fewer (`ulimit
/// -u`, a container's), or since their stacks find no room.
bool threads_are_limited();

/// The limits of memory that stand: "address space 200 MiB (ulimit -v)"; empty where none does.
std::string memory_limits();

/// The limits of threads that stand: "at most 100 processes and threads of this user (ulimit -u)";
/// of the address space, too, in which each thread's stack has to fit. Empty where none does.
std::string thread_limits();

/// "; limits here: ...", the end of an error's text; empty without limits.
std::string limits_here(const std::string& limits);

}  // namespace attnlab
