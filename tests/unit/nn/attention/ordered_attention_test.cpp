// The base class of attentions that read a sequence in its order.
#include "framework/nn/attention/ordered_attention.h"

#include <gtest/gtest.h>

#include "framework/nn/attention/recurrence.h"
#include "tests/support/attended.h"
#include "tests/support/ordered_input.h"

namespace attnlab::ordered_attention_test {
namespace {

using testing::largest_difference;
using testing::naive_recurrence;
using testing::ordered_input;

/// What decays by the first channel of the keys' source, and gives more where the queries' is more.
class Sums final : public OrderedAttention {
 public:
  using OrderedAttention::OrderedAttention;

  static Recurrence recurrence(const AttentionInput& in) {
    const Tensor logs = -at::softplus(in.key_source.narrow(2, 0, 1)).unsqueeze(1);
    return {in.queries, in.keys, in.values, logs.expand({-1, in.keys.size(1), -1, -1}),
            in.visible.key_valid};
  }
  static Tensor gate(const AttentionInput& in) {
    return in.query_source.narrow(2, 0, 1).unsqueeze(1);
  }

 protected:
  Tensor read(const AttentionInput& in, Tensor*) const override {
    return gated_linear(recurrence(in)) * gate(in);
  }
};

Sums sums(const AttentionInput& in, bool both_ways, double dropout = 0) {
  AttentionShape shape = testing::shape_of(in);
  shape.query_width = testing::kQueryWidth, shape.key_width = testing::kKeyWidth;
  shape.value_width = testing::kValueWidth, shape.dropout = dropout;
  return Sums(OrderedOptions{both_ways}, shape);
}

Tensor attended(const AttentionInput& in, bool both_ways, AttentionTrace* trace = nullptr) {
  Sums attention = sums(in, both_ways);
  return testing::attended(attention, in, trace);
}

Tensor naive(const AttentionInput& in) {
  return naive_recurrence(Sums::recurrence(in)) * Sums::gate(in);
}

TEST(OrderedAttention, NeedsTheCausalRuleUnlessItReadsBothWays) {
  AttentionInput in = ordered_input(1, 3, 3);
  EXPECT_EQ(sums(in, false).traits(), OrderedAttention::kTraits);
  AttentionTraits unordered = OrderedAttention::kTraits;
  unordered.ordered = false;
  EXPECT_EQ(sums(in, true).traits(), unordered);
  EXPECT_FALSE(sums(in, false).couples_queries());
  EXPECT_TRUE(sums(in, true).couples_queries());
  EXPECT_TRUE(sums(in, true).reads_order());
  in.visible.causal = false;
  EXPECT_THROW(attended(in, false), TraitError);
  EXPECT_NO_THROW(attended(in, true));
}

TEST(OrderedAttention, WithTheCausalRuleItReadsForward) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::ordered_inputs()) {
    for (const bool both_ways : {false, true}) {
      EXPECT_LT(largest_difference(attended(in, both_ways), naive(in)), 1e-10) << name;
    }
  }
}

