#include "framework/base/threads.h"

#include <fmt/format.h>

#include <latch>
#include <system_error>
#include <vector>

namespace attnlab {

std::jthread start_thread(std::function<void()> work) {
  try {
    return std::jthread(std::move(work));
  } catch (const std::system_error& error) {
    throw ThreadError(fmt::format(
        "cannot start a thread: {}; run fewer at once (--jobs, train.workers, train.threads), or "
        "raise the limit of threads (ulimit -u, the container's pids.max)",
        error.what()));
  }
}

void check_threads(std::int64_t count) {
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  const auto end_all = [&] {
    all_started.count_down();
    threads.clear();
  };
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      threads.push_back(start_thread([&] { all_started.wait(); }));
    }
  } catch (...) {
    end_all();
    throw;
  }
  end_all();
}

}  // namespace attnlab
