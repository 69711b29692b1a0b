// What a loss is multiplied by before its backward pass where products are in float16
// (train.precision): gradients below 6e-8 would be 0 there. As in Micikevicius et al. 2018 (arXiv
// 1710.03740, section 3.2), with the constants of PyTorch's GradScaler.
#pragma once

#include <cstdint>

namespace attnlab {

struct LossScale {
  double value = 65536;    ///< a power of two: dividing by it rounds nothing
  std::int64_t steps = 0;  ///< since it changed, all with finite gradients

  /// After a step: twice as large after 2000 such steps in turn; half where a gradient was not
  /// finite, and the step is left out.
  void update(bool finite) {
    constexpr std::int64_t kSteps = 2000;
    steps = finite ? steps + 1 : 0;
    if (finite && steps < kSteps) return;
    value *= finite ? 2 : 0.5;
    steps = 0;
  }

  /// Whether no scale helps: gradients of the loss itself are not finite.
  bool exhausted() const { return value < 1e-30; }
};

}  // namespace attnlab
