// The metric of Elliptical attention against its definition.
#include "framework/nn/attention/elliptical.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/naive_elliptical.h"

namespace attnlab::elliptical_test {
namespace {

using testing::largest_difference;
using testing::naive_metric;
using testing::random_input;
using testing::shape_of;

EllipticalOptions averaging(const std::string& average, bool leak = false) {
  EllipticalOptions options;
  options.average = average;
  options.causal_leak = leak;
  return options;
}

/// M of layer 1 for `in`, after a layer 0 whose values were `before`.
Tensor metric_after(const Tensor& before, const AttentionInput& in,
                    const EllipticalOptions& options = {}, bool training = true) {
  const EllipticalMetric metric(options, shape_of(in));
  ForwardState state;
  AttentionInput first = in;
  first.values = before;
  AttentionContext context{0, &state, nullptr};
  EXPECT_FALSE(metric(first, context, training).defined());
  context.layer = 1;
  return metric(in, context, training);
}

TEST(EllipticalMetric, IsOneInTheFirstLayerAndInALayerThatStandsAlone) {
  const AttentionInput in = random_input(2, 2, 3, 3, 4, 4);
  const EllipticalMetric metric({}, shape_of(in));
  ForwardState state;
  AttentionContext first{0, &state, nullptr}, alone{3, nullptr, nullptr};
  EXPECT_FALSE(metric(in, first, true).defined());
  EXPECT_FALSE(metric(in, alone, true).defined());
  ForwardState empty;
  AttentionContext without_predecessor{3, &empty, nullptr};
  EXPECT_FALSE(metric(in, without_predecessor, true).defined());
}

TEST(EllipticalMetric, EqualsItsDefinitionUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_square_input_for_each_rule()) {
    const Tensor before = at::randn_like(in.values);
    for (const bool median : {false, true}) {
      for (const bool leak : {false, true}) {
        const Tensor found = metric_after(before, in, averaging(median ? "median" : "mean", leak));
        const Tensor expected = naive_metric(in, before, {.median = median, .leak = leak});
        EXPECT_LT(largest_difference(found.expand_as(expected), expected), 1e-12)
            << name << (median ? ", median" : ", mean") << (leak ? ", leaking" : "");
      }
    }
  }
}

TEST(EllipticalMetric, IsOneForAllQueriesThatSeeTheSameKeys) {
  AttentionInput in = random_input(2, 3, 4, 5, 6, 6);
  const auto sizes = [&](bool leak = false) {
    return metric_after(in.keys, in, averaging("mean", leak)).sizes().vec();
  };
  const std::vector<std::int64_t> shared = {2, 3, 1, 6}, apart = {2, 3, 4, 6};
  EXPECT_EQ(sizes(), shared);
  in.visible.key_valid = at::ones({2, 5}, at::kBool);
  EXPECT_EQ(sizes(), shared);
  in.visible.causal = true;
  EXPECT_EQ(sizes(), apart);
  EXPECT_EQ(sizes(/*leak=*/true), shared);
}

TEST(EllipticalMetric, HidesTheFutureUnlessTheLeakIsAskedFor) {
  at::manual_seed(2);
  AttentionInput in = random_input(2, 2, 5, 5, 4, 4);
  in.visible.causal = true;
  const Tensor before = at::randn_like(in.values);
  for (const char* average : {"mean", "median"}) {
    const auto change_by_the_last_token = [&](bool leak) {
      const Tensor m = metric_after(before, in, averaging(average, leak));
      AttentionInput later = in;
      later.values = in.values.clone();
      later.values.select(2, 4).mul_(-7);
      const Tensor other = metric_after(before, later, averaging(average, leak));
      return (other - m).expand({2, 2, 5, 4}).abs().amax({0, 1, 3});
    };
    const Tensor closed = change_by_the_last_token(false);
    EXPECT_EQ(closed.narrow(0, 0, 4).max().item<double>(), 0) << average;
    EXPECT_GT(closed[4].item<double>(), 1e-3) << average;
    EXPECT_GT(change_by_the_last_token(true)[0].item<double>(), 1e-3) << average;
  }
}

TEST(EllipticalMetric, LeavesPaddingOutBesideOtherMembersHeads) {
  at::manual_seed(9);
  // Two members of two heads; what is padded in one is not in the other.
  AttentionInput in = random_input(2, 4, 3, 5, 4, 4);
  const Tensor before = at::randn_like(in.values);
  const Tensor valid[] = {at::tensor({1, 1, 1, 0, 0, 1, 1, 1, 1, 0}).to(at::kBool).view({2, 5}),
                          at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 0, 0}).to(at::kBool).view({2, 5})};
  AttentionInput together = in;
  together.visible.pairs =
      at::stack({valid[0], valid[0], valid[1], valid[1]}, 1).unsqueeze(2).expand({2, 4, 3, 5});
  AttentionShape shape = shape_of(in);
  shape.members = 2;
  for (const char* average : {"mean", "median"}) {
    const EllipticalMetric metric(averaging(average, /*leak=*/true), shape);
    ForwardState state;
    AttentionContext context{0, &state, nullptr};
    AttentionInput first = together;
    first.values = before;
    metric(first, context, true);
    context.layer = 1;
    const Tensor found = metric(together, context, true);
    for (std::int64_t m = 0; m < 2; ++m) {
      AttentionInput alone = in;
      for (Tensor* x : {&alone.queries, &alone.keys, &alone.values}) *x = x->narrow(1, 2 * m, 2);
      alone.visible.key_valid = valid[m];
      const Tensor expected =
          naive_metric(alone, before.narrow(1, 2 * m, 2),
                       {.median = average == std::string("median"), .leak = true});
      EXPECT_LT(largest_difference(found.narrow(1, 2 * m, 2).expand_as(expected), expected), 1e-12)
          << average << m;
    }
  }
}

