// Sums at linear cost against plain loops.
#include "framework/nn/attention/linear_attention.h"

#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"

namespace attnlab::linear_attention_test {
namespace {

using testing::largest_difference;
using testing::random_input;

/// Inputs of every rule and of lengths around those of chunks (64 keys).
std::vector<testing::NamedInput> inputs() {
  std::vector<testing::NamedInput> all;
  for (const auto& [queries, keys] :
       {std::pair(1, 1), std::pair(5, 5), std::pair(64, 64), std::pair(65, 65), std::pair(130, 130),
        std::pair(3, 70), std::pair(70, 140), std::pair(140, 70), std::pair(1, 9)}) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        AttentionInput in = random_input(keys > 64 ? 1 : 2, 2, queries, keys, 3, 2);
        in.visible.causal = causal;
        if (padded) in.visible.key_valid = at::rand({in.batch(), keys}) < 0.6;
        all.push_back({causal ? "causal" : "all", in});
      }
    }
  }
  return all;
}

TEST(LinearSums, EqualTheQuadraticLoops) {
  at::manual_seed(1);
  for (const auto& [name, in] : inputs()) {
    const Tensor logits = testing::naive_logits(in, {});
    const Tensor weights = logits.masked_fill(testing::naive_visible(in).logical_not(), 0);
    const Tensor expected = testing::weighed(weights, in.values);
    EXPECT_LT(largest_difference(linear_sums(in.queries, in.keys, in.values, in.visible), expected),
              1e-10)
        << name << ", " << in.query_count() << " queries, " << in.key_count() << " keys";
  }
}

TEST(LinearSums, CountsEqualTheLoops) {
  at::manual_seed(2);
  for (const auto& [name, in] : inputs()) {
    const std::int64_t queries = in.query_count();
    const Tensor counts = visible_counts(in.visible, queries, in.key_count(), at::kCPU);
    const Tensor all = counts.expand({in.batch(), 1, queries, 1});
    const Tensor visible = testing::naive_visible(in);
    for (std::int64_t b = 0; b < in.batch(); ++b) {
      for (std::int64_t i = 0; i < queries; ++i) {
        EXPECT_EQ(static_cast<double>(all[b][0][i][0].item<std::int64_t>()),
                  testing::naive_count(visible, b, 0, i))
            << name << ", query " << i << " of " << queries << ", keys " << in.key_count();
      }
    }
  }
}

TEST(LinearSums, GradientsAreRight) {
  at::manual_seed(3);
  for (const auto& [queries, keys] : {std::pair(4, 5), std::pair(66, 70), std::pair(68, 66)}) {
    AttentionInput in = random_input(1, 1, queries, keys, 2, 2);
    in.visible.key_valid = at::rand({1, keys}) < 0.8;
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      const auto f = [&](const std::vector<Tensor>& x) {
        return linear_sums(x[0], x[1], x[2], in.visible);
      };
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
    }
  }
}

TEST(LinearSums, GradientsOfGradientsAreRight) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 1, 66, 67, 1, 1);
  in.visible.causal = true;
  const auto f = [&](const std::vector<Tensor>& x) {
    return linear_sums(x[0], x[1], x[2], in.visible);
  };
  EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6);
}

TEST(LinearSums, LongSumsOfBFloat16DoNotStall) {
  const Tensor ones = at::ones({1, 1, 5000, 1}, at::kBFloat16);
  Visibility causal;
  causal.causal = true;
  // In bfloat16, 256 + 1 is 256.
  const Tensor sums = linear_sums(ones, ones, ones, causal);
  EXPECT_EQ(sums.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(sums.flatten(), at::arange(1, 5001, at::kFloat)));
  EXPECT_EQ(linear_sums(ones, ones, ones, {}).min().item<double>(), 5000);
}

TEST(LinearSums, DoNotMixWhatThePaddedChunksHold) {
  // 65 queries make two chunks; the second is mostly padding and must not reach the first.
  at::manual_seed(5);
  AttentionInput in = random_input(1, 1, 65, 65, 3, 2);
  in.visible.causal = true;
  AttentionInput changed = in;
  changed.keys = in.keys.clone();
  changed.keys.select(2, 64).fill_(1e6);
  const auto sums = [](const AttentionInput& x) {
    return linear_sums(x.queries, x.keys, x.values, x.visible).narrow(2, 0, 64);
  };
  EXPECT_TRUE(at::equal(sums(in), sums(changed)));
}

TEST(LinearSums, RefuseWhatHasNoLinearForm) {
  const AttentionInput in = random_input(1, 1, 3, 3, 2, 2);
  Visibility window, pairs, ragged;
  window.window = 2;
  pairs.pairs = at::ones({3, 3}, at::kBool);
  ragged.query_offsets = ragged.key_offsets = at::tensor({0, 3}, at::kLong);
  for (const Visibility& rule : {window, pairs, ragged}) {
    EXPECT_THROW(linear_sums(in.queries, in.keys, in.values, rule), ShapeError);
    EXPECT_THROW(visible_counts(rule, 3, 3, at::kCPU), ShapeError);
  }
}

}  // namespace
}  // namespace attnlab::linear_attention_test
