// Elliptical attention, and what it shares with Elliptical-QUEST.
#include <torch/csrc/autograd/autograd.h>

#include "tests/plugins/attention/elliptical.h"

namespace attnlab::elliptical_test {
namespace {

using testing::alone;
using testing::attended;
using testing::EllipticalForm;
using testing::EllipticalMechanism;
using testing::largest_difference;
using testing::naive_attention;
using testing::naive_metric;
using testing::random_input;
using testing::StackOutputs;
using testing::with_metric;
using testing::with_values;

INSTANTIATE_TEST_SUITE_P(Elliptical, EllipticalMechanism,
                         ::testing::Values(EllipticalForm{"elliptical", "standard", false}));

TEST_P(EllipticalMechanism, HonoursEveryInputOfTheContract) {
  const EllipticalForm& m = GetParam();
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  EXPECT_EQ(testing::make_attention(m.id, testing::shape_of(in, 0, 2))->traits(),
            AttentionTraits::all_quadratic());
}

TEST_P(EllipticalMechanism, IsItsBaselineBitForBitInTheFirstLayerAndWhereNothingChanged) {
  at::manual_seed(1);
  const EllipticalForm& m = GetParam();
  for (const auto& [name, in] : testing::one_square_input_for_each_rule()) {
    const Tensor expected = alone(m.baseline, in);
    const StackOutputs out = attended(m.id, in, with_values(in, in.values.clone()));
    EXPECT_TRUE(at::equal(out.first, expected)) << name;
    EXPECT_TRUE(at::equal(out.second, expected)) << name;
  }
}

TEST_P(EllipticalMechanism, EqualsItsEquationInTheSecondLayerUnderEveryRule) {
  at::manual_seed(2);
  const EllipticalForm& m = GetParam();
  for (const auto& [name, in] : testing::one_square_input_for_each_rule()) {
    if (in.relative.defined()) continue;  // below
    const AttentionInput first = with_values(in, at::randn_like(in.values));
    for (const bool median : {false, true}) {
      const Tensor metric = naive_metric(in, first.values, {.median = median});
      Tensor expected = naive_attention(with_metric(in, metric), m.naive(4));
      if (in.visible.query_valid.defined()) expected[1].select(1, 3).zero_();
      const Tensor found = attended(m.id, first, in, median ? "{average: median}" : "{}").second;
      EXPECT_LT(largest_difference(found, expected), 1e-10) << name << (median ? ", median" : "");
    }
  }
}

TEST(EllipticalAttention, WeighsRelativePositionsByTheSameMetric) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 4);
  in.relative.keys = at::randn({2, 8, 4}, at::kDouble);
  in.relative.content_bias = at::randn({2, 4}, at::kDouble);
  in.relative.position_bias = at::randn({2, 4}, at::kDouble);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  const Tensor metric = naive_metric(in, first.values);
  // One M for all queries may as well stretch the keys.
  AttentionInput stretched = in;
  stretched.keys = in.keys * metric.narrow(2, 0, 1);
  stretched.relative.keys = in.relative.keys * metric[0].narrow(1, 0, 1);
  const Tensor expected = naive_attention(stretched, {.scale = 0.5});
  EXPECT_LT(largest_difference(attended("elliptical", first, in).second, expected), 1e-10);
}

TEST_P(EllipticalMechanism, TreatsTheMetricAsAConstant) {
  at::manual_seed(4);
  const EllipticalForm& m = GetParam();
  AttentionInput in = random_input(2, 2, 4, 4, 3, 3);
  in.visible.causal = true;
  const Tensor before = at::randn_like(in.values).requires_grad_();
  const Tensor metric = naive_metric(in, before.detach());
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) x->requires_grad_();
  const std::vector<Tensor> leaves = {in.queries, in.keys, in.values};
  const auto gradients = [&](const Tensor& y) {
    return torch::autograd::grad({y.sin().sum()}, leaves);
  };
  const Tensor out = attended(m.id, with_values(in, before), in).second;
  const auto found = gradients(out);
  const auto expected = gradients(alone(m.baseline, with_metric(in, metric)));
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    EXPECT_LT(largest_difference(found[n], expected[n]), 1e-10) << n;
  }
  const auto of_before = torch::autograd::grad({out.sum()}, {before}, {}, {}, false, true);
  EXPECT_FALSE(of_before[0].defined());
}

