#include "framework/train/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <limits>

#include "tests/support/data_files.h"
#include "tests/support/noise.h"

namespace attnlab::optimizer_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::leaf;
using testing::message_of;
using testing::noise;

const OptimizerSettings kSettings{
    .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1};

/// AdamW by its definition, one number at a time.
struct NaiveAdamW {
  double p, m = 0, v = 0;

  void step(double gradient, double t, bool decays, const OptimizerSettings& s) {
    if (decays) p -= s.learning_rate * s.weight_decay * p;
    m = s.beta1 * m + (1 - s.beta1) * gradient;
    v = s.beta2 * v + (1 - s.beta2) * gradient * gradient;
    const double mean = m / (1 - std::pow(s.beta1, t));
    const double square = v / (1 - std::pow(s.beta2, t));
    p -= s.learning_rate * mean / (std::sqrt(square) + s.epsilon);
  }
};

/// Runs both for some steps. @returns the largest difference between the parameters.
double difference_from_definition(const Tensor& start, bool decays, double factor) {
  const Tensor parameter = leaf(start);
  Optimizer optimizer({{"w", parameter, decays}}, kSettings);
  std::vector<NaiveAdamW> naive;
  const Tensor flat = start.to(at::kDouble).reshape({-1}).contiguous();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    naive.push_back({flat.data_ptr<double>()[i]});
  }
  for (int t = 1; t <= 12; ++t) {
    const Tensor gradient = noise(start.sizes().vec(), 100 + std::uint64_t(t), start.scalar_type());
    parameter.mutable_grad() = gradient;
    optimizer.step(factor);
    const Tensor numbers = gradient.to(at::kDouble).reshape({-1}).contiguous();
    for (std::size_t i = 0; i < naive.size(); ++i) {
      naive[i].step(numbers.data_ptr<double>()[i] * factor, t, decays, kSettings);
    }
  }
  double difference = 0;
  const Tensor found = parameter.detach().to(at::kDouble).reshape({-1}).contiguous();
  for (std::size_t i = 0; i < naive.size(); ++i) {
    difference = std::max(difference, std::abs(found.data_ptr<double>()[i] - naive[i].p));
  }
  return difference;
}

TEST(AdamW, FollowsItsDefinition) {
  // One number, an odd count, more than one chunk; with and without decay; clipped and not.
  for (const std::int64_t count : {1, 33, 40001}) {
    for (const bool decays : {false, true}) {
      for (const double factor : {1.0, 0.25}) {
        EXPECT_LT(difference_from_definition(noise({count}, 1), decays, factor), 1e-6)
            << count << " " << decays << " " << factor;
      }
    }
  }
}

TEST(AdamW, FollowsItsDefinitionInDoublePrecision) {
  EXPECT_LT(difference_from_definition(noise({50}, 2, at::kDouble), true, 0.5), 1e-13);
}

TEST(AdamW, FollowsItsDefinitionForTransposedParameters) {
  EXPECT_LT(difference_from_definition(noise({6, 5}, 3).t(), true, 1.0), 1e-6);
}

TEST(AdamW, TrainsHalfPrecisionParameters) {
  EXPECT_LT(difference_from_definition(noise({64}, 4, at::kBFloat16), true, 1.0), 0.03);
}

