// Calls of libraries that may never return.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/threads.h"

namespace attnlab {

/// A call did not return in time.
class NoAnswer : public Error {
 public:
  NoAnswer() : Error("no answer in time") {}
};

/// Makes a call on a thread of its own, and waits so long for its end.
/// @param call  owns all that it uses: what is given up goes on, perhaps until the program ends
/// @throws NoAnswer, ThreadError, what the call throws.
template <class Call>
std::invoke_result_t<Call&> bounded_call(std::chrono::milliseconds limit, Call call) {
  using Task = std::packaged_task<std::invoke_result_t<Call&>()>;
  const auto task = std::make_shared<Task>(std::move(call));
  auto result = task->get_future();
  std::jthread thread = start_thread([task] { (*task)(); });
  if (result.wait_for(limit) == std::future_status::timeout) {
    thread.detach();
    throw NoAnswer();
  }
  return result.get();
}

}  // namespace attnlab
