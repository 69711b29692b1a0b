// Processes of one run, played by threads of one: what they say goes by memory.
//
// LibTorch's generator of random numbers is one for all threads, so such runs must draw nothing
// while they train (dropout). Real processes are in the integration tests.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/train/world.h"

namespace attnlab::testing {

/// Where they meet.
struct Hall {
  explicit Hall(std::int64_t size) : said(static_cast<std::size_t>(size)) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> said, heard;
  std::size_t arrived = 0, round = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::deque<Tensor>> post;  ///< by from and to
  std::int64_t numbers_sent = 0;
  std::map<std::int64_t, std::string> left;  ///< why a thread ended
  bool broken = false;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Hall& hall, std::int64_t rank)
      : World(rank, static_cast<std::int64_t>(hall.said.size())), hall_(hall) {}

  void exchange(const Tensor& mine, const Tensor& theirs, std::int64_t partner) override {
    std::unique_lock lock(hall_.mutex);
    hall_.post[{rank(), partner}].push_back(mine.clone());
    hall_.numbers_sent += mine.numel();
    hall_.changed.notify_all();
    std::deque<Tensor>& box = hall_.post[{partner, rank()}];
    wait(lock, [&] { return !box.empty(); });
    theirs.copy_(box.front());
    box.pop_front();
  }
  void leave(const std::string& reason) noexcept override {
    const std::lock_guard lock(hall_.mutex);
    hall_.left.emplace(rank(), reason);
  }
  Missing missing() override {
    const std::lock_guard lock(hall_.mutex);
    Missing missing;
    for (const auto& [rank, reason] : hall_.left) missing.text += name(rank) + ": " + reason + "; ";
    missing.failed = !hall_.left.empty();
    return missing;
  }

 private:
  std::vector<std::string> gather_all(const std::string& mine) override {
    std::unique_lock lock(hall_.mutex);
    if (hall_.broken) throw WorldError("the hall is empty");
    const std::size_t round = hall_.round;
    hall_.said[static_cast<std::size_t>(rank())] = mine;
    if (++hall_.arrived == hall_.said.size()) {
      hall_.heard = hall_.said;
      hall_.arrived = 0;
      ++hall_.round;
      hall_.changed.notify_all();
    }
    wait(lock, [&] { return hall_.round != round; });
    return hall_.heard;  // (the next round ends when this thread comes to it)
  }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    hall_.changed.wait(lock, [&] { return ready() || hall_.broken; });
    if (!ready()) throw WorldError("the hall is empty");
  }

  Hall& hall_;
};

/// Calls `work` with the world of each of so many processes, side by side. Where one throws, the
/// others get a WorldError. @throws what was thrown first that is not a WorldError, or else one.
inline void in_world(std::int64_t size,
                     const std::function<void(const std::shared_ptr<World>&)>& work,
                     Hall* hall = nullptr) {
  Hall own(size);
  Hall& place = hall == nullptr ? own : *hall;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          work(size == 1 ? World::alone() : std::make_shared<ThreadWorld>(place, rank));
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
          const std::lock_guard lock(place.mutex);
          place.broken = true;
          place.changed.notify_all();
        }
      });
    }
  }
  std::exception_ptr lost;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const WorldError&) {
      lost = error;
    }
  }
  if (lost) std::rethrow_exception(lost);
}

}  // namespace attnlab::testing
