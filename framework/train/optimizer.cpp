#include "framework/train/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/text.h"
#include "framework/base/vector_clones.h"

namespace attnlab {
namespace {

/// Elements that one thread takes at a time: its four arrays of floats fit into a cache of 512 KiB.
constexpr std::int64_t kChunk = 16384;

/// The numbers of one step: p <- p - step_size m / (square_root sqrt(v) + epsilon).
template <class T>
struct StepNumbers {
  T factor, beta1, beta2, rest1, rest2;
  T step_size, square_root, epsilon;
};

/// A piece of a float32 parameter.
struct Chunk {
  float* parameter;
  const float* gradient;
  float* average;
  float* square;
  std::int64_t count;
  float keep;  ///< 1 - lr wd
};

// (sqrt becomes a vector instruction because the library is built with -fno-math-errno.)

/// The update of one piece. Numbers by value and pointers that do not overlap: what GCC needs to
/// know to vectorise the loop.
ATTNLAB_VECTOR_CLONES
void update_chunk(float* __restrict__ parameter, const float* __restrict__ gradient,
                  float* __restrict__ average, float* __restrict__ square, std::int64_t count,
                  float keep, const StepNumbers<float> n) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * n.factor;
    const float m = average[i] * n.beta1 + g * n.rest1;
    const float v = square[i] * n.beta2 + g * g * n.rest2;
    average[i] = m;
    square[i] = v;
    const float scale = __builtin_sqrtf(v) * n.square_root + n.epsilon;
    parameter[i] = parameter[i] * keep - n.step_size * (m / scale);
  }
}

ATTNLAB_VECTOR_CLONES
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;  // independent sums, so that additions need not wait
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += double(values[i]) * double(values[i]);
  for (const double lane : sums) sum += lane;
  return sum;
}

bool is_plain_float(const Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

/// Calls work(i) for i in [0, count) on all threads.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i));
                   });
}

void check(const OptimizerSettings& s) {
  std::vector<std::string> problems;
  const auto need = [&](const char* name, double value, bool good, const char* what) {
    if (!good) problems.push_back(std::string(name) + ": " + shortest(value) + " is not " + what);
  };
  const auto decay_of_mean = [](double beta) { return beta >= 0 && beta < 1; };
  need("lr", s.learning_rate, s.learning_rate >= 0, "at least 0");
  need("beta1", s.beta1, decay_of_mean(s.beta1), "in [0, 1)");
  need("beta2", s.beta2, decay_of_mean(s.beta2), "in [0, 1)");
  need("eps", s.epsilon, s.epsilon >= 0, "at least 0");
  need("weight_decay", s.weight_decay, s.weight_decay >= 0, "at least 0");
  if (!problems.empty()) throw ConfigError(problems);
}

/// Whether and how far RAdam trusts the second moment after t steps; 0: not yet.
double rectification(double beta2, double t) {
  const double limit = 2 / (1 - beta2) - 1, power = std::pow(beta2, t);
  const double rho = limit - 2 * t * power / (1 - power);
  if (rho <= 5) return 0;
  return std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
}

StepNumbers<double> numbers_of(const OptimizerSettings& s, double t, double factor) {
  const double root = std::sqrt(1 - std::pow(s.beta2, t));
  StepNumbers<double> n{.factor = factor,
                        .beta1 = s.beta1,
                        .beta2 = s.beta2,
                        .rest1 = 1 - s.beta1,
                        .rest2 = 1 - s.beta2,
                        .step_size = s.learning_rate / (1 - std::pow(s.beta1, t)),
                        .square_root = 1 / root,
                        .epsilon = s.epsilon};
  if (s.rule == UpdateRule::adamw) return n;
  const double trust = rectification(s.beta2, t);
  if (trust > 0) {
    n.step_size *= trust;
    n.epsilon /= root;  // torch adds it before it corrects the second moment's bias
  } else {              // momentum alone: the divisor is 1
    n.square_root = 0;
    n.epsilon = 1;
  }
  return n;
}

StepNumbers<float> in_float(const StepNumbers<double>& n) {
  return {float(n.factor), float(n.beta1),     float(n.beta2),       float(n.rest1),
          float(n.rest2),  float(n.step_size), float(n.square_root), float(n.epsilon)};
}

/// Says what is wrong with an entry of a saved state, or nothing.
std::string misfit(const std::string& name, const Tensor* found, const Tensor& expected) {
  if (found == nullptr) return name + ": missing";
  if (found->defined() && found->sizes() == expected.sizes() &&
      found->scalar_type() == expected.scalar_type()) {
    return "";
  }
  return name + ": " + describe(*found) + ", expected " + describe(expected);
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerSettings& settings)
    : settings_(settings) {
  check(settings);
  std::set<std::string> names;
  for (OptimizedParameter& given : parameters) {
    if (!given.parameter.defined() || !given.parameter.is_floating_point()) {
      throw ShapeError("optimiser: parameter '" + given.name + "' is " + describe(given.parameter) +
                       ", expected a floating-point tensor");
    }
    if (!names.insert(given.name).second) {
      throw ShapeError("optimiser: two parameters are called '" + given.name + "'");
    }
    const Tensor data = given.parameter.detach();
    items_.push_back({std::move(given.name), given.parameter, at::zeros_like(data),
                      at::zeros_like(data), given.decays});
  }
}