TEST_P(EllipticalMechanism, LooksIntoTheFutureOnlyAsPublished) {
  at::manual_seed(5);
  const EllipticalForm& m = GetParam();
  AttentionInput in = random_input(1, 2, 5, 5, 4, 4);
  in.visible.causal = true;
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  AttentionInput later = in;
  later.values = in.values.clone();
  later.values.select(2, 4).mul_(-7);
  const auto change = [&](const std::string& options) {
    const Tensor difference =
        attended(m.id, first, in, options).second - attended(m.id, first, later, options).second;
    return difference.narrow(2, 0, 4).abs().max().item<double>();
  };
  EXPECT_EQ(change("{}"), 0);
  EXPECT_GT(change("{causal_leak: true}"), 1e-3);
}

TEST_P(EllipticalMechanism, GivesWhatThePublishedCodeGives) {
  at::manual_seed(6);
  const EllipticalForm& m = GetParam();
  AttentionInput in = random_input(2, 2, 6, 6, 4, 4);
  in.visible.causal = true;
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  const std::string options = "{causal_leak: true, evaluation_average: median}";
  for (const bool training : {true, false}) {
    const Tensor metric = naive_metric(in, first.values, {.median = !training, .leak = true});
    const Tensor expected = naive_attention(with_metric(in, metric), m.naive(4));
    const Tensor found = attended(m.id, first, in, options, training).second;
    EXPECT_LT(largest_difference(found, expected), 1e-10) << training;
  }
}

TEST(EllipticalAttention, DropsTheScaleWhereTheMetricIsUsedIfAsked) {
  at::manual_seed(7);
  const AttentionInput in = random_input(2, 2, 4, 5, 4, 4);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  const StackOutputs out = attended("elliptical", first, in, "{scale_with_metric: false}");
  EXPECT_LT(largest_difference(out.first, naive_attention(first, {.scale = 0.5})), 1e-10);
  const AttentionInput stretched = with_metric(in, naive_metric(in, first.values));
  EXPECT_LT(largest_difference(out.second, naive_attention(stretched, {.scale = 1})), 1e-10);
}

TEST_P(EllipticalMechanism, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(8);
  const EllipticalForm& m = GetParam();
  AttentionInput in = random_input(1, 2, 7, 7, 4, 4);
  in.visible.causal = true;
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3, 7}, at::kLong);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  std::vector<Tensor> separate;
  for (const auto& [begin, length] : {std::pair(0, 3), std::pair(3, 4)}) {
    AttentionInput one = in, one_before = first;
    for (AttentionInput* x : {&one, &one_before}) {
      x->visible.query_offsets = x->visible.key_offsets = Tensor();
      for (Tensor* y : {&x->queries, &x->keys, &x->values}) *y = y->narrow(2, begin, length);
    }
    separate.push_back(attended(m.id, one_before, one).second);
  }
  EXPECT_LT(largest_difference(attended(m.id, first, in).second, at::cat(separate, 2)), 1e-12);
}

TEST(EllipticalAttention, FollowsTheNormOfKeys) {
  EXPECT_GT(testing::change_by_longer_keys("elliptical"), 1e-3);
}

TEST_P(EllipticalMechanism, RefusesValuesOfAnotherWidth) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  const EllipticalForm& m = GetParam();
  EXPECT_THROW(testing::make_attention(m.id, testing::shape_of(in, 0, 2)), ConfigError);
}

}  // namespace
}  // namespace attnlab::elliptical_test
