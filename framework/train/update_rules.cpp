#include "framework/train/update_rules.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/update_loops.h"

namespace attnlab {
namespace {

using updates::Squares;
using updates::StepNumbers;

/// Elements that one thread takes at a time: its four arrays of floats fit into a cache of 512 KiB.
constexpr std::int64_t kChunk = 16384;

/// A piece of a float32 parameter.
struct Chunk {
  updates::Piece piece;
  std::size_t update;  ///< which it is of
};

/// Calls work(i) for i in [0, count) on all threads.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i));
                   });
}

/// What the count of updates alone makes of the moments.
struct Corrections {
  double mean = 1;   ///< 1 - b1^t
  double root = 1;   ///< sqrt(1 - b2^t)
  double trust = 1;  ///< RAdam's r; 0: the second moment is not trusted yet
};

double rectification(double beta2, double t) {
  const double limit = 2 / (1 - beta2) - 1, power = std::pow(beta2, t);
  const double rho = limit - 2 * t * power / (1 - power);
  if (rho <= 5) return 0;
  return std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
}

Corrections corrections_of(const RuleSettings& s, std::int64_t step) {
  const auto t = static_cast<double>(step);
  Corrections c{.mean = 1 - std::pow(s.beta1, t), .root = std::sqrt(1 - std::pow(s.beta2, t))};
  if (s.rule == UpdateRule::radam) c.trust = rectification(s.beta2, t);
  return c;
}

StepNumbers<double> numbers_of(const RuleSettings& s, const Corrections& c, double rate,
                               double factor) {
  StepNumbers<double> n{.factor = factor,
                        .beta1 = s.beta1,
                        .beta2 = s.beta2,
                        .rest1 = 1 - s.beta1,
                        .rest2 = 1 - s.beta2,
                        .step_size = (s.rule == UpdateRule::lamb ? 1 : rate) / c.mean,
                        .square_root = 1 / c.root,
                        .epsilon = s.epsilon};
  if (s.rule != UpdateRule::radam) return n;
  if (c.trust > 0) {
    n.step_size *= c.trust;
    n.epsilon /= c.root;  // torch adds it before it corrects the second moment's bias
  } else {                // momentum alone: the divisor is 1
    n.square_root = 0;
    n.epsilon = 1;
  }
  return n;
}

StepNumbers<float> in_float(const StepNumbers<double>& n) {
  return {float(n.factor), float(n.beta1),     float(n.beta2),       float(n.rest1),
          float(n.rest2),  float(n.step_size), float(n.square_root), float(n.epsilon)};
}

/// |p| / |u|, or 1 where that has no meaning.
double ratio_of(const Squares& sums) {
  const bool both = sums.parameter > 0 && sums.direction > 0;
  return both ? std::sqrt(sums.parameter) / std::sqrt(sums.direction) : 1;
}

/// Any device, dtype and layout.
void update_tensor(const RuleSettings& s, const ParameterUpdate& u, double factor) {
  const StepNumbers<double> n = numbers_of(s, corrections_of(s, u.step), u.learning_rate, factor);
  const Tensor& p = u.parameter;
  Tensor g = (u.gradient.is_sparse() ? u.gradient.to_dense() : u.gradient) * factor;
  const bool into_gradient = s.rule == UpdateRule::adam || s.rule == UpdateRule::sgd;
  if (into_gradient && u.weight_decay != 0) g.add_(p, u.weight_decay);
  if (s.rule == UpdateRule::sgd) {
    if (u.average.defined()) {
      u.average.mul_(s.momentum).add_(g);
      g = s.nesterov ? g.add(u.average, s.momentum) : u.average;
    }
    p.add_(g, -u.learning_rate);
    return;
  }
  const bool decoupled = s.rule == UpdateRule::adamw || s.rule == UpdateRule::radam;
  if (decoupled && u.weight_decay != 0) p.mul_(1 - u.learning_rate * u.weight_decay);
  u.average.mul_(n.beta1).add_(g, n.rest1);
  u.square.mul_(n.beta2).addcmul_(g, g, n.rest2);
  const Tensor scale = u.square.sqrt().mul_(n.square_root).add_(n.epsilon);
  if (s.rule != UpdateRule::lamb) {
    p.addcdiv_(u.average, scale, -n.step_size);
    return;
  }
  Tensor direction = u.average.div(scale).mul_(n.step_size);
  if (u.weight_decay != 0) {
    direction.add_(p, u.weight_decay);
    const Tensor size = p.norm(), length = direction.norm();
    const Tensor both = size.gt(0).logical_and(length.gt(0));
    direction.mul_(at::where(both, size / length, at::ones_like(size)));
  }
  p.add_(direction, -u.learning_rate);
}

/// The updates of float32 parameters on the CPU, in pieces.
class FastUpdates {
 public:
  FastUpdates(const RuleSettings& settings, double factor) : s_(settings), factor_(factor) {}

