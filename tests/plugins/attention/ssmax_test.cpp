// Scalable softmax: softmax(s_h log(n) Q Kᵀ / √D) V.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::ssmax_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> built(const AttentionInput& in, const std::string& options = "{}") {
  auto attention = testing::make_attention("ssmax", testing::shape_of(in), options);
  attention->to(at::kDouble);
  return attention;
}

/// With another s for each head.
std::shared_ptr<Attention> varied(const AttentionInput& in) {
  auto attention = built(in);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : attention->parameters()) parameter.copy_(at::rand_like(parameter) + 0.5);
  return attention;
}

Row scales_of(const Attention& attention) {
  return testing::row(attention.named_parameters()["s"]);
}

Tensor naive(const AttentionInput& in, const Row& s) {
  AttentionInput without_bias = in;
  without_bias.bias = Tensor();
  const Tensor logits = testing::naive_logits(without_bias, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  auto l = logits.accessor<double, 4>();
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    const double n = std::max(testing::naive_count(visible, b, h, i), 1.0);
    l[b][h][i][j] *= s[static_cast<std::size_t>(h)] * std::log(n);
    if (in.bias.defined()) l[b][h][i][j] += testing::at_pair(in.bias, b, h, i, j);
  });
  // One half-step is a softmax.
  return testing::weighed(testing::naive_sinkhorn(logits, visible, {.max_iter = 1}), in.values);
}

TEST(ScalableSoftmax, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = varied(in);
    const Tensor expected = naive(in, scales_of(*attention));
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(ScalableSoftmax, CountsPaddingOfCausalWindowsAsAbsent) {
  at::manual_seed(2);
  for (const auto& [queries, keys] : {std::pair(6, 6), std::pair(4, 7), std::pair(7, 4)}) {
    for (const std::int64_t window : {0, 1, 2, 3, 40}) {
      for (const bool causal : {false, true}) {
        AttentionInput in = random_input(2, 2, queries, keys, 4, 3);
        in.visible.causal = causal;
        in.visible.window = window;
        in.visible.key_valid = at::rand({2, keys}) < 0.6;
        const auto attention = varied(in);
        EXPECT_LT(largest_difference(attended(*attention, in), naive(in, scales_of(*attention))),
                  1e-10)
            << queries << ", " << keys << ", " << window << ", " << causal;
      }
    }
  }
}

TEST(ScalableSoftmax, KeepsTheKernelOfSoftmax) {
  at::manual_seed(3);
  const testing::KernelChoice headwise(AttentionKernel::headwise);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = varied(in);
    EXPECT_LT(largest_difference(attended(*attention, in), naive(in, scales_of(*attention))), 1e-10)
        << name;
  }
}

TEST(ScalableSoftmax, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(4);
  for (const bool causal : {false, true}) {
    const auto attention = varied(random_input(1, 2, 1, 1, 4, 4));
    const auto run = [&](const AttentionInput& in) { return attended(*attention, in); };
    testing::expect_sequences_apart(causal, run, run);
  }
}

TEST(ScalableSoftmax, LearnsOneScaleOfEachHeadFromItsStartOn) {
  const AttentionInput in = random_input(1, 2, 2, 2, 4, 4);
  EXPECT_EQ(scales_of(*built(in, "{start: 0.5}")), Row({0.5, 0.5}));
  EXPECT_EQ(testing::parameter_count(*built(in)), 2);
  // The start makes s log n 1 on average up to 1024 keys.
  double mean = 0;
  for (int n = 1; n <= 1024; ++n) mean += std::log(n) / 1024;
  EXPECT_NEAR(scales_of(*built(in))[0] * mean, 1, 0.01);
}

TEST(ScalableSoftmax, AKeyThatLeadsKeepsItsWeightWhereSoftmaxFades) {
  const auto first_weight = [](const std::string& id, const std::string& options,
                               std::int64_t keys) {
    AttentionInput in = random_input(1, 1, 1, keys, 1, 1);
    in.queries.fill_(1);
    in.keys.zero_();
    in.keys[0][0][0][0] = 4;
    in.values.zero_();
    in.values[0][0][0][0] = 1;
    AttentionContext context;
    return testing::make_attention(id, testing::shape_of(in), options)
        ->forward(in, context)
        .item<double>();
  };
  for (const std::int64_t keys : {10, 1000, 100000}) {
    // n^(4 s) / (n^(4 s) + n - 1) with 4 s = 2
    const double n = static_cast<double>(keys);
    EXPECT_NEAR(first_weight("ssmax", "{start: 0.5}", keys), n * n / (n * n + n - 1), 1e-6);
  }
  EXPECT_LT(first_weight("standard", "{}", 100000), 0.001);
}

TEST(ScalableSoftmax, OneKeyHasAllTheWeight) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 2, 3, 1, 4, 3);
  EXPECT_LT(largest_difference(attended(*varied(in), in), in.values.expand({2, 2, 3, 3})), 1e-15);
}

TEST(ScalableSoftmax, GradientsAreRightTwice) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const auto attention = varied(in);
  testing::expect_right_gradients_twice(
      in, [&](const AttentionInput& x) { return attended(*attention, x); },
      attention->parameters());
}

}  // namespace
}  // namespace attnlab::ssmax_test