TEST(AdamW, AgreesWithTorch) {
  const std::vector<std::vector<std::int64_t>> shapes = {{64, 48}, {48}, {3, 5, 7}, {}};
  std::vector<OptimizedParameter> ours;
  std::vector<Tensor> decayed, exempt;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Tensor start = noise(shapes[i], 10 + i);
    const bool decays = shapes[i].size() > 1;
    ours.push_back({"p" + std::to_string(i), leaf(start), decays});
    (decays ? decayed : exempt).push_back(leaf(start));
  }
  std::vector<Tensor> theirs = {decayed[0], exempt[0], decayed[1], exempt[1]};
  const auto options = [](double decay) {
    return torch::optim::AdamWOptions(kSettings.learning_rate)
        .betas({kSettings.beta1, kSettings.beta2})
        .eps(kSettings.epsilon)
        .weight_decay(decay);
  };
  torch::optim::AdamW torch_adamw(
      std::vector<torch::optim::OptimizerParamGroup>{
          {decayed, std::make_unique<torch::optim::AdamWOptions>(options(0.1))},
          {exempt, std::make_unique<torch::optim::AdamWOptions>(options(0.0))}},
      options(0.1));
  Optimizer optimizer(ours, kSettings);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const double rate = 0.01 / double(step + 1);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      theirs[i].mutable_grad() = noise(shapes[i], 1000 + 10 * step + i);
      ours[i].parameter.mutable_grad() = theirs[i].grad().clone();
    }
    optimizer.set_learning_rate(rate);
    for (auto& group : torch_adamw.param_groups()) {
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
    }
    optimizer.step();
    torch_adamw.step();
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      ASSERT_TRUE(ours[i].parameter.allclose(theirs[i], 1e-6, 1e-6)) << step << " " << i;
    }
  }
}

TEST(AdamW, GivesTheSameNumbersForAnyNumberOfThreads) {
  const auto result = [](int threads) {
    at::set_num_threads(threads);
    const Tensor parameter = leaf(noise({100003}, 5));
    Optimizer optimizer({{"w", parameter}}, kSettings);
    parameter.mutable_grad() = noise({100003}, 6);
    optimizer.step(clip_factor(optimizer.gradient_norm(), 1.0));
    return parameter.detach();
  };
  const int threads = at::get_num_threads();
  const Tensor one = result(1), three = result(3);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

TEST(AdamW, MeasuresTheNormOfAllGradientsTogether) {
  const std::vector<Tensor> gradients = {noise({40001}, 7) * 3, noise({17}, 8),
                                         noise({5, 4}, 9, at::kDouble), noise({6, 7}, 10).t()};
  std::vector<OptimizedParameter> parameters;
  double sum = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    parameters.push_back({"p" + std::to_string(i), leaf(at::zeros_like(gradients[i]))});
    parameters.back().parameter.mutable_grad() = gradients[i];
    const Tensor flat = gradients[i].to(at::kDouble).reshape({-1}).contiguous();
    for (std::int64_t k = 0; k < flat.numel(); ++k) {
      sum += flat.data_ptr<double>()[k] * flat.data_ptr<double>()[k];
    }
  }
  parameters.push_back({"unused", leaf(at::zeros({3}))});
  EXPECT_NEAR(Optimizer(parameters, kSettings).gradient_norm() / std::sqrt(sum), 1, 1e-6);
}

TEST(AdamW, DoesNotHideGradientsThatAreNotFinite) {
  for (const double bad : {std::nan(""), double(std::numeric_limits<float>::infinity())}) {
    const Tensor parameter = leaf(noise({1000}, 11));
    parameter.mutable_grad() = noise({1000}, 12);
    parameter.grad()[777] = bad;
    EXPECT_FALSE(std::isfinite(Optimizer({{"w", parameter}}, kSettings).gradient_norm()));
  }
}

TEST(AdamW, LeavesParametersWithoutGradientAlone) {
  const Tensor used = leaf(noise({5}, 13)), unused = leaf(noise({5}, 14));
  const Tensor before = unused.detach().clone(), used_before = used.detach().clone();
  Optimizer optimizer({{"used", used}, {"unused", unused}}, kSettings);
  used.mutable_grad() = noise({5}, 15);
  optimizer.step();
  EXPECT_TRUE(unused.equal(before));
  EXPECT_FALSE(used.equal(used_before));
}

TEST(AdamW, ForgetsGradients) {
  const Tensor parameter = leaf(noise({5}, 16));
  Optimizer optimizer({{"w", parameter}}, kSettings);
  parameter.sum().backward();
  EXPECT_TRUE(parameter.grad().defined());
  optimizer.zero_grad();
  EXPECT_FALSE(parameter.grad().defined());
}

