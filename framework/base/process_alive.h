// Whether the process that left something behind is still at work.
#pragma once

#include <sys/types.h>

namespace attnlab {

/// Whether a process of this machine lives, whoever's it is. One that has ended and waits for its
/// parent to ask how (a zombie) does not: where process 1 asks late or, as in many containers,
/// never, it would seem to be at work for ever.
bool is_alive(::pid_t process);

}  // namespace attnlab