double Optimizer::gradient_norm() const {
  const at::NoGradGuard no_gradients;
  struct Piece {
    const float* values;
    std::int64_t count;
  };
  std::vector<Piece> pieces;
  double sum = 0;
  for (const Item& item : items_) {
    const Tensor& gradient = item.parameter.grad();
    if (!gradient.defined()) continue;
    if (!is_plain_float(gradient)) {
      const double norm = gradient.norm().item<double>();
      sum += norm * norm;
      continue;
    }
    const float* values = gradient.data_ptr<float>();
    for (std::int64_t at = 0; at < gradient.numel(); at += kChunk) {
      pieces.push_back({values + at, std::min(kChunk, gradient.numel() - at)});
    }
  }
  // Partial sums are added in order, so the result does not depend on the number of threads.
  std::vector<double> sums(pieces.size());
  in_parallel(pieces.size(),
              [&](std::size_t i) { sums[i] = sum_of_squares(pieces[i].values, pieces[i].count); });
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

void Optimizer::step(double factor) {
  const at::NoGradGuard no_gradients;
  ++steps_;
  const OptimizerSettings& s = settings_;
  const StepNumbers<float> numbers = in_float(numbers_of(s, static_cast<double>(steps_), factor));
  std::vector<Chunk> chunks;
  chunks.reserve(items_.size());
  for (Item& item : items_) {
    const Tensor& gradient = item.parameter.grad();
    if (!gradient.defined()) continue;
    if (!is_plain_float(item.parameter) || !is_plain_float(gradient)) {
      update(item, gradient, factor);
      continue;
    }
    float* const parameter = item.parameter.data_ptr<float>();
    const float* const values = gradient.data_ptr<float>();
    float* const average = item.average.data_ptr<float>();
    float* const square = item.square.data_ptr<float>();
    const auto keep = float(item.decays ? 1 - s.learning_rate * s.weight_decay : 1.0);
    for (std::int64_t at = 0; at < gradient.numel(); at += kChunk) {
      chunks.push_back({parameter + at, values + at, average + at, square + at,
                        std::min(kChunk, gradient.numel() - at), keep});
    }
    item.parameter.unsafeGetTensorImpl()->bump_version();  // autograd must notice the change
  }
  in_parallel(chunks.size(), [&](std::size_t i) {
    const Chunk& chunk = chunks[i];
    update_chunk(chunk.parameter, chunk.gradient, chunk.average, chunk.square, chunk.count,
                 chunk.keep, numbers);
  });
}

void Optimizer::update(Item& item, const Tensor& gradient, double factor) {
  const OptimizerSettings& s = settings_;
  const StepNumbers<double> n = numbers_of(s, static_cast<double>(steps_), factor);
  const Tensor g = (gradient.is_sparse() ? gradient.to_dense() : gradient) * factor;
  if (item.decays) item.parameter.mul_(1 - s.learning_rate * s.weight_decay);
  item.average.mul_(n.beta1).add_(g, n.rest1);
  item.square.mul_(n.beta2).addcmul_(g, g, n.rest2);
  const Tensor scale = item.square.sqrt().mul_(n.square_root).add_(n.epsilon);
  item.parameter.addcdiv_(item.average, scale, -n.step_size);
}

void Optimizer::zero_grad() {
  for (Item& item : items_) item.parameter.mutable_grad() = Tensor();
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  state.set("step", at::scalar_tensor(steps_, at::kLong));
  for (const Item& item : items_) {
    state.set("exp_avg." + item.name, item.average);
    state.set("exp_avg_sq." + item.name, item.square);
  }
  return state;
}

void Optimizer::load_state(const NamedTensors& state) {
  const at::NoGradGuard no_gradients;
  const NamedTensors own = this->state();
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : own) {
    const std::string problem = misfit(name, state.find(name), tensor);
    if (!problem.empty()) problems.push_back(problem);
  }
  for (const auto& [name, tensor] : state) {
    if (own.find(name) == nullptr) problems.push_back(name + ": no parameter of that name");
  }
  if (!problems.empty()) {
    throw DataError("the optimiser's state does not fit this model:\n  " + join(problems, "\n  "));
  }
  for (Item& item : items_) {
    item.average.copy_(state.at("exp_avg." + item.name));
    item.square.copy_(state.at("exp_avg_sq." + item.name));
  }
  steps_ = state.at("step").item<std::int64_t>();
}

Optimizer make_optimizer(const Model& model, const OptimizerOptions& options) {
  std::vector<OptimizedParameter> parameters;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    parameters.push_back({item.key(), item.value(), model.decays(item.key(), item.value())});
  }
  OptimizerSettings settings;
  settings.learning_rate = options.lr;
  settings.beta1 = options.beta1;
  settings.beta2 = options.beta2;
  settings.epsilon = options.eps;
  settings.weight_decay = options.weight_decay;
  settings.rule = options.use == "radam" ? UpdateRule::radam : UpdateRule::adamw;
  return {std::move(parameters), settings};
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace attnlab
