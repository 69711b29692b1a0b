// Forgetting attention: softmax(Q Kᵀ / √D + F) V, F_ij = sum over t = j+1 .. i of log f_t.
#include <gtest/gtest.h>

#include "tests/support/sourced_input.h"

namespace attnlab::forgetting_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;

constexpr AttentionTraits kTraits{.bias = true,
                                  .causal = true,
                                  .window = true,
                                  .pair_mask = true,
                                  .padding = true,
                                  .different_lengths = true,
                                  .different_source = true,
                                  .relative_positions = true,
                                  .second_order = true,
                                  .sources = true,
                                  .ordered = true};

/// F, zeros where a query stands before a key.
Tensor naive_bias(const Attention& attention, const AttentionInput& in) {
  const Tensor z = testing::naive_source_map(attention, "gate", in.key_source, 1);
  const Tensor& valid = in.visible.key_valid;
  Tensor bias = at::zeros({in.batch(), in.heads(), in.query_count(), in.key_count()}, at::kDouble);
  auto to = bias.accessor<double, 4>();
  testing::each_pair(bias, [&](Index b, Index h, Index i, Index j) {
    for (Index t = j + 1; t <= i + in.key_count() - in.query_count(); ++t) {
      if (valid.defined() && testing::at_pair(valid, 0, 0, b, t) == 0) continue;
      to[b][h][i][j] -= std::log1p(std::exp(-testing::at_pair(z, b, h, t, 0)));
    }
  });
  return bias;
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5}) + naive_bias(attention, in);
  return testing::weighed(testing::naive_softmax(logits, testing::naive_visible(in)), in.values);
}

/// Gates that are the same number for all tokens.
void set_gates(Attention& attention, double gate) {
  const at::NoGradGuard no_gradients;
  const auto parameters = attention.named_parameters();
  Tensor(parameters["gate.map.weight"]).zero_();
  Tensor(parameters["gate.map.bias"]).fill_(std::log(gate / (1 - gate)));
}

TEST(ForgettingAttention, NeedsAnOrderAndItsSource) {
  AttentionInput in = testing::small_input(kTraits, 3);
  const auto attention = testing::drawn_attention("forgetting", in);
  EXPECT_EQ(attention->traits(), kTraits);
  in.visible.causal = false;
  EXPECT_THROW(attended(*attention, in), TraitError);
  EXPECT_THROW(testing::make_attention("forgetting", testing::shape_of(in)), ConfigError);
}

