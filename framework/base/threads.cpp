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
        "raise what limits threads and their stacks (ulimit -u, ulimit -v, the container's "
        "pids.max){}",
        error.what(), limits_here(thread_limits())));
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
  } catch (const ThreadError& error) {
    const std::size_t started = threads.size();
    end_all();
    throw ThreadError(fmt::format("{} more threads are needed, and {} can be started: {}", count,
                                  started, error.what()));
  } catch (...) {
    end_all();
    throw;
  }
  end_all();
}

}  // namespace attnlab