  void add(const ParameterUpdate& update) {
    if (update.step != step_) {
      step_ = update.step;
      corrections_ = corrections_of(s_, step_);
    }
    const double rate = update.learning_rate;
    numbers_.push_back({in_float(numbers_of(s_, corrections_, rate, factor_)),
                        float(1 - rate * update.weight_decay), float(update.weight_decay),
                        float(rate)});
    float* const average = update.average.defined() ? update.average.data_ptr<float>() : nullptr;
    float* const square = update.square.defined() ? update.square.data_ptr<float>() : nullptr;
    float* const parameter = update.parameter.data_ptr<float>();
    const float* const gradient = update.gradient.data_ptr<float>();
    for (std::int64_t at = 0; at < update.parameter.numel(); at += kChunk) {
      const updates::Piece piece{parameter + at, gradient + at,
                                 average == nullptr ? nullptr : average + at,
                                 square == nullptr ? nullptr : square + at,
                                 std::min(kChunk, update.parameter.numel() - at)};
      chunks_.push_back({piece, numbers_.size() - 1});
    }
  }

  void run() {
    if (s_.rule == UpdateRule::lamb) return run_lamb();
    in_parallel(chunks_.size(), [&](std::size_t i) { update(chunks_[i]); });
  }

 private:
  struct Numbers {
    StepNumbers<float> step;
    float keep;  ///< 1 - lr wd
    float decay, rate;
  };

  void update(const Chunk& c) const {
    const Numbers& n = numbers_[c.update];
    const auto momentum = float(s_.momentum);
    switch (s_.rule) {
      case UpdateRule::adam:
        updates::adam(c.piece, n.decay, n.step);
        break;
      case UpdateRule::sgd:
        if (c.piece.average == nullptr) {
          updates::sgd(c.piece, n.step.factor, n.decay, n.rate);
        } else {
          updates::momentum(c.piece, {n.step.factor, n.decay, n.rate, momentum,
                                      s_.nesterov ? momentum : 1.0F, s_.nesterov ? 1.0F : 0.0F});
        }
        break;
      default:
        updates::adamw(c.piece, n.keep, n.step);
    }
  }

  void run_lamb() {
    std::vector<Squares> parts(chunks_.size());
    in_parallel(chunks_.size(), [&](std::size_t i) {
      const Chunk& c = chunks_[i];
      const Numbers& n = numbers_[c.update];
      parts[i] = updates::prepare_lamb(c.piece, n.decay, n.step);
    });
    // Added in order, so that the result does not depend on the number of threads.
    std::vector<Squares> sums(numbers_.size());
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      sums[chunks_[i].update].parameter += parts[i].parameter;
      sums[chunks_[i].update].direction += parts[i].direction;
    }
    in_parallel(chunks_.size(), [&](std::size_t i) {
      const Chunk& c = chunks_[i];
      const Numbers& n = numbers_[c.update];
      const double ratio = n.decay == 0 ? 1 : ratio_of(sums[c.update]);
      updates::finish_lamb(c.piece, n.decay, float(n.rate * ratio), n.step);
    });
  }

  const RuleSettings& s_;
  double factor_;
  std::int64_t step_ = 0;  ///< that the corrections are of
  Corrections corrections_;
  std::vector<Numbers> numbers_;
  std::vector<Chunk> chunks_;
};

}  // namespace

bool is_plain_float(const Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

void apply_updates(const RuleSettings& settings, const std::vector<ParameterUpdate>& updates,
                   double factor) {
  const at::NoGradGuard no_gradients;
  FastUpdates fast(settings, factor);
  for (const ParameterUpdate& update : updates) {
    if (!is_plain_float(update.parameter) || !is_plain_float(update.gradient)) {
      update_tensor(settings, update, factor);
      continue;
    }
    fast.add(update);
    update.parameter.unsafeGetTensorImpl()->bump_version();  // autograd must notice the change
  }
  fast.run();
}

double norm_of(const std::vector<Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  struct Piece {
    const float* values;
    std::int64_t count;
  };
  std::vector<Piece> pieces;
  double sum = 0;
  for (const Tensor& tensor : tensors) {
    if (!is_plain_float(tensor)) {
      const double norm = tensor.norm().item<double>();
      sum += norm * norm;
      continue;
    }
    const float* values = tensor.data_ptr<float>();
    for (std::int64_t at = 0; at < tensor.numel(); at += kChunk) {
      pieces.push_back({values + at, std::min(kChunk, tensor.numel() - at)});
    }
  }
  // Partial sums are added in order, so the result does not depend on the number of threads.
  std::vector<double> sums(pieces.size());
  in_parallel(pieces.size(), [&](std::size_t i) {
    sums[i] = updates::sum_of_squares(pieces[i].values, pieces[i].count);
  });
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

}  // namespace attnlab
