// Threads that say what is wrong when they cannot start.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "framework/base/limits.h"

namespace attnlab {

/// The system has no thread left for this process.
class ThreadError : public LimitError {
 public:
  using LimitError::LimitError;
};

/// Starts a thread, which is joined when the object goes.
/// @throws ThreadError.
std::jthread start_thread(std::function<void()> work);

/// Proves that so many more threads can run beside those that do. For libraries that end the
/// process where one of theirs cannot start (oneTBB).
/// @throws ThreadError.
void check_threads(std::int64_t count);

}  // namespace attnlab
