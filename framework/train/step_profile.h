// A profile of some training steps: what each thread computed and when, as a trace that Perfetto
// (ui.perfetto.dev) and chrome://tracing open.
//
// Source: LibTorch's own records of its operations (those of its profiler), with the sizes of their
// inputs, and the parts of a step that train/lockstep.cpp and train/step.cpp name (kStepScope,
// ...). Work of OpenMP's threads shows as the operation that they work for.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace attnlab {

/// The parts of a step, as RECORD_USER_SCOPE names them.
inline constexpr const char* kStepScope = "step";
inline constexpr const char* kBatchScope = "wait for the batch";
inline constexpr const char* kForwardScope = "forward";
inline constexpr const char* kBackwardScope = "backward";
inline constexpr const char* kUpdateScope = "update";

/// Records from its construction on, on all threads; at most one lives at a time. While it lives,
/// each operation costs about a microsecond more; without one, nothing.
class StepProfile {
 public:
  /// @param skipped  steps that are not recorded: in the first ones caches and memory are new
  /// @param steps    steps that are recorded then
  explicit StepProfile(std::int64_t steps, std::int64_t skipped = 3);
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// Steps that were recorded to their end.
  std::int64_t steps() const;
  /// Writes what was recorded, in the Trace Event Format (JSON). @throws Error
  void write(const std::string& path) const;

 private:
  struct Began;
  struct Event {
    std::string name, sizes;
    at::RecordScope scope;
    std::uint64_t thread;
    std::int64_t begin, nanoseconds;
  };
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation);
  static void end(const at::RecordFunction& operation, at::ObserverContext* context);
  bool records() const { return step_ > skipped_ && ended_ < wanted_; }

  std::int64_t wanted_, skipped_;
  at::CallbackHandle handle_ = 0;
  mutable std::mutex mutex_;
  std::int64_t step_ = 0, ended_ = 0;  ///< steps that began, recorded ones that ended
  std::vector<Event> events_;
};

}  // namespace attnlab
