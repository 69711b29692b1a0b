// Sequences laid end to end in one batch of dot-product attention.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/attended.h"
#include "tests/support/naive_attention.h"
#include "tests/unit/nn/attention/plain_attention.h"

namespace attnlab::ragged_sequences_test {
namespace {

using testing::attended;
using testing::largest_difference;
using testing::naive_attention;
using testing::plain_attention;
using testing::random_input;

constexpr double kTolerance = 1e-10;

AttentionInput sequence(const AttentionInput& all, std::int64_t t) {
  const auto bounds = [&](const Tensor& offsets) {
    const std::int64_t first = offsets[t].item<std::int64_t>();
    return std::pair(first, offsets[t + 1].item<std::int64_t>());
  };
  const auto [q0, q1] = bounds(all.visible.query_offsets);
  const auto [k0, k1] = bounds(all.visible.key_offsets);
  using at::indexing::Ellipsis;
  using at::indexing::Slice;
  AttentionInput one = all;
  one.visible.query_offsets = one.visible.key_offsets = Tensor();
  one.queries = all.queries.index({Ellipsis, Slice(q0, q1), Slice()});
  one.keys = all.keys.index({Ellipsis, Slice(k0, k1), Slice()});
  one.values = all.values.index({Ellipsis, Slice(k0, k1), Slice()});
  if (all.visible.key_valid.defined()) {
    one.visible.key_valid = all.visible.key_valid.index({Slice(), Slice(k0, k1)});
  }
  if (all.bias.defined()) one.bias = all.bias.index({Ellipsis, Slice(q0, q1), Slice(k0, k1)});
  if (all.visible.pairs.defined()) {
    one.visible.pairs = all.visible.pairs.index({Ellipsis, Slice(q0, q1), Slice(k0, k1)});
  }
  if (all.relative.defined()) {
    // Distance d is column Lk - 1 - d, of all and of one alike.
    std::vector<Tensor> columns;
    for (std::int64_t d = k1 - k0 - 1; d >= 1 - (q1 - q0); --d) {
      columns.push_back(all.relative.keys.select(1, all.key_count() - 1 - d));
    }
    one.relative.keys = at::stack(columns, 1);
  }
  return one;
}

TEST(DotProductAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(15);
  const auto check = [](const char* name, const auto& change) {
    AttentionInput in = random_input(1, 2, 10, 12, 4, 3);
    in.visible.query_offsets = at::tensor({0, 4, 5, 10}, at::kLong);
    in.visible.key_offsets = at::tensor({0, 5, 10, 12}, at::kLong);
    change(in);
    const auto attention = plain_attention(in);
    const Tensor y = attended(*attention, in);
    std::vector<Tensor> expected;
    for (std::int64_t t = 0; t < 3; ++t) {
      expected.push_back(naive_attention(sequence(in, t), {.scale = 0.5}));
    }
    EXPECT_LT(largest_difference(y, at::cat(expected, 2)), kTolerance) << name;
  };
  check("nothing", [](AttentionInput&) {});
  check("causal", [](AttentionInput& in) { in.visible.causal = true; });
  check("window", [](AttentionInput& in) { in.visible.window = 2; });
  check("padding", [](AttentionInput& in) { in.visible.key_valid = at::rand({1, 12}) < 0.7; });
  check("pairs", [](AttentionInput& in) { in.visible.pairs = at::rand({2, 10, 12}) < 0.7; });
  check("bias", [](AttentionInput& in) { in.bias = at::randn({10, 12}, at::kDouble); });
  check("relative", [](AttentionInput& in) {
    in.relative.keys = at::randn({2, 21, 4}, at::kDouble);
    in.relative.position_bias = at::randn({2, 4}, at::kDouble);
  });
}

TEST(DotProductAttention, RaggedSequencesMayBeEmpty) {
  AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  in.visible.query_offsets = at::tensor({0, 0, 2, 3}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 1, 1, 3}, at::kLong);
  const Tensor y = attended(*plain_attention(in), in);
  ASSERT_EQ(y.sizes(), at::IntArrayRef({1, 2, 3, 3}));
  EXPECT_EQ(y.narrow(2, 0, 2).abs().max().item<double>(), 0);  // queries without keys
  EXPECT_GT(y.narrow(2, 2, 1).abs().max().item<double>(), 0);
}

TEST(DotProductAttention, ARaggedTraceIsRefused) {
  AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3}, at::kLong);
  AttentionTrace trace;
  EXPECT_THROW(attended(*plain_attention(in), in, &trace), ShapeError);
}

}  // namespace
}  // namespace attnlab::ragged_sequences_test