TEST(ForgettingAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::inputs_for(kTraits)) {
    const auto attention = testing::drawn_attention("forgetting", in);
    const Tensor expected = naive(*attention, in);
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(ForgettingAttention, GatesOfOneAreStandardAttention) {
  at::manual_seed(2);
  const AttentionInput in = testing::small_input(kTraits, 6);
  const auto attention = testing::drawn_attention("forgetting", in);
  {
    const at::NoGradGuard no_gradients;
    for (Tensor& p : attention->parameters()) p.zero_();
    Tensor(attention->named_parameters()["gate.map.bias"]).fill_(100);
  }
  const AttentionInput plain = testing::without_sources(in);
  const auto standard = testing::drawn_attention("standard", plain);
  EXPECT_LT(largest_difference(attended(*attention, in), attended(*standard, plain)), 1e-12);
}

TEST(ForgettingAttention, EqualGatesForgetByDistance) {
  at::manual_seed(3);
  AttentionInput in = testing::small_input(kTraits, 5);
  in.queries = at::zeros_like(in.queries);
  const auto attention = testing::drawn_attention("forgetting", in);
  set_gates(*attention, 0.25);
  const Tensor weights = testing::traced(*attention, in).weights;
  // Each token back has a quarter of the weight of the next.
  for (const std::int64_t j : {0, 1, 2, 3}) {
    const double ratio =
        weights[0][1][4][j].item<double>() / weights[0][1][4][j + 1].item<double>();
    EXPECT_NEAR(ratio, 0.25, 1e-12) << j;
  }
}

TEST(ForgettingAttention, OneTokenForgetsAllBeforeItAndNotItself) {
  at::manual_seed(4);
  AttentionInput in = testing::small_input(kTraits, 5);
  const auto attention = testing::drawn_attention("forgetting", in);
  {
    const at::NoGradGuard no_gradients;
    Tensor(attention->named_parameters()["gate.map.weight"]).fill_(1);
  }
  in.key_source = at::full_like(in.key_source, 10);
  in.key_source.select(1, 2).fill_(-10);
  const Tensor weights = testing::traced(*attention, in).weights;
  EXPECT_LT(weights.narrow(2, 2, 3).narrow(3, 0, 2).max().item<double>(), 1e-12);
  EXPECT_GT(weights.narrow(2, 2, 3).select(3, 2).min().item<double>(), 1e-4);
  EXPECT_GT(weights[0][0][1][0].item<double>(), 1e-4);
}

TEST(ForgettingAttention, StartsAsAskedFor) {
  const AttentionInput in = testing::small_input(kTraits, 3);
  const auto bias_of = [&](const std::string& options) {
    const auto made = testing::make_attention("forgetting", testing::sourced_shape(in), options);
    EXPECT_EQ(testing::parameter_count(*made), 2 * (6 + 1));
    return Tensor(made->named_parameters()["gate.map.bias"]);
  };
  EXPECT_TRUE(at::equal(bias_of("{}"), at::zeros({2})));
  EXPECT_TRUE(at::equal(bias_of("{start: 5}"), at::full({2}, 5.0)));
}

TEST(ForgettingAttention, PaddingBetweenTokensForgetsNothing) {
  at::manual_seed(5);
  const AttentionInput in = testing::small_input(kTraits, 6);
  const auto attention = testing::drawn_attention("forgetting", in);
  testing::expect_padding_between_is_absence(*attention, in);
}

/// Beside other members' examples padding comes as pairs, by head.
TEST(ForgettingAttention, PaddingOfAMemberForgetsNothingEither) {
  at::manual_seed(6);
  const std::int64_t members = 2;
  AttentionInput in = testing::random_input(1, 2 * members, 5, 5, 4, 3);
  in.visible.causal = true;
  in.query_source = at::randn({members, 5, 5}, at::kDouble);
  in.key_source = at::randn({members, 5, 6}, at::kDouble);
  in.value_source = at::randn({members, 5, 7}, at::kDouble);
  AttentionShape shape = testing::sourced_shape(in);
  shape.members = members;
  const auto together = testing::make_attention("forgetting", shape);
  together->to(at::kDouble);
  {
    const at::NoGradGuard no_gradients;
    for (Tensor& p : together->parameters()) p.copy_(at::randn_like(p));
  }
  const Tensor valid = at::tensor({1, 1, 1, 1, 1, 1, 0, 1, 0, 1}, at::kLong).view({2, 5}).eq(1);
  AttentionInput side_by_side = in;
  side_by_side.visible.pairs =
      valid.repeat_interleave(2, 0).view({1, 4, 1, 5}).expand({1, 4, 5, 5});
  const Tensor all = attended(*together, side_by_side);
  for (std::int64_t m = 0; m < members; ++m) {
    AttentionInput one = in;
    for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->chunk(members, 1)[m];
    for (Tensor* x : {&one.query_source, &one.key_source, &one.value_source}) {
      *x = x->chunk(members, 0)[m];
    }
    one.visible.key_valid = valid.narrow(0, m, 1);
    const auto alone = testing::drawn_attention("forgetting", one);
    {
      const at::NoGradGuard no_gradients;
      for (auto& item : alone->named_parameters()) {
        item.value().copy_(Tensor(together->named_parameters()[item.key()]).chunk(members, 0)[m]);
      }
    }
    EXPECT_LT(largest_difference(all.chunk(members, 1)[m], attended(*alone, one)), 1e-12) << m;
  }
}

TEST(ForgettingAttention, RecordsWhatItAddsToTheLogits) {
  at::manual_seed(7);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("forgetting", in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.bias.tril(), naive_bias(*attention, in)), 1e-12);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*attention, in)),
            1e-12);
}

TEST(ForgettingAttention, GradientsAreRightTwice) {
  at::manual_seed(8);
  AttentionInput in = testing::random_input(1, 2, 3, 4, 3, 2);
  in.visible.causal = true;
  in = testing::with_sources(in);
  const auto attention = testing::drawn_attention("forgetting", in);
  testing::expect_gradients_right(*attention, in,
                                  {&AttentionInput::queries, &AttentionInput::keys,
                                   &AttentionInput::values, &AttentionInput::key_source});
}

}  // namespace
}  // namespace attnlab::forgetting_test