TEST(EllipticalMetric, TakesTheSequencesOfARaggedBatchApart) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 7, 9, 4, 4);
  in.visible.query_offsets = at::tensor({0, 3, 3, 7}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 4, 5, 9}, at::kLong);
  const Tensor before = at::randn_like(in.values);
  for (const bool causal : {false, true}) {
    for (const bool leak : {false, true}) {
      in.visible.causal = causal;
      std::vector<Tensor> separate;
      for (const auto& [q, rows, k] : {std::tuple(0, 3, 0), std::tuple(3, 4, 5)}) {
        AttentionInput one = in;
        one.visible.query_offsets = one.visible.key_offsets = Tensor();
        one.queries = in.queries.narrow(2, q, rows);
        one.keys = in.keys.narrow(2, k, 4);
        one.values = in.values.narrow(2, k, 4);
        separate.push_back(naive_metric(one, before.narrow(2, k, 4), {.leak = leak}));
      }
      const Tensor found = metric_after(before, in, averaging("mean", leak));
      EXPECT_LT(largest_difference(found, at::cat(separate, 2)), 1e-12) << causal << leak;
    }
  }
}

TEST(EllipticalMetric, GivesOneToSequencesWithoutKeys) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 4, 3, 4, 4);
  in.visible.query_offsets = at::tensor({0, 2, 4}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 0, 3}, at::kLong);
  const Tensor m = metric_after(in.keys, in);
  EXPECT_TRUE(at::equal(m.narrow(2, 0, 2), at::ones({1, 2, 2, 4}, at::kDouble)));
  EXPECT_LT(m.narrow(2, 2, 2).min().item<double>(), 1);
}

TEST(EllipticalMetric, IsOneWhereNothingChanged) {
  const AttentionInput in = random_input(2, 2, 3, 3, 4, 4);
  const Tensor m = metric_after(in.values.clone(), in);
  EXPECT_TRUE(at::equal(m, at::ones_like(m)));
}

TEST(EllipticalMetric, DoesNotDependOnHowFarTheValuesMoved) {
  at::manual_seed(5);
  AttentionInput in = random_input(2, 2, 3, 3, 4, 4);
  const Tensor before = at::zeros_like(in.values);
  const Tensor m = metric_after(before, in);
  in.values = in.values * 1e3;
  EXPECT_LT(largest_difference(metric_after(before, in), m), 1e-12);
  EXPECT_EQ(m.amax(-1).min().item<double>(), 1);
}

TEST(EllipticalMetric, TakesAnotherAverageOutsideTrainingWhereAsked) {
  at::manual_seed(6);
  const AttentionInput in = random_input(2, 2, 6, 6, 4, 4);
  const Tensor before = at::randn_like(in.values);
  const Tensor mean = metric_after(before, in, averaging("mean"));
  const Tensor median = metric_after(before, in, averaging("median"));
  ASSERT_GT(largest_difference(mean, median), 1e-3);
  EllipticalOptions published = averaging("mean");
  EXPECT_TRUE(at::equal(metric_after(before, in, published, /*training=*/false), mean));
  published.evaluation_average = "median";
  EXPECT_TRUE(at::equal(metric_after(before, in, published, /*training=*/true), mean));
  EXPECT_TRUE(at::equal(metric_after(before, in, published, /*training=*/false), median));
}

