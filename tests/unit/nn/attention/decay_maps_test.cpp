// Maps of a low rank, and decays by step sizes.
#include "framework/nn/attention/decay_maps.h"

#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::decay_maps_test {
namespace {

using testing::largest_difference;

constexpr std::int64_t kHeads = 2, kWidth = 5, kRank = 3, kChannels = 4;

AttentionShape shape_of(std::int64_t members) {
  AttentionShape shape;
  shape.heads = members * kHeads;
  shape.members = members;
  return shape;
}

TEST(LowRankSourceMap, IsOneMapAfterTheOther) {
  at::manual_seed(1);
  LowRankSourceMap map(kWidth, kRank, kChannels, shape_of(1), true);
  map.to(at::kDouble);
  const auto parameters = map.named_parameters();
  ASSERT_EQ(parameters.size(), 3u);
  const at::NoGradGuard no_gradients;
  Tensor(parameters["up.map.bias"]).normal_();
  const Tensor x = at::randn({2, 7, kWidth}, at::kDouble);
  const Tensor low = testing::naive_linear(x, parameters["down.weight"]);
  EXPECT_EQ(low.size(2), kRank);
  const Tensor expected = testing::naive_heads(
      testing::naive_linear(low, parameters["up.map.weight"], parameters["up.map.bias"]), kHeads);
  EXPECT_LT(largest_difference(map.forward(x), expected), 1e-12);
}

TEST(LowRankSourceMap, EachMemberHasItsOwn) {
  at::manual_seed(2);
  const at::NoGradGuard no_gradients;
  LowRankSourceMap together(kWidth, kRank, kChannels, shape_of(2), true);
  const Tensor x = at::randn({6, 7, kWidth});
  const Tensor all = together.forward(x);
  for (const std::int64_t m : {0, 1}) {
    LowRankSourceMap alone(kWidth, kRank, kChannels, shape_of(1), true);
    for (const auto& item : alone.named_parameters()) {
      Tensor(item.value()).copy_(together.named_parameters()[item.key()].chunk(2)[std::size_t(m)]);
    }
    EXPECT_LT(
        largest_difference(all.narrow(1, m * kHeads, kHeads), alone.forward(x.narrow(0, 3 * m, 3))),
        1e-6);
  }
}

TEST(StepDecay, StartsAsPublished) {
  at::manual_seed(3);
  AttentionShape shape;
  shape.heads = 100;
  const at::NoGradGuard no_gradients;
  const StepDecay decay(4, 1, shape);
  const Tensor rates = decay.log_rates.exp();
  EXPECT_EQ(rates.numel(), 100);
  EXPECT_GE(rates.min().item<double>(), 1 - 1e-5);
  EXPECT_LT(rates.min().item<double>(), 3);
  EXPECT_LE(rates.max().item<double>(), 16 + 1e-4);
  EXPECT_GT(rates.max().item<double>(), 14);
  const Tensor steps = decay.steps(at::zeros({1, 100, 1, 4}));
  EXPECT_GE(steps.min().item<double>(), 0.001 * 0.999);
  EXPECT_LE(steps.max().item<double>(), 0.1 * 1.001);
  // Uniform in the logarithm: half lie below √(0.001 · 0.1).
  EXPECT_NEAR(steps.lt(0.01).to(at::kDouble).mean().item<double>(), 0.5, 0.1);
  const StepDecay from_zero(1, 0, shape);
  EXPECT_LT(from_zero.log_rates.exp().min().item<double>(), 1);
  EXPECT_TRUE(from_zero.log_rates.isfinite().all().item<bool>());
}

TEST(StepDecay, DecaysByRateTimesStep) {
  at::manual_seed(4);
  StepDecay decay(kChannels, 1, shape_of(1));
  decay.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  const Tensor x = at::randn({2, kHeads, 3, kChannels}, at::kDouble);
  const Tensor expected = testing::each_number(x, [&](double v, std::int64_t h, std::int64_t c) {
    const double bias = testing::number_at(decay.bias, h * kChannels + c);
    return -std::exp(testing::number_at(decay.log_rates, h)) * testing::naive_softplus(v + bias);
  });
  EXPECT_LT(largest_difference(decay.log_decays(decay.steps(x)), expected), 1e-12);
}

}  // namespace
}  // namespace attnlab::decay_maps_test
