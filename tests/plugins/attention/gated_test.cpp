// Gated attention: softmax(Q Kᵀ / √D) V ⊙ σ(X W).
#include <gtest/gtest.h>

#include "tests/support/sourced_input.h"

namespace attnlab::gated_test {
namespace {

using testing::attended;
using testing::largest_difference;

constexpr const char* kForms[] = {"{gate: element}", "{gate: head}"};

const AttentionTraits kTraits = [] {
  AttentionTraits traits = AttentionTraits::all_quadratic();
  traits.sources = true;
  return traits;
}();

Tensor naive(const Attention& attention, const AttentionInput& in, testing::Index channels) {
  const Tensor weights =
      testing::naive_softmax(testing::naive_logits(in, {.scale = 0.5}), testing::naive_visible(in));
  const Tensor gates = testing::naive_source_map(attention, "gate", in.query_source, channels);
  Tensor out = testing::weighed(weights, in.values);
  auto to = out.accessor<double, 4>();
  testing::each_pair(out, [&](auto b, auto h, auto i, auto c) {
    to[b][h][i][c] *= 1 / (1 + std::exp(-testing::at_pair(gates, b, h, i, c)));
  });
  return out;
}

TEST(GatedAttention, HonoursEveryInputAndReadsItsSource) {
  const AttentionInput in = testing::small_input(kTraits, 3);
  EXPECT_EQ(testing::drawn_attention("gated", in)->traits(), kTraits);
  EXPECT_THROW(testing::make_attention("gated", testing::shape_of(in)), ConfigError);
}

TEST(GatedAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const char* form : kForms) {
    for (const auto& [name, in] : testing::inputs_for(kTraits)) {
      const auto attention = testing::drawn_attention("gated", in, form);
      const Tensor expected = naive(*attention, in, form == kForms[1] ? 1 : 3);
      EXPECT_LT(largest_difference(attended(*attention, in), expected), 1e-10) << form << name;
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(*attention, in, &trace), expected), 1e-10) << name;
    }
  }
}

TEST(GatedAttention, StartsHalfOpenWithOneMapForEachForm) {
  at::manual_seed(2);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const AttentionInput plain = testing::without_sources(in);
  const Tensor ungated = attended(*testing::drawn_attention("standard", in), plain);
  for (const char* form : kForms) {
    const auto attention = testing::make_attention("gated", testing::sourced_shape(in), form);
    attention->to(at::kDouble);
    EXPECT_EQ(testing::parameter_count(*attention), 5 * 2 * (form == kForms[1] ? 1 : 3));
    EXPECT_LT(attention->parameters()[0].abs().max().item<double>(), 0.2);
    const at::NoGradGuard no_gradients;
    attention->parameters()[0].zero_();
    EXPECT_LT(largest_difference(attended(*attention, in), ungated / 2), 1e-12);
  }
}

TEST(GatedAttention, AClosedGateSaysNothingWhateverTheWeightsAre) {
  at::manual_seed(3);
  AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("gated", in);
  {
    const at::NoGradGuard no_gradients;
    attention->parameters()[0].abs_();
  }
  in.query_source = in.query_source.abs();
  in.query_source.select(1, 2).fill_(-1000);
  const Tensor out = attended(*attention, in);
  EXPECT_LT(out.select(2, 2).abs().max().item<double>(), 1e-12);
  EXPECT_GT(out.select(2, 1).abs().max().item<double>(), 0.01);
}

TEST(GatedAttention, RecordsWeightsWhereTheyGiveTheOutput) {
  at::manual_seed(4);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto by_head = testing::drawn_attention("gated", in, "{gate: head}");
  const LayerTrace seen = testing::traced(*by_head, in);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*by_head, in)), 1e-12);
  const Tensor gates = testing::naive_source_map(*by_head, "gate", in.query_source, 1).sigmoid();
  EXPECT_LT(largest_difference(seen.weights.sum(-1, true), gates), 1e-12);
  EXPECT_LT(largest_difference(seen.entropy, -at::xlogy(seen.weights, seen.weights).sum(-1)),
            1e-12);
  AttentionTrace entropy;
  entropy.entropy = true;
  attended(*by_head, in, &entropy);
  EXPECT_FALSE(entropy.layers.at(0).weights.defined());
  EXPECT_TRUE(at::equal(entropy.layers.at(0).entropy, seen.entropy));

  const auto by_element = testing::drawn_attention("gated", in);
  const LayerTrace of_softmax =
      testing::traced(*testing::drawn_attention("standard", in), testing::without_sources(in));
  const LayerTrace other = testing::traced(*by_element, in);
  EXPECT_FALSE(other.weights.defined());
  EXPECT_TRUE(at::equal(other.logits, of_softmax.logits));
  EXPECT_TRUE(at::equal(other.entropy, of_softmax.entropy));
}

TEST(GatedAttention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = testing::small_input(kTraits, 3);
  for (const char* form : kForms) {
    const auto attention = testing::drawn_attention("gated", in, form);
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      testing::expect_gradients_right(*attention, in,
                                      {&AttentionInput::queries, &AttentionInput::keys,
                                       &AttentionInput::values, &AttentionInput::query_source});
    }
  }
}

}  // namespace
}  // namespace attnlab::gated_test