TEST(EllipticalMetric, TakesTheMedianOfManyQueriesInParts) {
  at::manual_seed(7);
  AttentionInput in = random_input(1, 2, 300, 300, 32, 32);  // 300 x 19200 numbers: two parts
  in.visible.causal = true;
  const Tensor before = at::randn_like(in.values);
  std::vector<Tensor> expected;
  for (std::int64_t i = 0; i < 300; ++i) {
    const Tensor seen = (in.values - before).abs().narrow(2, 0, i + 1);
    expected.push_back(std::get<0>(seen.median(2, true)));
  }
  const Tensor r = at::cat(expected, 2);
  const Tensor found = metric_after(before, in, averaging("median"));
  EXPECT_LT(largest_difference(found, r / r.amax(-1, true)), 1e-12);
}

TEST(EllipticalMetric, HasNoGradient) {
  AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  const Tensor before = at::randn_like(in.values).requires_grad_();
  in.values = in.values.requires_grad_();
  EXPECT_FALSE(metric_after(before, in).requires_grad());
}

TEST(EllipticalMetric, KeepsTheValuesOfOneLayerAndOnlyWhileTheyAreNeeded) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  std::vector<Tensor> values;
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  const auto holders = [&](std::size_t layer) { return values[layer].storage().use_count(); };
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    AttentionInput now = in;
    now.values = values.emplace_back(at::randn_like(in.values));
    context.layer = layer;
    EllipticalMetric({}, shape_of(in, layer, 3))(now, context, true);
  }
  // One holder is the list here, and the last layer's input is gone.
  EXPECT_EQ(holders(0), 1);
  EXPECT_EQ(holders(1), 1);
  EXPECT_EQ(holders(2), 1);
  ForwardState longer;
  context = {0, &longer, nullptr};
  AttentionInput now = in;
  now.values = values[0];
  EllipticalMetric({}, shape_of(in, 0, 3))(now, context, true);
  now.values = Tensor();
  EXPECT_EQ(values[0].storage().use_count(), 2);
}

TEST(EllipticalMetric, IsEstimatedInSinglePrecisionForNarrowDtypes) {
  at::manual_seed(8);
  AttentionInput in = random_input(1, 2, 600, 600, 4, 4);
  const Tensor before = at::randn_like(in.values).to(at::kBFloat16);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kBFloat16);
  const Tensor found = metric_after(before, in);
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  const Tensor r = (in.values.to(at::kDouble) - before.to(at::kDouble)).abs().mean(2, true);
  // Rounded once, to eight bits.
  EXPECT_LT(largest_difference(found, r / r.amax(-1, true)), 1.0 / 256);
}

TEST(EllipticalMetric, RefusesValuesOfAnotherWidth) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  EXPECT_THROW(EllipticalMetric({}, shape_of(in)), ConfigError);
  const std::string message =
      testing::message_of<Error>([&] { EllipticalMetric({}, shape_of(in)); });
  EXPECT_THAT(message, testing::mentions("values have 3 channels", "keys 4"));
}

TEST(EllipticalMetric, RefusesLayersWhoseTokensChangeInNumber) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  const Tensor before = at::randn({1, 2, 5, 4}, at::kDouble);
  const EllipticalMetric metric({}, shape_of(in));
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  AttentionInput longer = in;
  longer.keys = longer.values = before;
  metric(longer, context, true);
  context.layer = 1;
  EXPECT_THROW(metric(in, context, true), ShapeError);
  const std::string message = testing::message_of<Error>([&] { metric(in, context, true); });
  EXPECT_NE(message.find("token by token"), std::string::npos) << message;
}

TEST(EllipticalMetric, RefusesLayersOutOfOrder) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  const EllipticalMetric metric({}, shape_of(in));
  for (const std::int64_t second : {0, 1, 3}) {
    ForwardState state;
    AttentionContext context{1, &state, nullptr};
    metric(in, context, true);
    context.layer = second;
    EXPECT_THROW(metric(in, context, true), ConfigError) << second;
  }
}

}  // namespace
}  // namespace attnlab::elliptical_test
