// RAdam step by step against torch.optim.RAdam.
#include <cmath>

#include "framework/contracts/model.h"
#include "framework/train/optimizer.h"
#include "tests/support/data_files.h"

namespace attnlab::radam_test {
namespace {

constexpr int kSteps = 12, kCount = 4;
const std::vector<double> kStart = {0.5, -1.25, 2.0, 0.0};

/// The gradient of step t, from 1 on. The last one is so small that epsilon decides.
std::vector<double> gradient(int t) {
  return {0.1 * t - 0.55, t % 2 == 0 ? 0.3 : -0.3, 1.0 / t, 1e-9 * t};
}

// Parameters after each step, of torch.optim.RAdam of PyTorch 1.13.0 (Debian 12's python3-torch) in
// double precision with lr 0.1, betas (0.9, 0.999), eps 1e-8, from kStart under `gradient`. Five
// steps go by momentum alone; then the second moment is trusted.
constexpr double kTorch[kSteps][kCount] = {
    {0.54500000000000004, -1.22, 1.8999999999999999, -1.0000000000000002e-10},
    {0.58473684210526322, -1.2215789473684211, 1.8263157894736841, -2.5263157894736846e-10},
    {0.61903573509419307, -1.2115051466304136, 1.7675212015278046, -4.5964264905806963e-10},
    {0.64772285344255021, -1.2130840939988348, 1.718553478352463, -7.2277146557449884e-10},
    {0.67062571295758033, -1.2069516430208367, 1.6766595075092601, -1.0437428704241974e-09},
    {0.67229106826352691, -1.2070875435559754, 1.6747668590832683, -7.3789308976934879e-05},
    {0.67370989884536103, -1.2065992877429126, 1.6724923291468452, -0.00019025664407482882},
    {0.6744130445793719, -1.2068031733353213, 1.6699371468165591, -0.00035727126124942968},
    {0.67409095184992252, -1.2062774244911632, 1.6671713125212284, -0.00058292138190028822},
    {0.67263514771809707, -1.2065353086863089, 1.6642465039747434, -0.00087539771812840264},
    {0.67007782393301485, -1.2059959902288289, 1.6612023467768644, -0.0012429355721430061},
    {0.66650964105895405, -1.2062998770438875, 1.6580699836984607, -0.0016937758785071969},
};

const OptimizerSettings kSettings{.learning_rate = 0.1,
                                  .beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .epsilon = 1e-8,
                                  .weight_decay = 0,
                                  .rule = UpdateRule::radam};

/// The largest difference from torch over all steps and numbers, relative where they exceed 1.
double difference_from_torch(at::ScalarType dtype) {
  const Tensor parameter = at::tensor(kStart, at::kDouble).to(dtype).set_requires_grad(true);
  Optimizer optimizer({{"w", parameter}}, kSettings);
  double difference = 0;
  for (int t = 1; t <= kSteps; ++t) {
    parameter.mutable_grad() = at::tensor(gradient(t), at::kDouble).to(dtype);
    optimizer.step();
    const Tensor found = parameter.detach().to(at::kDouble);
    for (int i = 0; i < kCount; ++i) {
      const double expected = kTorch[t - 1][i];
      difference = std::max(difference, std::abs(found.data_ptr<double>()[i] - expected) /
                                            std::max(1.0, std::abs(expected)));
    }
  }
  return difference;
}

TEST(RAdam, TakesTheStepsOfTorch) {
  EXPECT_LT(difference_from_torch(at::kDouble), 1e-14);
  EXPECT_LT(difference_from_torch(at::kFloat), 3e-7);
}

TEST(RAdam, DoesNotDivideByTheSecondMomentBeforeItIsTrusted) {
  // With beta2 = 0.5 the length of the moving average is 3: never above 5, so never trusted.
  OptimizerSettings settings = kSettings;
  settings.beta1 = 0;
  settings.beta2 = 0.5;
  const Tensor parameter = at::zeros({1}, at::kDouble).set_requires_grad(true);
  Optimizer optimizer({{"w", parameter}}, settings);
  for (int t = 1; t <= 20; ++t) {
    parameter.mutable_grad() = at::full({1}, 2.0, at::kDouble);
    optimizer.step();
    EXPECT_NEAR(parameter.item<double>(), -0.2 * t, 1e-12);
  }
}

TEST(RAdam, DecaysWeightsApartFromTheGradient) {
  OptimizerSettings settings = kSettings;
  settings.weight_decay = 0.5;
  const Tensor decayed = at::ones({1}).set_requires_grad(true);
  const Tensor exempt = at::ones({1}).set_requires_grad(true);
  Optimizer optimizer({{"a", decayed, true}, {"b", exempt, false}}, settings);
  for (const Tensor& parameter : {decayed, exempt}) parameter.mutable_grad() = at::zeros({1});
  optimizer.step();
  EXPECT_FLOAT_EQ(decayed.item<float>(), 1 - 0.1F * 0.5F);
  EXPECT_EQ(exempt.item<float>(), 1);
}

TEST(RAdam, IsWhatACompositionAsksFor) {
  struct OneWeight final : Model {
    OneWeight() { weight = register_parameter("weight", at::zeros({2, 2})); }
    NamedTensors forward(const Batch&, ForwardPass&) override { return {}; }
    Tensor weight;
  };
  OneWeight model;
  OptimizerOptions options;
  options.use = "radam";
  options.lr = 0.5;
  options.weight_decay = 0;
  Optimizer optimizer = make_optimizer(model, options);
  model.weight.mutable_grad() = at::full({2, 2}, 4.0);
  optimizer.step();  // by momentum alone: the gradient itself; AdamW would move by 0.5
  EXPECT_NEAR(model.weight.max().item<double>(), -2.0, 1e-6);
}

}  // namespace
}  // namespace attnlab::radam_test
