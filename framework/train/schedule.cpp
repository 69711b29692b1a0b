#include "framework/train/schedule.h"

#include <cmath>
#include <numbers>
#include <string>

#include "framework/base/error.h"

namespace attnlab {
namespace {

void check(const Schedule& s) {
  if (s.warmup_steps < 0 || s.base < 0 || s.warmup_start < 0 || s.minimum < 0) {
    throw ConfigError("learning-rate schedule: steps and rates must not be negative");
  }
  if (s.warmup_steps > s.total_steps) {
    throw ConfigError("learning-rate schedule: " + std::to_string(s.warmup_steps) +
                      " steps of warm-up do not fit into " + std::to_string(s.total_steps) +
                      " steps; train longer or shorten the warm-up");
  }
}

}  // namespace

double learning_rate(const Schedule& s, std::int64_t step) {
  check(s);
  if (step < s.warmup_steps) {
    const double done = static_cast<double>(step) / static_cast<double>(s.warmup_steps);
    return s.warmup_start + (s.base - s.warmup_start) * done;
  }
  if (s.shape == Schedule::Shape::constant) return s.base;
  if (step >= s.total_steps) return s.minimum;
  const double done = static_cast<double>(step - s.warmup_steps) /
                      static_cast<double>(s.total_steps - s.warmup_steps);
  return s.minimum + (s.base - s.minimum) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace attnlab
