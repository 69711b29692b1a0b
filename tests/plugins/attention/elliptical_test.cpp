// Elliptical attention and Elliptical-QUEST: softmax of Q M Kᵀ, M from the values of two layers.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tests/support/naive_elliptical.h"
#include "tests/support/plugins.h"

namespace attnlab::elliptical_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::naive_metric;
using testing::NaiveSettings;
using testing::random_input;

AttentionShape shape_of(const AttentionInput& in, std::int64_t layer) {
  return testing::shape_of(in, layer, 2);
}

/// One mechanism, in a stack of two layers.
struct Mechanism {
  std::string id;
  std::string baseline;  ///< what it is with M = 1
  bool unit_keys;

  NaiveSettings naive(std::int64_t dim) const {
    return {.scale = unit_keys ? 1 : 1 / std::sqrt(static_cast<double>(dim)),
            .unit_keys = unit_keys};
  }
};

const Mechanism kElliptical{"elliptical", "standard", false};
const Mechanism kEllipticalQuest{"elliptical_quest", "quest", true};
const Mechanism kBoth[] = {kElliptical, kEllipticalQuest};

struct Outputs {
  Tensor first, second;
};

/// What the two layers of a stack give for an input each.
Outputs attended(const std::string& id, const AttentionInput& first, const AttentionInput& second,
                 const std::string& options = "{}", bool training = true) {
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  const auto layer = [&](const AttentionInput& in) {
    const auto attention = testing::make_attention(id, shape_of(in, context.layer), options);
    attention->train(training);
    return attention->forward(in, context);
  };
  Outputs out;
  out.first = layer(first);
  context.layer = 1;
  out.second = layer(second);
  return out;
}

Tensor alone(const std::string& id, const AttentionInput& in) {
  AttentionContext context;
  return testing::make_attention(id, shape_of(in, 0))->forward(in, context);
}

AttentionInput with_values(AttentionInput in, const Tensor& values) {
  in.values = values;
  return in;
}

AttentionInput with_metric(AttentionInput in, const Tensor& metric) {
  in.queries = in.queries * metric;
  return in;
}

TEST(EllipticalAttention, HonoursEveryInputOfTheContract) {
  for (const Mechanism& m : kBoth) {
    const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
    EXPECT_EQ(testing::make_attention(m.id, shape_of(in, 0))->traits(),
              AttentionTraits::all_quadratic());
  }
}

TEST(EllipticalAttention, IsItsBaselineBitForBitInTheFirstLayerAndWhereNothingChanged) {
  at::manual_seed(1);
  for (const Mechanism& m : kBoth) {
    for (const auto& [name, in] : testing::one_square_input_for_each_rule()) {
      const Tensor expected = alone(m.baseline, in);
      const Outputs out = attended(m.id, in, with_values(in, in.values.clone()));
      EXPECT_TRUE(at::equal(out.first, expected)) << m.id << ", " << name;
      EXPECT_TRUE(at::equal(out.second, expected)) << m.id << ", " << name;
    }
  }
}

TEST(EllipticalAttention, EqualsItsEquationInTheSecondLayerUnderEveryRule) {
  at::manual_seed(2);
  for (const Mechanism& m : kBoth) {
    for (const auto& [name, in] : testing::one_square_input_for_each_rule()) {
      if (in.relative.defined()) continue;  // below
      const AttentionInput first = with_values(in, at::randn_like(in.values));
      for (const bool median : {false, true}) {
        const Tensor metric = naive_metric(in, first.values, {.median = median});
        Tensor expected = naive_attention(with_metric(in, metric), m.naive(4));
        if (in.visible.query_valid.defined()) expected[1].select(1, 3).zero_();
        const Tensor found = attended(m.id, first, in, median ? "{average: median}" : "{}").second;
        EXPECT_LT(largest_difference(found, expected), 1e-10)
            << m.id << ", " << name << (median ? ", median" : "");
      }
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

TEST(EllipticalAttention, TreatsTheMetricAsAConstant) {
  at::manual_seed(4);
  for (const Mechanism& m : kBoth) {
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
      EXPECT_LT(largest_difference(found[n], expected[n]), 1e-10) << m.id << ", " << n;
    }
    const auto of_before = torch::autograd::grad({out.sum()}, {before}, {}, {}, false, true);
    EXPECT_FALSE(of_before[0].defined()) << m.id;
  }
}

TEST(EllipticalAttention, LooksIntoTheFutureOnlyAsPublished) {
  at::manual_seed(5);
  for (const Mechanism& m : kBoth) {
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
    EXPECT_EQ(change("{}"), 0) << m.id;
    EXPECT_GT(change("{causal_leak: true}"), 1e-3) << m.id;
  }
}

TEST(EllipticalAttention, GivesWhatThePublishedCodeGives) {
  at::manual_seed(6);
  for (const Mechanism& m : kBoth) {
    AttentionInput in = random_input(2, 2, 6, 6, 4, 4);
    in.visible.causal = true;
    const AttentionInput first = with_values(in, at::randn_like(in.values));
    const std::string options = "{causal_leak: true, evaluation_average: median}";
    for (const bool training : {true, false}) {
      const Tensor metric = naive_metric(in, first.values, {.median = !training, .leak = true});
      const Tensor expected = naive_attention(with_metric(in, metric), m.naive(4));
      const Tensor found = attended(m.id, first, in, options, training).second;
      EXPECT_LT(largest_difference(found, expected), 1e-10) << m.id << training;
    }
  }
}

TEST(EllipticalAttention, DropsTheScaleWhereTheMetricIsUsedIfAsked) {
  at::manual_seed(7);
  const AttentionInput in = random_input(2, 2, 4, 5, 4, 4);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  const Outputs out = attended("elliptical", first, in, "{scale_with_metric: false}");
  EXPECT_LT(largest_difference(out.first, naive_attention(first, {.scale = 0.5})), 1e-10);
  const AttentionInput stretched = with_metric(in, naive_metric(in, first.values));
  EXPECT_LT(largest_difference(out.second, naive_attention(stretched, {.scale = 1})), 1e-10);
}

TEST(EllipticalAttention, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(8);
  for (const Mechanism& m : kBoth) {
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
}

TEST(EllipticalAttention, IgnoresKeyNormWithUnitKeysAlone) {
  at::manual_seed(9);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 4);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  AttentionInput longer = in;
  longer.keys = in.keys * 5;
  const auto change = [&](const Mechanism& m) {
    return largest_difference(attended(m.id, first, in).second,
                              attended(m.id, first, longer).second);
  };
  EXPECT_LT(change(kEllipticalQuest), 1e-12);
  EXPECT_GT(change(kElliptical), 1e-3);
}

TEST(EllipticalAttention, RefusesValuesOfAnotherWidth) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  for (const Mechanism& m : kBoth) {
    EXPECT_THROW(testing::make_attention(m.id, shape_of(in, 0)), ConfigError) << m.id;
  }
}

}  // namespace
}  // namespace attnlab::elliptical_test
