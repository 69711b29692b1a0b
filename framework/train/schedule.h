// What changes from step to step: learning rate, weight decay, the epoch. Functions of the step, so
// there is no state to save.
//
//   warm-up, t < w:        start + (base - start) t / w
//   constant, t >= w:      base
//   cosine, t >= w:        min + (base - min) (1 + cos(pi (t - o) / (T - o))) / 2
//   polynomial, t >= w:    min + (base - min) (1 - (t - o) / (T - o))^power
//                          o = w, or 0 where the warm-up is not a prefix (timm's default)
//   step, t >= w:          base gamma^(number of milestones <= t)
//   inverse root, t >= w:  base sqrt(w / t)
//   one cycle:             up from base / div to base by a cosine until t = w - 1, then down to
//                          base / div / final by a cosine until t = T - 1; w is pct T where no
//                          warm-up is given
//
// Cosine and polynomial stay at min from T on. t is the number of updates done, 0 at the first.
// Sources: Loshchilov & Hutter, SGDR, ICLR 2017 (one cycle, with linear warm-up); Vaswani et al.,
// NeurIPS 2017 (inverse root, scaled so that the peak is `base`); Smith & Topin, 2017
// (arXiv:1708.07120), with the numbers of torch's OneCycleLR.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/experiment/train_options.h"

namespace attnlab {

struct Schedule {
  enum class Shape { constant, cosine, step, polynomial, onecycle, inverse_root };

  Shape shape = Shape::cosine;
  std::int64_t warmup_steps = 0;  ///< w
  std::int64_t total_steps = 1;   ///< T, warm-up included
  double base = 1e-3;
  double warmup_start = 0.0;
  double minimum = 0.0;
  bool warmup_prefix = true;
  std::vector<std::int64_t> milestones{};  ///< [steps], rising
  double gamma = 0.1, power = 1;
  double pct_start = 0.3, div = 25, final_div = 1e4;
  double weight_decay = 0, weight_decay_end = -1;  ///< by a cosine; end -1: it stays the same
  std::int64_t steps_per_epoch = 1;
};

/// What one step is made with.
struct Pace {
  double learning_rate = 0, weight_decay = 0;
  std::int64_t epoch = 0;  ///< 0 for the first
};

/// The schedule that a composition asks for.
/// @throws ConfigError for a warm-up beyond its end, or none where an inverse root needs one.
Schedule make_schedule(const TrainOptions& train, std::int64_t steps_per_epoch,
                       std::int64_t total_steps);

/// @param step  0 for the first.
/// @throws ConfigError when the schedule has negative numbers, or a warm-up beyond its end, or none
///         where an inverse root needs one.
Pace pace_at(const Schedule& schedule, std::int64_t step);
/// Its learning rate alone. @throws as `pace_at`.
double learning_rate(const Schedule& schedule, std::int64_t step);

/// From `from` at the first of `steps` steps to `to` after the last by half a cosine.
double cosine_between(double from, double to, std::int64_t step, std::int64_t steps);

}  // namespace attnlab