TEST(OrderedAttention, BothWaysIsTheMeanOfTwoReadings) {
  at::manual_seed(2);
  for (const std::int64_t length : {1, 5, 70}) {
    AttentionInput in = ordered_input(2, length, length);
    in.visible.causal = false;
    in.visible.key_valid = at::rand({2, length}) < 0.7;
    AttentionInput back = in;
    for (Tensor AttentionInput::*x :
         {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
      back.*x = (in.*x).flip(2);
    }
    back.query_source = in.query_source.flip(1), back.key_source = in.key_source.flip(1);
    back.visible.key_valid = in.visible.key_valid.flip(1);
    EXPECT_LT(largest_difference(attended(in, true), (naive(in) + naive(back).flip(2)) / 2), 1e-10);
  }
}

TEST(OrderedAttention, BothWaysRefusesQueriesThatHaveNoPlace) {
  AttentionInput in = ordered_input(1, 3, 5);
  in.visible.causal = false;
  EXPECT_THROW(attended(in, true), TraitError);
  in.visible.causal = true;
  EXPECT_NO_THROW(attended(in, true));
}

TEST(OrderedAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(3);
  for (const bool causal : {true, false}) {
    // Both ways, there are as many queries as keys.
    const std::vector<std::int64_t> keys = {4, 0, 70, 1};
    const std::vector<std::int64_t> queries =
        causal ? std::vector<std::int64_t>{2, 3, 70, 4} : keys;
    const auto offsets = [](const std::vector<std::int64_t>& lengths) {
      return at::cat({at::zeros({1}, at::kLong), at::tensor(lengths, at::kLong).cumsum(0)});
    };
    const auto total = [&](const auto& lengths) {
      return offsets(lengths)[4].template item<std::int64_t>();
    };
    AttentionInput all = ordered_input(1, total(queries), total(keys));
    all.visible.causal = causal;
    std::vector<Tensor> apart;
    std::int64_t i = 0, j = 0;
    for (std::size_t t = 0; t < keys.size(); ++t) {
      AttentionInput one = all;
      one.queries = all.queries.narrow(2, i, queries[t]);
      one.query_source = all.query_source.narrow(1, i, queries[t]);
      one.keys = all.keys.narrow(2, j, keys[t]), one.values = all.values.narrow(2, j, keys[t]);
      one.key_source = all.key_source.narrow(1, j, keys[t]);
      one.value_source = all.value_source.narrow(1, j, keys[t]);
      apart.push_back(attended(one, !causal));
      i += queries[t], j += keys[t];
    }
    all.visible.query_offsets = offsets(queries), all.visible.key_offsets = offsets(keys);
    EXPECT_LT(largest_difference(attended(all, !causal), at::cat(apart, 2)), 1e-12);
  }
}

TEST(OrderedAttention, ARaggedBatchWithoutSequencesIsEmpty) {
  AttentionInput in = ordered_input(1, 0, 0);
  in.visible.query_offsets = in.visible.key_offsets = at::zeros({1}, at::kLong);
  EXPECT_EQ(attended(in, false).sizes(), in.values.sizes());
}

TEST(OrderedAttention, DropoutDropsNumbersOfTheOutputInTraining) {
  at::manual_seed(4);
  const AttentionInput in = ordered_input(2, 30, 30);
  const Tensor whole = attended(in, false);
  Sums dropping = sums(in, false, 0.5);
  AttentionContext context;
  const Tensor y = dropping.forward(in, context);
  const Tensor dropped = y.eq(0);
  const double share = dropped.to(at::kDouble).mean().item<double>();
  EXPECT_GT(share, 0.35);
  EXPECT_LT(share, 0.65);
  EXPECT_LT(largest_difference(y, (whole * 2).masked_fill(dropped, 0)), 1e-12);
  dropping.eval();
  EXPECT_TRUE(at::equal(dropping.forward(in, context), whole));
}

TEST(OrderedAttention, ATraceHasTheNormsThatItAsksFor) {
  at::manual_seed(5);
  AttentionInput in = ordered_input(2, 4, 4);
  in.queries.requires_grad_();
  AttentionTrace trace;
  trace.weights = trace.norms = true;
  const Tensor y = attended(in, false, &trace);
  EXPECT_TRUE(at::equal(y.detach(), attended(in, false).detach()));
  ASSERT_EQ(trace.layers.size(), 1u);
  EXPECT_FALSE(trace.layers[0].weights.defined());
  EXPECT_TRUE(at::equal(trace.layers[0].query_norms, in.queries.detach().norm(2, -1)));
  EXPECT_TRUE(at::equal(trace.layers[0].key_norms, in.keys.norm(2, -1)));
  EXPECT_FALSE(trace.layers[0].query_norms.requires_grad());
  AttentionTrace attached;
  attached.norms = attached.attached = true;
  int calls = 0;
  attached.on_layer = [&](const LayerTrace& seen) {
    ++calls;
    EXPECT_TRUE(seen.query_norms.requires_grad());
  };
  attended(in, false, &attached);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(attached.layers.empty());
}

}  // namespace
}  // namespace attnlab::ordered_attention_test
