// Differential attention, version 2: (softmax(Q Kᵀ / √D) - σ(X w) softmax(X W₂ Kᵀ / √D)) V.
#include <gtest/gtest.h>

#include "tests/support/sourced_input.h"

namespace attnlab::differential_v2_test {
namespace {

using testing::attended;
using testing::largest_difference;

const AttentionTraits kTraits = [] {
  AttentionTraits traits = AttentionTraits::all_quadratic();
  traits.sources = true;
  return traits;
}();

Tensor softmax_of(const AttentionInput& in) {
  return testing::naive_softmax(testing::naive_logits(in, {.scale = 0.5}),
                                testing::naive_visible(in));
}

double naive_share(const Attention& attention, const AttentionInput& in, testing::Index b,
                   testing::Index h, testing::Index i) {
  const Tensor logits = testing::naive_source_map(attention, "share", in.query_source, 1);
  return 1 / (1 + std::exp(-testing::at_pair(logits, b, h, i, 0)));
}

Tensor naive_weights(const Attention& attention, const AttentionInput& in) {
  AttentionInput second = in;
  second.queries = testing::naive_source_map(attention, "query", in.query_source, 4);
  const Tensor taken = softmax_of(second);
  Tensor weights = softmax_of(in);
  auto to = weights.accessor<double, 4>();
  testing::each_pair(weights, [&](auto b, auto h, auto i, auto j) {
    to[b][h][i][j] -= naive_share(attention, in, b, h, i) * testing::at_pair(taken, b, h, i, j);
  });
  return weights;
}

TEST(DifferentialV2Attention, HonoursEveryInputAndReadsItsSource) {
  const AttentionInput in = testing::small_input(kTraits, 3);
  EXPECT_EQ(testing::drawn_attention("differential_v2", in)->traits(), kTraits);
  EXPECT_THROW(testing::make_attention("differential_v2", testing::shape_of(in)), ConfigError);
}

TEST(DifferentialV2Attention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::inputs_for(kTraits)) {
    const auto attention = testing::drawn_attention("differential_v2", in);
    const Tensor expected = testing::weighed(naive_weights(*attention, in), in.values);
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(DifferentialV2Attention, StartsNearHalfOfTheSecondAnswer) {
  at::manual_seed(2);
  const AttentionInput in = testing::small_input(kTraits, 5);
  const auto attention = testing::make_attention("differential_v2", testing::sourced_shape(in));
  attention->to(at::kDouble);
  EXPECT_EQ(testing::parameter_count(*attention), 5 * 2 * 4 + 5 * 2);
  for (const Tensor& p : attention->parameters()) {
    EXPECT_LT(p.abs().max().item<double>(), 0.2);
    const at::NoGradGuard no_gradients;
    Tensor(p).zero_();
  }
  // A second query of zeros sees all keys alike.
  const Tensor standard =
      attended(*testing::drawn_attention("standard", in), testing::without_sources(in));
  EXPECT_LT(largest_difference(attended(*attention, in),
                               standard - in.values.mean(2, /*keepdim=*/true) / 2),
            1e-12);
}

TEST(DifferentialV2Attention, WhatBothQueriesSeeCancelsWhereTheShareIsOne) {
  at::manual_seed(3);
  AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("differential_v2", in);
  const auto share = [&](double weight) {
    const at::NoGradGuard no_gradients;
    Tensor(attention->named_parameters()["share.map.weight"]).fill_(weight);
  };
  in.query_source = in.query_source.abs();
  in.queries = testing::naive_source_map(*attention, "query", in.query_source, 4);
  share(1000);
  EXPECT_LT(attended(*attention, in).abs().max().item<double>(), 1e-12);
  share(0);
  EXPECT_GT(attended(*attention, in).abs().max().item<double>(), 0.1);
}

TEST(DifferentialV2Attention, RecordsTheDifferenceAsWeights) {
  at::manual_seed(4);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("differential_v2", in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.weights, naive_weights(*attention, in)), 1e-12);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*attention, in)),
            1e-12);
  EXPECT_NEAR(seen.weights[0][1][2].sum().item<double>(), 1 - naive_share(*attention, in, 0, 1, 2),
              1e-12);
  const Tensor sizes = seen.weights.abs();
  EXPECT_LT(largest_difference(seen.entropy, -at::xlogy(sizes, sizes).sum(-1)), 1e-12);
  EXPECT_FALSE(seen.logits.defined());
  EXPECT_LT(largest_difference(seen.query_norms, in.queries.norm(2, -1)), 1e-12);
  AttentionTrace entropy;
  entropy.entropy = true;
  attended(*attention, in, &entropy);
  EXPECT_FALSE(entropy.layers.at(0).weights.defined());
  EXPECT_TRUE(at::equal(entropy.layers.at(0).entropy, seen.entropy));
}

TEST(DifferentialV2Attention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = testing::small_input(kTraits, 3);
  const auto attention = testing::drawn_attention("differential_v2", in);
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    testing::expect_gradients_right(*attention, in,
                                    {&AttentionInput::queries, &AttentionInput::keys,
                                     &AttentionInput::values, &AttentionInput::query_source});
  }
}

}  // namespace
}  // namespace attnlab::differential_v2_test
