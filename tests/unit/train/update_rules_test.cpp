// Adam, SGD and LAMB against plain loops over their equations, and against torch where it has them.
#include "framework/train/update_rules.h"

#include <ATen/Parallel.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "framework/train/optimizer.h"
#include "tests/support/data_files.h"
#include "tests/support/noise.h"

namespace attnlab::update_rules_test {
namespace {

using testing::leaf;
using testing::noise;
using testing::numbers_in;
using Numbers = std::vector<double>;

constexpr int kSteps = 9;
const std::vector<std::vector<std::int64_t>> kShapes = {{1}, {33}, {7, 5}, {20011, 2}};

OptimizerSettings settings_of(UpdateRule rule, double decay) {
  return {.learning_rate = 0.02,
          .beta1 = 0.8,
          .beta2 = 0.95,
          .epsilon = 1e-5,
          .weight_decay = decay,
          .rule = rule};
}

/// The equations, one number at a time. `m` is SGD's sum.
struct Plain {
  OptimizerSettings s;
  Numbers p, m, v;
  int t = 0;

  void step(Numbers g, double factor) {
    ++t;
    for (double& one : g) one *= factor;
    if (s.rule == UpdateRule::adam) adam(g);
    if (s.rule == UpdateRule::sgd) sgd(g);
    if (s.rule == UpdateRule::lamb) lamb(g);
  }

  double direction(std::size_t i, double g) {
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    const double mean = m[i] / (1 - std::pow(s.beta1, t));
    const double square = v[i] / (1 - std::pow(s.beta2, t));
    return mean / (std::sqrt(square) + s.epsilon);
  }
  void adam(const Numbers& g) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] -= s.learning_rate * direction(i, g[i] + s.weight_decay * p[i]);
    }
  }
  void sgd(const Numbers& g) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double slope = g[i] + s.weight_decay * p[i];
      m[i] = t == 1 ? slope : s.momentum * m[i] + slope;
      double move = s.momentum > 0 ? m[i] : slope;
      if (s.nesterov) move = slope + s.momentum * m[i];
      p[i] -= s.learning_rate * move;
    }
  }
  void lamb(Numbers g) {
    double length = 0;
    for (const double one : g) length += one * one;
    length = std::sqrt(length);
    if (s.max_gradient_norm > 0 && length > s.max_gradient_norm) {
      for (double& one : g) one *= s.max_gradient_norm / length;
    }
    Numbers u(p.size());
    double of_p = 0, of_u = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      u[i] = direction(i, g[i]) + s.weight_decay * p[i];
      of_p += p[i] * p[i];
      of_u += u[i] * u[i];
    }
    const bool adapts = s.weight_decay > 0 && of_p > 0 && of_u > 0;
    const double ratio = adapts ? std::sqrt(of_p / of_u) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= s.learning_rate * ratio * u[i];
  }
};

/// The largest difference from the equations after some steps.
double difference(const Tensor& start, const OptimizerSettings& settings, double factor) {
  const Tensor parameter = leaf(start);
  Optimizer optimizer({{"w", parameter}}, settings);
  const Numbers zeros(static_cast<std::size_t>(start.numel()), 0.0);
  Plain plain{settings, numbers_in(start), zeros, zeros};
  for (int t = 1; t <= kSteps; ++t) {
    const Tensor gradient = noise(start.sizes().vec(), 50 + std::uint64_t(t), start.scalar_type());
    parameter.mutable_grad() = gradient;
    optimizer.step(factor);
    plain.step(numbers_in(gradient), factor);
  }
  double largest = 0;
  const Numbers found = numbers_in(parameter);
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(found[i] - plain.p[i]));
  }
  return largest;
}

/// In both precisions (float32 takes the fast path), for several shapes, with and without decay.
void expect_the_equations(OptimizerSettings settings) {
  for (const auto& shape : kShapes) {
    for (const double decay : {0.0, 0.3}) {
      for (const double factor : {1.0, 0.25}) {
        settings.weight_decay = decay;
        const Tensor start = noise(shape, 3, at::kDouble);
        EXPECT_LT(difference(start, settings, factor), 1e-13)
            << at::IntArrayRef(shape) << " " << decay << " " << factor;
        EXPECT_LT(difference(start.to(at::kFloat), settings, factor), 5e-6)
            << at::IntArrayRef(shape) << " " << decay << " " << factor;
      }
    }
  }
  settings.weight_decay = 0.3;
  EXPECT_LT(difference(noise({6, 5}, 4).t(), settings, 1), 5e-6) << "transposed";
}

TEST(Adam, AddsDecayToTheGradient) { expect_the_equations(settings_of(UpdateRule::adam, 0)); }

TEST(Sgd, FollowsTheGradient) { expect_the_equations(settings_of(UpdateRule::sgd, 0)); }

TEST(Sgd, FollowsASumOfGradients) {
  OptimizerSettings settings = settings_of(UpdateRule::sgd, 0);
  settings.momentum = 0.9;
  expect_the_equations(settings);
  settings.nesterov = true;
  expect_the_equations(settings);
}

TEST(Lamb, ScalesEachTensorsStepToItsNorm) {
  expect_the_equations(settings_of(UpdateRule::lamb, 0));
}

