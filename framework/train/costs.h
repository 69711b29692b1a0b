// Measures what a run costs: FLOPs, memory, time. framework/costs/costs.h says what becomes of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "framework/costs/forecast.h"
#include "framework/tensor/flop_counter.h"
#include "framework/train/run.h"

namespace attnlab {

/// FLOPs of one forward pass of the model with its attention, of one example: of the first of the
/// training split, or, where examples differ in shape, the mean over the first batch that the
/// dataset plans. It is what is really computed, by the convention of
/// framework/tensor/flop_counter.h, with the kernels that a run takes. In evaluation mode, without
/// gradients; the model's mode is kept. Cost: that forward pass.
std::int64_t forward_flops(const BuiltRun& run);

/// The same, operation by operation.
struct ForwardOperations {
  std::int64_t examples = 0, flops = 0;            ///< of the pass
  std::map<std::string, CountedFlops> operations;  ///< as FlopCounter's
};
ForwardOperations forward_operations(const BuiltRun& run);

/// The largest memory of this process since the construction (since its beginning where the system
/// does not let the mark be set back): on the CPU what is resident, data and libraries included; on
/// a GPU what LibTorch's allocator held for tensors, of this thread and of autograd's.
class PeakMemory {
 public:
  explicit PeakMemory(const at::Device& device);
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  /// 0 where the system does not say.
  std::int64_t bytes() const;

 private:
  class DeviceReports;
  struct Guard;
  std::shared_ptr<DeviceReports> reports_;  ///< null on the CPU
  std::unique_ptr<Guard> guard_;
};

/// Trains for a few steps after one of warm-up, and evaluates one batch. The model is of no use
/// afterwards. Nothing is written.
/// @param steps  0: nothing is run, so a part that hangs or crashes when it runs does no harm;
///               FLOPs and times are 0
RunForecast probe_run(BuiltRun& run, std::int64_t steps);

}  // namespace attnlab