// A graph that still needs the old values must not silently use the new ones.
TEST(AdamW, TellsAutogradThatItChangedAParameter) {
  const Tensor parameter = leaf(noise({5}, 17));
  const Tensor loss = (parameter * parameter).sum();
  parameter.mutable_grad() = noise({5}, 18);
  Optimizer({{"w", parameter}}, kSettings).step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(AdamW, ContinuesExactlyFromASavedState) {
  const auto train = [](Optimizer& optimizer, const Tensor& parameter, std::uint64_t from,
                        std::uint64_t to) {
    for (std::uint64_t step = from; step < to; ++step) {
      parameter.mutable_grad() = noise({300}, 200 + step);
      optimizer.step();
    }
  };
  const Tensor through = leaf(noise({300}, 19));
  Optimizer reference({{"w", through}}, kSettings);
  train(reference, through, 0, 5);
  NamedTensors state;
  for (const auto& [name, tensor] : reference.state()) state.set(name, tensor.clone());
  const Tensor resumed = leaf(through.detach());
  train(reference, through, 5, 10);

  Optimizer second({{"w", resumed}}, kSettings);
  second.load_state(state);
  EXPECT_EQ(second.steps(), 5);
  train(second, resumed, 5, 10);
  EXPECT_TRUE(resumed.equal(through));
}

TEST(AdamW, RefusesAStateThatDoesNotFitAndNamesEveryEntry) {
  const Tensor parameter = leaf(noise({4}, 20));
  Optimizer optimizer({{"w", parameter}}, kSettings);
  parameter.mutable_grad() = noise({4}, 21);
  optimizer.step();
  const Tensor before = optimizer.state().at("exp_avg.w").clone();
  const std::string message = message_of<DataError>([&] {
    optimizer.load_state({{"step", at::scalar_tensor(3, at::kLong)},
                          {"exp_avg.w", at::zeros({5})},
                          {"exp_avg.v", at::zeros({4})}});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("exp_avg.w: [5]"), HasSubstr("exp_avg_sq.w: missing"),
                             HasSubstr("exp_avg.v: no parameter")));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("step:")));
  EXPECT_TRUE(optimizer.state().at("exp_avg.w").equal(before));
  EXPECT_EQ(optimizer.steps(), 1);
}

TEST(AdamW, RefusesWhatItCannotTrain) {
  EXPECT_THROW(Optimizer({{"w", at::zeros({2}, at::kLong)}}, kSettings), ShapeError);
  EXPECT_THROW(Optimizer({{"w", Tensor()}}, kSettings), ShapeError);
  EXPECT_THROW(Optimizer({{"w", leaf(at::zeros({2}))}, {"w", leaf(at::zeros({2}))}}, kSettings),
               ShapeError);
  EXPECT_THAT(message_of<ConfigError>([] {
                Optimizer({}, {.learning_rate = -1,
                               .beta1 = 1,
                               .beta2 = 2,
                               .weight_decay = NAN,
                               .momentum = 1,
                               .max_gradient_norm = -1});
              }),
              AllOf(HasSubstr("lr: -1"), HasSubstr("beta1: 1"), HasSubstr("beta2: 2"),
                    HasSubstr("weight_decay: .nan"), HasSubstr("momentum: 1"),
                    HasSubstr("max_grad_norm: -1")));
}

TEST(Optimizer, IsRefusedInTheSameWordsWithoutBeingMade) {
  const std::vector<OptimizedParameter> parameters = {{"w", leaf(at::zeros({2}))}};
  std::vector<OptimizerOptions> wrong(4);
  wrong[0].lr = -1;
  wrong[1].beta1 = 1;
  wrong[2].layer_decay = 0.5;
  wrong[3].use = "none";
  for (const OptimizerOptions& options : wrong) {
    EXPECT_EQ(message_of<ConfigError>([&] { check_optimizer(parameters, options); }),
              message_of<ConfigError>([&] { make_optimizer(parameters, options); }));
  }
  EXPECT_NO_THROW(check_optimizer(parameters, {}));
}