TEST(Lamb, ScalesGradientsAboveItsBoundDownAllTogether) {
  OptimizerSettings settings = settings_of(UpdateRule::lamb, 0);
  settings.max_gradient_norm = 0.5;
  expect_the_equations(settings);
  const Tensor a = leaf(noise({3}, 60, at::kDouble)), b = leaf(noise({4}, 61, at::kDouble));
  Optimizer optimizer({{"a", a}, {"b", b}}, settings);
  a.mutable_grad() = at::full({3}, 2.0, at::kDouble);
  b.mutable_grad() = at::full({4}, 2.0, at::kDouble);
  optimizer.step();
  const double clipped = 2 * 0.5 / std::sqrt(7 * 4.0);
  for (const char* name : {"exp_avg.a", "exp_avg.b"}) {
    EXPECT_NEAR(optimizer.state().at(name)[0].item<double>(), 0.2 * clipped, 1e-15);
  }
}

TEST(Lamb, TakesAPlainStepFromZeroAndForWhatDoesNotDecay) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const Tensor zero = leaf(at::zeros({4}, dtype)), bias = leaf(at::full({4}, 9.0, dtype));
    OptimizerSettings settings = settings_of(UpdateRule::lamb, 0.3);
    settings.epsilon = 0;
    Optimizer optimizer({{"zero", zero}, {"bias", bias, false}}, settings);
    zero.mutable_grad() = at::full({4}, 5.0, dtype);
    bias.mutable_grad() = at::full({4}, 5.0, dtype);
    optimizer.step();
    EXPECT_NEAR(zero[0].item<double>(), -0.02, 1e-6);
    EXPECT_NEAR(bias[0].item<double>(), 9 - 0.02, 1e-6);
  }
}

/// Both under the same gradients; decay for matrices and vectors alike.
template <class TorchOptimizer, class Options>
void expect_torch(const OptimizerSettings& settings, const Options& options) {
  std::vector<OptimizedParameter> ours;
  std::vector<Tensor> theirs;
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const Tensor start = noise(kShapes[i], 70 + i);
    ours.push_back({std::to_string(i), leaf(start)});
    theirs.push_back(leaf(start));
  }
  Optimizer optimizer(ours, settings);
  TorchOptimizer reference(theirs, options);
  for (std::uint64_t step = 0; step < 15; ++step) {
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      theirs[i].mutable_grad() = noise(kShapes[i], 100 * step + i);
      ours[i].parameter.mutable_grad() = theirs[i].grad().clone();
    }
    optimizer.step();
    reference.step();
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      ASSERT_TRUE(ours[i].parameter.allclose(theirs[i], 1e-5, 1e-6)) << step << " " << i;
    }
  }
}

TEST(Adam, AgreesWithTorch) {
  for (const double decay : {0.0, 0.1}) {
    expect_torch<torch::optim::Adam>(
        settings_of(UpdateRule::adam, decay),
        torch::optim::AdamOptions(0.02).betas({0.8, 0.95}).eps(1e-5).weight_decay(decay));
  }
}

TEST(Sgd, AgreesWithTorch) {
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 0.1}) {
      OptimizerSettings settings = settings_of(UpdateRule::sgd, decay);
      settings.momentum = momentum;
      settings.nesterov = momentum > 0 && decay > 0;
      expect_torch<torch::optim::SGD>(
          settings, torch::optim::SGDOptions(0.02).momentum(momentum).weight_decay(decay).nesterov(
                        settings.nesterov));
    }
  }
}

TEST(UpdateRules, GiveTheSameNumbersForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const auto rule : {UpdateRule::adam, UpdateRule::sgd, UpdateRule::lamb}) {
    const auto result = [&](int threads) {
      at::set_num_threads(threads);
      const Tensor parameter = leaf(noise({100003}, 5));
      Optimizer optimizer({{"w", parameter}}, settings_of(rule, 0.1));
      for (std::uint64_t step = 0; step < 3; ++step) {
        parameter.mutable_grad() = noise({100003}, 6 + step);
        optimizer.step();
      }
      return parameter.detach();
    };
    const Tensor one = result(1), three = result(3);
    EXPECT_TRUE(one.equal(three)) << int(rule);
  }
  at::set_num_threads(before);
}

TEST(UpdateRules, ContinueExactlyFromASavedState) {
  for (const auto rule : {UpdateRule::sgd, UpdateRule::lamb, UpdateRule::adam}) {
    OptimizerSettings settings = settings_of(rule, 0.1);
    settings.momentum = 0.9;
    const auto train = [](Optimizer& optimizer, const Tensor& parameter, std::uint64_t from) {
      for (std::uint64_t step = from; step < from + 4; ++step) {
        parameter.mutable_grad() = noise({300}, 200 + step);
        optimizer.step();
      }
    };
    const Tensor through = leaf(noise({300}, 19));
    Optimizer reference({{"w", through}}, settings);
    train(reference, through, 0);
    NamedTensors state;
    for (const auto& [name, tensor] : reference.state()) state.set(name, tensor.clone());
    const Tensor resumed = leaf(through.detach());
    Optimizer second({{"w", resumed}}, settings);
    second.load_state(state);
    train(reference, through, 4);
    train(second, resumed, 4);
    EXPECT_TRUE(resumed.equal(through)) << int(rule);
  }
}

}  // namespace
}  // namespace attnlab::update_rules_test
