#include "framework/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// What is wrong with a warm-up; empty: nothing.
std::string warmup_problem(const Schedule& s) {
  if (s.warmup_steps > s.total_steps) {
    return fmt::format(
        "{} steps of warm-up do not fit into {} steps; train longer or shorten the warm-up",
        s.warmup_steps, s.total_steps);
  }
  if (s.shape == Schedule::Shape::inverse_root && s.warmup_steps == 0) {
    return "an inverse root needs at least one step of warm-up; lengthen it";
  }
  return "";
}

void check(const Schedule& s) {
  if (s.warmup_steps < 0 || s.base < 0 || s.warmup_start < 0 || s.minimum < 0) {
    throw ConfigError("learning-rate schedule: steps and rates must not be negative");
  }
  const std::string problem = warmup_problem(s);
  if (!problem.empty()) throw ConfigError("learning-rate schedule: " + problem);
}

/// From a to b by half a cosine. @param done  0 to 1
double anneal(double a, double b, double done) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

/// Share of the curve's steps that are done.
double done_at(const Schedule& s, std::int64_t step) {
  const std::int64_t first = s.warmup_prefix ? s.warmup_steps : 0;
  return static_cast<double>(step - first) / static_cast<double>(s.total_steps - first);
}

/// As torch, whose first phase may end between two steps.
double one_cycle(const Schedule& s, std::int64_t step) {
  const double first = s.base / s.div, last = first / s.final_div;
  const auto t = static_cast<double>(step), steps = static_cast<double>(s.total_steps);
  const double rise =
      s.warmup_steps > 0 ? static_cast<double>(s.warmup_steps) : s.pct_start * steps;
  const double peak = rise - 1, end = steps - 1;
  if (t <= peak) return peak > 0 ? anneal(first, s.base, t / peak) : s.base;
  return t < end ? anneal(s.base, last, (t - peak) / (end - peak)) : last;
}

Schedule::Shape shape_of(const std::string& name) {
  using Shape = Schedule::Shape;
  if (name == "cosine") return Shape::cosine;
  if (name == "constant") return Shape::constant;
  if (name == "step") return Shape::step;
  if (name == "polynomial") return Shape::polynomial;
  if (name == "onecycle") return Shape::onecycle;
  if (name == "inverse_root") return Shape::inverse_root;
  throw ConfigError(fmt::format("train.schedule.shape: there is no shape '{}'", name));
}

}  // namespace

double cosine_between(double from, double to, std::int64_t step, std::int64_t steps) {
  if (step >= steps) return to;
  return anneal(from, to, static_cast<double>(step) / static_cast<double>(steps));
}

double learning_rate(const Schedule& s, std::int64_t step) {
  check(s);
  if (s.shape == Schedule::Shape::onecycle) return one_cycle(s, step);
  if (step < s.warmup_steps) {
    const double done = static_cast<double>(step) / static_cast<double>(s.warmup_steps);
    return s.warmup_start + (s.base - s.warmup_start) * done;
  }
  switch (s.shape) {
    case Schedule::Shape::step: {
      const auto drops = std::upper_bound(s.milestones.begin(), s.milestones.end(), step);
      return s.base * std::pow(s.gamma, static_cast<double>(drops - s.milestones.begin()));
    }
    case Schedule::Shape::inverse_root:
      return s.base * std::sqrt(static_cast<double>(s.warmup_steps) / static_cast<double>(step));
    case Schedule::Shape::cosine:
      return step >= s.total_steps ? s.minimum : anneal(s.base, s.minimum, done_at(s, step));
    case Schedule::Shape::polynomial:
      return step >= s.total_steps
                 ? s.minimum
                 : s.minimum + (s.base - s.minimum) * std::pow(1 - done_at(s, step), s.power);
    default:
      return s.base;
  }
}

Pace pace_at(const Schedule& s, std::int64_t step) {
  const double decay = s.weight_decay_end < 0 ? s.weight_decay
                                              : cosine_between(s.weight_decay, s.weight_decay_end,
                                                               step, s.total_steps);
  return {learning_rate(s, step), decay, step / s.steps_per_epoch};
}

Schedule make_schedule(const TrainOptions& train, std::int64_t steps_per_epoch,
                       std::int64_t total_steps) {
  const ScheduleOptions& options = train.schedule;
  const auto steps_of = [&](double epochs) {
    return static_cast<std::int64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
  };
  const double peak = train.optimizer.lr;
  Schedule s;
  s.shape = shape_of(options.shape);
  s.warmup_steps =
      options.warmup_steps > 0 ? options.warmup_steps : steps_of(options.warmup_epochs);
  s.total_steps = total_steps;
  s.base = peak;
  s.warmup_start = std::min(options.warmup_lr, peak);
  s.minimum = std::min(options.min_lr, peak);
  s.warmup_prefix = options.warmup_prefix;
  for (const double epoch : options.milestones) s.milestones.push_back(steps_of(epoch));
  s.gamma = options.gamma;
  s.power = options.power;
  s.pct_start = options.pct_start;
  s.div = options.div_factor;
  s.final_div = options.final_div_factor;
  s.weight_decay = train.optimizer.weight_decay;
  s.weight_decay_end = train.optimizer.weight_decay_end;
  s.steps_per_epoch = steps_per_epoch;
  if (const std::string problem = warmup_problem(s); !problem.empty()) {
    throw ConfigError(fmt::format("train.schedule.{}: {}",
                                  options.warmup_steps > 0 ? "warmup_steps" : "warmup_epochs",
                                  problem));
  }
  return s;
}

}  // namespace attnlab