TEST(Optimizer, LeavesAFrozenParameterAndItsMomentsAsTheyAre) {
  const auto w = leaf(noise({6}, 30)), head = leaf(noise({6}, 31));
  Optimizer optimizer({{.name = "w", .parameter = w, .end_epoch = 2},
                       {.name = "head", .parameter = head, .first_epoch = 1}},
                      kSettings);
  const auto moved = [&](std::int64_t epoch) {
    const Tensor w_before = w.detach().clone(), head_before = head.detach().clone();
    const Tensor moment_before = optimizer.state().at("exp_avg.head").clone();
    w.mutable_grad() = noise({6}, 32);
    head.mutable_grad() = noise({6}, 33);
    optimizer.set_pace({.learning_rate = 0.1, .weight_decay = 0.5, .epoch = epoch});
    optimizer.step();
    const bool head_moved = !head.equal(head_before);
    EXPECT_EQ(head_moved, !optimizer.state().at("exp_avg.head").equal(moment_before));
    return std::pair(!w.equal(w_before), head_moved);
  };
  EXPECT_EQ(moved(0), std::pair(true, false));
  EXPECT_EQ(moved(1), std::pair(true, true));
  EXPECT_EQ(moved(2), std::pair(false, true));
  EXPECT_EQ(moved(7), std::pair(false, true));
  EXPECT_EQ(optimizer.steps(), 4);
}

// A moment that starts late is as biased as one that starts at once.
TEST(Optimizer, BeginsAfreshWithAParameterThatWasFrozen) {
  const Tensor late = leaf(noise({5}, 34)), twin = leaf(late.detach());
  Optimizer first({{.name = "w", .parameter = late, .first_epoch = 1}}, kSettings);
  for (int step = 0; step < 3; ++step) {
    late.mutable_grad() = noise({5}, 35);
    first.step();
  }
  Optimizer second({{"w", twin}}, kSettings);
  late.mutable_grad() = twin.mutable_grad() = noise({5}, 36);
  first.set_pace({.learning_rate = 0.01, .weight_decay = 0.1, .epoch = 1});
  first.step();
  second.step();
  EXPECT_TRUE(late.equal(twin));
}

TEST(Optimizer, GivesEachParameterItsOwnRateAndDecay) {
  const Tensor ones = at::ones({3}, at::kDouble);
  const Tensor plain = leaf(ones), slow = leaf(ones), heavy = leaf(ones), bias = leaf(ones);
  OptimizerSettings settings{.weight_decay = 0.5, .rule = UpdateRule::sgd};
  Optimizer optimizer({{"plain", plain},
                       {.name = "slow", .parameter = slow, .lr_scale = 0.1},
                       {.name = "heavy", .parameter = heavy, .weight_decay = 2.0},
                       {.name = "bias", .parameter = bias, .decays = false, .weight_decay = 2.0}},
                      settings);
  for (const Tensor& one : {plain, slow, heavy, bias}) one.mutable_grad() = ones * 3;
  optimizer.set_pace({.learning_rate = 0.1, .weight_decay = 0.25});
  optimizer.step();
  EXPECT_NEAR(plain[0].item<double>(), 1 - 0.1 * (3 + 0.25), 1e-15);
  EXPECT_NEAR(slow[0].item<double>(), 1 - 0.01 * (3 + 0.25), 1e-15);
  EXPECT_NEAR(heavy[0].item<double>(), 1 - 0.1 * (3 + 2), 1e-15);
  EXPECT_NEAR(bias[0].item<double>(), 1 - 0.1 * 3, 1e-15);
}

