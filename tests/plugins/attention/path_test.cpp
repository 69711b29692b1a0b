// PaTH attention: softmax(q_i · H_i ... H_{j+1} k_j / √D) V, H_t = I - β_t w_t w_tᵀ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/sourced_input.h"

namespace attnlab::path_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::Row;

const AttentionTraits kTraits = [] {
  AttentionTraits traits = AttentionTraits::ordered_quadratic();
  traits.sources = true;
  return traits;
}();

/// w of token t for head h.
Row naive_direction(const Attention& attention, const AttentionInput& in, Index b, Index h,
                    Index t) {
  const auto parameters = attention.named_parameters();
  const Tensor down = parameters["direction.down.weight"],
               up = parameters["direction.up.map.weight"];
  Row between;
  for (Index r = 0; r < down.size(0); ++r) {
    between.push_back(testing::dot(testing::row(down, {r}), testing::row(in.key_source, {b, t})));
  }
  const Index channels = in.keys.size(3);
  Row w;
  for (Index c = 0; c < channels; ++c) {
    w.push_back(testing::dot(testing::row(up, {h * channels + c}), between));
  }
  const double norm = std::sqrt(testing::dot(w, w) + 1e-6);
  for (double& c : w) c /= norm;
  return w;
}

/// What turning adds to the scaled logits: zeros where the key is ahead of the query.
Tensor naive_bias(const Attention& attention, const AttentionInput& in) {
  const Tensor strengths = testing::naive_source_map(attention, "strength", in.key_source, 1);
  const Tensor& valid = in.visible.key_valid;
  const Index columns = in.key_count(), shift = columns - in.query_count();
  Tensor bias = at::zeros({in.batch(), in.heads(), in.query_count(), columns}, at::kDouble);
  auto to = bias.accessor<double, 4>();
  // The last query with each key; keys are turned a token at a time.
  testing::each_pair(bias.narrow(2, 0, 1), [&](Index b, Index h, Index, Index j) {
    const Row key = testing::row(in.keys, {b, h, j});
    Row turned = key;
    for (Index t = j; t < columns; ++t) {
      const bool real = !valid.defined() || testing::at_pair(valid, 0, 0, b, t) != 0;
      if (t > j && real) {
        const double beta = 2 / (1 + std::exp(-testing::at_pair(strengths, b, h, t, 0)));
        const Row w = naive_direction(attention, in, b, h, t);
        const double along = testing::dot(w, turned);
        for (std::size_t c = 0; c < w.size(); ++c) turned[c] -= beta * along * w[c];
      }
      if (t < shift) continue;
      const Row query = testing::row(in.queries, {b, h, t - shift});
      to[b][h][t - shift][j] = (testing::dot(query, turned) - testing::dot(query, key)) / 2;
    }
  });
  return bias;
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5}) + naive_bias(attention, in);
  return testing::weighed(testing::naive_softmax(logits, testing::naive_visible(in)), in.values);
}

TEST(PathAttention, NeedsAnOrderAndWhatKeysAreMadeOf) {
  AttentionInput in = testing::small_input(kTraits, 3);
  const auto attention = testing::drawn_attention("path", in);
  EXPECT_EQ(attention->traits(), kTraits);
  EXPECT_THROW(testing::make_attention("path", testing::shape_of(in)), ConfigError);
  EXPECT_THAT(testing::message_of<ConfigError>([&] {
                testing::make_attention("path", testing::sourced_shape(in), "{rank: 0}");
              }),
              ::testing::HasSubstr("rank"));
  in.visible.causal = false;
  EXPECT_THROW(attended(*attention, in), TraitError);
}

TEST(PathAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::inputs_for(kTraits)) {
    const auto attention = testing::drawn_attention("path", in, "{rank: 3}");
    const Tensor expected = naive(*attention, in);
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(PathAttention, WalksThroughManyChunks) {
  at::manual_seed(2);
  for (const auto& [queries, keys] : {std::pair(130, 130), std::pair(3, 150), std::pair(70, 65)}) {
    AttentionInput in = testing::with_sources(testing::random_input(1, 2, queries, keys, 4, 3));
    in.visible.causal = true;
    in.visible.key_valid = at::rand({1, keys}) < 0.8;
    const auto attention = testing::drawn_attention("path", in, "{rank: 3}");
    EXPECT_LT(largest_difference(attended(*attention, in), naive(*attention, in)), 1e-9) << keys;
  }
}

TEST(PathAttention, LearnsAMapOfLowRankAndAStrengthForEachHead) {
  at::manual_seed(3);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto count = [&](const char* options) {
    return testing::parameter_count(
        *testing::make_attention("path", testing::sourced_shape(in), options));
  };
  EXPECT_EQ(count("{}"), 32 * 6 + 32 * 2 * 4 + (6 + 1) * 2);
  EXPECT_EQ(count("{rank: 3}"), 3 * 6 + 3 * 2 * 4 + (6 + 1) * 2);
}

TEST(PathAttention, TwoMirrorsOfOneDirectionLeaveAKeyAsItIs) {
  at::manual_seed(4);
  AttentionInput in = testing::small_input(kTraits, 6);
  in.key_source = in.key_source.narrow(1, 0, 1).expand({1, 6, 6}).contiguous();
  const auto attention = testing::drawn_attention("path", in);
  {
    const at::NoGradGuard no_gradients;
    Tensor(attention->named_parameters()["direction.up.map.weight"])
        .mul_(1000);  // norms far above 1e-6
    Tensor(attention->named_parameters()["strength.map.weight"]).zero_();
    Tensor(attention->named_parameters()["strength.map.bias"]).fill_(100);  // β = 2
  }
  const Tensor bias = testing::traced(*attention, in).bias[0][0];
  for (Index i = 0; i < 6; ++i) {
    for (Index j = 0; j <= i; ++j) {
      const Row w = naive_direction(*attention, in, 0, 0, 0);
      const double mirrored = -testing::dot(w, testing::row(in.queries, {0, 0, i})) *
                              testing::dot(w, testing::row(in.keys, {0, 0, j}));
      EXPECT_NEAR(bias[i][j].item<double>(), (i - j) % 2 == 0 ? 0 : mirrored, 1e-9) << i << j;
    }
  }
}

TEST(PathAttention, PaddingTurnsNothing) {
  at::manual_seed(5);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_padding_between_is_absence(*testing::drawn_attention("path", in), in);
}

TEST(PathAttention, RecordsWhatItAddsToTheLogits) {
  at::manual_seed(6);
  const AttentionInput in = testing::small_input(kTraits, 5);
  const auto attention = testing::drawn_attention("path", in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.bias, naive_bias(*attention, in)), 1e-11);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*attention, in)),
            1e-12);
}

TEST(PathAttention, GradientsAreRightTwice) {
  at::manual_seed(7);
  const AttentionInput in = testing::small_input(kTraits, 4);
  testing::expect_gradients_right(*testing::drawn_attention("path", in, "{rank: 2}"), in,
                                  {&AttentionInput::queries, &AttentionInput::keys,
                                   &AttentionInput::values, &AttentionInput::key_source});
}

}  // namespace
}  // namespace attnlab::path_test
