// Processes that speak by Gloo, through LibTorch's c10d: on CPUs, over TCP.
//
// They meet at a store (a file of this machine, or a TCP port of process 0), connect each with
// each, and never need the store again but for a last word (`World::leave`). Gloo's headers are
// not a dependency of Debian's libtorch-dev: attnlab is built without this where they are missing.
#pragma once

#include <chrono>
#include <memory>

#include "framework/base/launched.h"
#include "framework/train/world.h"

namespace attnlab {

/// How long processes wait for each other before they give up: ten minutes, or what the variable
/// ATTNLAB_PATIENCE says in seconds. @throws ConfigError where that is not a number from 1 to
/// 100000.
std::chrono::seconds patience();

/// Meets the other processes.
/// @throws ConfigError where this attnlab has no Gloo, the count is not a power of two, the address
///         does not answer, the port is in use, two processes have one rank, or some do not come.
std::shared_ptr<World> join_world(const Launched& launched, std::chrono::seconds patience);

}  // namespace attnlab