TEST(Optimizer, DoesNotCountGradientsOfFrozenParametersInTheNorm) {
  const Tensor w = leaf(at::zeros({4})), frozen = leaf(at::zeros({4}));
  Optimizer optimizer({{"w", w}, {.name = "frozen", .parameter = frozen, .first_epoch = 1}},
                      kSettings);
  w.mutable_grad() = at::full({4}, 1.5);
  frozen.mutable_grad() = at::full({4}, 100.0);
  EXPECT_DOUBLE_EQ(optimizer.gradient_norm(), 3.0);
}

TEST(Optimizer, RemembersWhatItsRuleNeedsAndNoMore) {
  const auto names = [](UpdateRule rule, double momentum) {
    std::vector<std::string> all;
    const Optimizer optimizer({{"w", leaf(at::zeros({2}))}}, {.rule = rule, .momentum = momentum});
    for (const auto& [name, tensor] : optimizer.state()) all.push_back(name);
    return all;
  };
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(names(UpdateRule::sgd, 0), UnorderedElementsAre("step", "step.w"));
  EXPECT_THAT(names(UpdateRule::sgd, 0.9),
              UnorderedElementsAre("step", "step.w", "momentum_buffer.w"));
  for (const auto rule :
       {UpdateRule::adamw, UpdateRule::radam, UpdateRule::adam, UpdateRule::lamb}) {
    EXPECT_THAT(names(rule, 0),
                UnorderedElementsAre("step", "step.w", "exp_avg.w", "exp_avg_sq.w"));
  }
}

TEST(Optimizer, IsWhatACompositionAsksFor) {
  const auto after_one_step = [](const OptimizerOptions& options) {
    const Tensor w = leaf(at::full({1, 2}, 2.0, at::kDouble));
    Optimizer optimizer = make_optimizer({{"w", w}}, options);
    w.mutable_grad() = at::full({1, 2}, 4.0, at::kDouble);
    optimizer.step();
    return w[0][0].item<double>();
  };
  OptimizerOptions options;
  options.lr = 0.1;
  options.weight_decay = 0.5;
  options.eps = 0;
  options.use = "adamw";
  EXPECT_NEAR(after_one_step(options), 2 * 0.95 - 0.1, 1e-12);
  options.use = "adam";
  EXPECT_NEAR(after_one_step(options), 2 - 0.1, 1e-12);
  options.use = "radam";
  EXPECT_NEAR(after_one_step(options), 2 * 0.95 - 0.1 * 4, 1e-12);
  options.use = "sgd";
  EXPECT_NEAR(after_one_step(options), 2 - 0.1 * 5, 1e-12);
  options.momentum = 0.5;
  options.nesterov = true;
  EXPECT_NEAR(after_one_step(options), 2 - 0.1 * (5 + 0.5 * 5), 1e-12);
  options.use = "lamb";  // |p| = 2 sqrt(2), |u| = (1 + 0.5 * 2) sqrt(2)
  EXPECT_NEAR(after_one_step(options), 2 - 0.1 * 2, 1e-12);
}

TEST(TrainedParameters, AreThoseThatTakeGradientsWithWhatTheModuleSaysOfThem) {
  struct Layers final : Trainable {
    Layers() {
      register_parameter("matrix", at::zeros({2, 2}));
      register_parameter("bias", at::zeros({2}));
      register_parameter("constant", at::zeros({2, 2}), /*requires_grad=*/false);
    }
    std::int64_t depth(const std::string& name) const override { return name == "bias" ? 3 : -1; }
  };
  const auto found = trained_parameters(Layers(), "task.");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "task.matrix");
  EXPECT_TRUE(found[0].decays);
  EXPECT_EQ(found[0].depth, -1);
  EXPECT_EQ(found[1].name, "task.bias");
  EXPECT_FALSE(found[1].decays);
  EXPECT_EQ(found[1].depth, 3);
}

TEST(ClipFactor, IsThatOfTorch) {
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(100.0, 0.0), 1.0) << "0 means no clipping";
}

}  // namespace
}  // namespace attnlab::optimizer_test
