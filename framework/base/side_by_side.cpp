#include "framework/base/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/base/cores.h"
#include "framework/base/threads.h"

namespace attnlab {

void side_by_side(std::size_t count, std::size_t worth,
                  const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::exception_ptr thrown;
  const auto take_turns = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {  // it must not leave a thread
      next = count;
      const std::lock_guard<std::mutex> lock(guard);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  const std::size_t wanted = count / std::max<std::size_t>(1, worth);
  const std::size_t workers =
      wanted < 2 ? 1 : std::min(wanted, static_cast<std::size_t>(available_cores()));
  {
    std::vector<std::jthread> threads;
    try {
      while (threads.size() + 1 < workers) threads.push_back(start_thread(take_turns));
    } catch (const ThreadError&) {  // those that there are suffice
    }
    take_turns();
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace attnlab
