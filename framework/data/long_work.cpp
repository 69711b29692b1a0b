#include "framework/data/long_work.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "framework/base/clock.h"
#include "framework/base/cores.h"
#include "framework/base/hand_over.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr double kEvery = 2;  // seconds

std::mutex listener_mutex;
std::function<void(const std::string&)> listener;

void tell(const std::string& text) {
  const std::lock_guard lock(listener_mutex);
  if (listener) listener(text);
}

/// How far the work is, and when that was told last.
class Progress {
 public:
  Progress(const std::string& what, std::int64_t total) : what_(what), total_(total) {}
  ~Progress() {
    if (told_) tell(fmt::format("{}: done in {}", what_, duration(seconds())));
  }

  void one_more() {
    const std::int64_t done = ++done_;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || seconds() < next_ || done >= total_) return;
    next_ = seconds() + kEvery;
    told_ = true;
    const double left = seconds() * double(total_ - done) / double(done);
    tell(fmt::format("{}: {} %, {} left", what_, 100 * done / total_, duration(left)));
  }

 private:
  double seconds() const { return seconds_since(begin_); }

  const std::string& what_;
  std::int64_t total_;
  Clock::time_point begin_ = Clock::now();
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  double next_ = kEvery;
  bool told_ = false;
};

}  // namespace

void in_parallel(const std::string& what, std::int64_t count,
                 const std::function<void(std::int64_t)>& work) {
  Progress progress(what, count);
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<std::int64_t> failed{count};  // the lowest index that threw
  const auto attempt = [&](std::int64_t i) {
    if (i > failed) return;  // what comes behind it is not needed
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (i >= failed) return;
      failed = i;
      error = std::current_exception();
    }
    progress.one_more();
  };
  const auto as_task = [&](std::int64_t i) {
    take_over();
    attempt(i);
    hand_over();
  };
  tbb::task_arena arena(static_cast<int>(available_cores()));
  hand_over();
  arena.execute([&] { tbb::parallel_for(std::int64_t{0}, count, as_task); });
  take_over();
  if (error) std::rethrow_exception(error);
}

void on_long_work(std::function<void(const std::string& text)> new_listener) {
  const std::lock_guard lock(listener_mutex);
  listener = std::move(new_listener);
}

}  // namespace attnlab
