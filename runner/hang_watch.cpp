#include "runner/hang_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/threads.h"
#include "runner/arguments.h"

namespace attnlab {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

[[noreturn]] void end_with(const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(kNoRoom);
}

/// While this lives, a thread that starts gets no signals: other threads handle them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// What the handler looks with.
struct Look {
  HangClock clock;
  Clock::time_point last;
};
Look start_look;
std::atomic<const StartWatch*> start_watch{nullptr};
static_assert(std::atomic<const StartWatch*>::is_always_lock_free, "read in a signal handler");

}  // namespace

Activity activity_so_far() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const double in_kernel = seconds_of(used.ru_stime);
  return {seconds_of(used.ru_utime) + in_kernel, in_kernel, used.ru_minflt + used.ru_majflt,
          used.ru_nvcsw};
}

const HangClock::Times& HangClock::look(const Activity& now, double seconds) {
  const Activity before = std::exchange(last_, now);
  constexpr double kHeld = 3;                          // seconds
  constexpr std::int64_t kFaults = 64, kWaits = 3;     // looking itself takes no more
  constexpr double kComputes = 0.5, kInKernel = 0.25;  // of the time
  if (!std::exchange(looked_, true) || seconds > kHeld) {
    times_ = {};
    return times_;
  }
  const std::int64_t faults = now.page_faults - before.page_faults;
  const bool computes = now.processor - before.processor >= kComputes * seconds;
  const bool waits = now.waits - before.waits > kWaits;
  const bool asks = now.in_kernel - before.in_kernel >= kInKernel * seconds;
  const auto add = [&](bool goes_on, double& to) { to = goes_on ? to + seconds : 0; };
  add(computes && faults <= kFaults && !waits, times_.computing);
  add(!computes && faults == 0 && !waits, times_.waiting);
  add(asks && faults <= kFaults, times_.in_kernel);
  return times_;
}

StartWatch::StartWatch(double patience, const std::string& advice)
    : text_("attnlab: the start of LibTorch or OpenBLAS hangs: nothing moves" + advice + "\n"),
      patience_(patience) {
  start_look = {HangClock(), Clock::now()};
  start_watch = this;
  struct sigaction action {};
  action.sa_handler = look;
  action.sa_flags = SA_RESTART;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  // (A timer of this kind does not outlive the exec of a program that begins again.)
  runs_ = ::sigaction(SIGALRM, &action, &before_) == 0 &&
          ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  constexpr itimerspec kEachSecond{{1, 0}, {1, 0}};
  if (runs_) ::timer_settime(timer_, 0, &kEachSecond, nullptr);
}

StartWatch::~StartWatch() {
  if (runs_) ::timer_delete(timer_);
  ::signal(SIGALRM, SIG_IGN);  // also one that is on its way
  start_watch = nullptr;
  ::sigaction(SIGALRM, &before_, nullptr);
}

void StartWatch::look(int /*signal*/) {
  const int error = errno;
  constexpr double kWaitsForEver = 600;  // seconds
  if (const StartWatch* watch = start_watch) {
    const double passed = seconds_since(std::exchange(start_look.last, Clock::now()));
    const HangClock::Times& times = start_look.clock.look(activity_so_far(), passed);
    if (times.computing >= watch->patience_ || times.waiting >= kWaitsForEver) {
      end_with(watch->text_);
    }
  }
  errno = error;
}

WorkWatch::WorkWatch(double patience, std::function<std::optional<std::string>()> advice)
    : patience_(patience), advice_(std::move(advice)) {
  const SignalsBlocked blocked;
  thread_ = start_thread([this] { look(); });
}

WorkWatch::~WorkWatch() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WorkWatch::look() {
  constexpr auto kBetween = std::chrono::seconds(1);
  HangClock clock;
  Clock::time_point last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBetween, [this] { return done_; })) {
    const double passed = seconds_since(std::exchange(last, Clock::now()));
    if (clock.look(activity_so_far(), passed).in_kernel < patience_) continue;
    if (const std::optional<std::string> advice = advice_()) {
      end_with("attnlab: a call of LibTorch or OpenBLAS hangs: it asks for memory without success" +
               *advice + "\n");
    }
  }
}

}  // namespace attnlab
