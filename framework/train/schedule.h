// Learning-rate schedules: a function of the step, so there is no state to save.
//
//   warm-up, t < w:   start + (base - start) t / w
//   cosine, t >= w:   min + (base - min) (1 + cos(pi (t - w) / (T - w))) / 2,   min from T on
//   constant:         base
//
// Source: Loshchilov & Hutter, SGDR, ICLR 2017 (one cycle, with linear warm-up).
#pragma once

#include <cstdint>

namespace attnlab {

struct Schedule {
  enum class Shape { constant, cosine };

  Shape shape = Shape::cosine;
  std::int64_t warmup_steps = 0;  ///< w
  std::int64_t total_steps = 1;   ///< T, warm-up included
  double base = 1e-3;
  double warmup_start = 0.0;
  double minimum = 0.0;
};

/// The learning rate of one step.
/// @param step  0 for the first.
/// @throws ConfigError when the schedule has negative numbers, or a warm-up beyond its end.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace attnlab
