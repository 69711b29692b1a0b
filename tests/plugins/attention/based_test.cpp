// Based: linear attention with weights 1 + s + s² / 2 over their sum.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/linear_cost.h"
#include "tests/support/ragged.h"
#include "tests/support/sourced_input.h"

namespace attnlab::based_test {
namespace {

using testing::Index;
using testing::KernelChoice;
using testing::kLinearForms;
using testing::largest_difference;
using testing::Row;

constexpr const char* kUnmapped = "{feature_dim: 0}";

/// q̂ or k̂ of one row: the row itself where nothing is mapped.
Row mapped(const Attention& attention, const std::string& name, const Row& x, Index h) {
  const auto parameters = attention.named_parameters();
  if (parameters.is_empty()) return x;
  const Tensor map = parameters[name];
  const Index channels = map.size(0) / attention.shape().heads;
  Row y;
  for (Index c = 0; c < channels; ++c) {
    y.push_back(testing::dot(testing::row(map, {h * channels + c}), x));
  }
  return y;
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros(visible.sizes(), at::kDouble);
  auto w = weights.accessor<double, 4>();
  Tensor sums = at::zeros({in.batch(), in.heads(), in.query_count(), 1}, at::kDouble);
  auto sum = sums.accessor<double, 4>();
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (testing::at_pair(visible, b, h, i, j) == 0) return;
    const Row q = mapped(attention, "query_map", testing::row(in.queries, {b, h, i}), h);
    const Row k = mapped(attention, "key_map", testing::row(in.keys, {b, h, j}), h);
    const double s = testing::dot(q, k) / std::sqrt(static_cast<double>(q.size()));
    sum[b][h][i][0] += w[b][h][i][j] = 1 + s + s * s / 2;
  });
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (w[b][h][i][j] != 0) w[b][h][i][j] /= sum[b][h][i][0];
  });
  return testing::weighed(weights, in.values);
}

std::shared_ptr<Attention> made(const AttentionInput& in, const std::string& options = "{}") {
  return testing::drawn_attention("based", in, options);
}

/// Without learned maps, so that two calls are of one function.
Tensor plainly(const AttentionInput& in) {
  return testing::attended(*testing::make_attention("based", testing::shape_of(in), kUnmapped), in);
}

AttentionTraits traits() { return made(testing::random_input(1, 1, 1, 1, 1, 1))->traits(); }

TEST(BasedAttention, RefusesWhatHasNoLinearForm) {
  testing::expect_rules_of_linear_form(traits(), plainly);
}

TEST(BasedAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  at::manual_seed(1);
  for (const char* options : {"{feature_dim: 3}", "{feature_dim: 6}", kUnmapped}) {
    for (const auto& [name, in] : testing::rules_by(traits()).covered) {
      const auto attention = made(in, options);
      const Tensor expected = naive(*attention, in);
      for (const auto kernel : kLinearForms) {
        const KernelChoice chosen(kernel);
        EXPECT_LT(largest_difference(testing::attended(*attention, in), expected), 1e-10)
            << options << name << ", " << name_of(kernel);
      }
      AttentionTrace trace;
      EXPECT_LT(largest_difference(testing::attended(*attention, in, &trace), expected), 1e-10)
          << name;
    }
  }
}

TEST(BasedAttention, LinearFormEqualsQuadraticFormOfLongSequences) {
  at::manual_seed(2);
  testing::expect_forms_agree(plainly);
}

TEST(BasedAttention, MapsEachHeadsChannelsUnlessToldNotTo) {
  at::manual_seed(3);
  const AttentionInput in = testing::random_input(1, 2, 3, 3, 4, 3);
  const auto attention = testing::make_attention("based", testing::shape_of(in));
  EXPECT_EQ(testing::parameter_count(*attention), 2 * (2 * 16) * 4);
  for (const Tensor& p : attention->parameters()) {
    EXPECT_LE(p.abs().max().item<double>(), 0.5);  // 1 / √4
    EXPECT_GT(p.abs().max().item<double>(), 0.4);
  }
  EXPECT_EQ(
      testing::parameter_count(*testing::make_attention("based", testing::shape_of(in), kUnmapped)),
      0);
}

TEST(BasedAttention, WeightsSumToOneAndAreNearSoftmaxForSmallLogits) {
  at::manual_seed(4);
  AttentionInput in = testing::random_input(2, 2, 4, 5, 4, 3);
  in.queries = in.queries * 0.02;
  const Tensor weights = testing::traced(*made(in, kUnmapped), in).weights;
  EXPECT_LT((weights.sum(-1) - 1).abs().max().item<double>(), 1e-12);
  EXPECT_GT(weights.min().item<double>(), 0);
  const Tensor softmax =
      testing::naive_softmax(testing::naive_logits(in, {.scale = 0.5}), testing::naive_visible(in));
  EXPECT_LT(largest_difference(weights, softmax), 1e-3);
}

TEST(BasedAttention, RemembersTheSameAmountOfAnyNumberOfTokens) {
  at::manual_seed(5);
  AttentionInput in = testing::random_input(1, 2, 80, 80, 4, 3);
  in.visible.causal = true;
  const auto attention = made(in, "{feature_dim: 3}");
  const Tensor expected = testing::attended(*attention, in);
  AttentionContext context;
  AttentionMemory memory;
  std::vector<Tensor> parts;
  std::vector<std::int64_t> bytes;
  for (const auto& [first, last] : {std::pair(0, 1), std::pair(1, 70), std::pair(70, 80)}) {
    AttentionInput some = in;
    for (Tensor* x : {&some.queries, &some.keys, &some.values}) {
      *x = x->narrow(2, first, last - first);
    }
    parts.push_back(attention->extend(some, memory, context).detach());
    bytes.push_back(memory.bytes());
  }
  EXPECT_LT(largest_difference(at::cat(parts, 2), expected), 1e-10);
  for (const std::int64_t each : bytes) EXPECT_EQ(each, 2 * (1 + 3 + 9) * (3 + 1) * 8);
}

TEST(BasedAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(6);
  testing::expect_sequences_apart(true, plainly, plainly);
}

TEST(BasedAttention, BFloat16IsNearDoubleForLongSequences) {
  at::manual_seed(7);
  for (const bool causal : {false, true}) {
    const auto [narrow, exact] = testing::in_bfloat16_and_double(plainly, causal);
    EXPECT_LT(largest_difference(narrow, exact), 0.02);
  }
}

TEST(BasedAttention, GradientsAreRightTwiceInBothForms) {
  at::manual_seed(8);
  AttentionInput in = testing::random_input(1, 2, 3, 4, 3, 2);
  for (const auto kernel : kLinearForms) {
    const KernelChoice chosen(kernel);
    for (const char* options : {"{feature_dim: 2}", kUnmapped}) {
      in.visible.causal = !in.visible.causal;
      testing::expect_gradients_right(
          *made(in, options), in,
          {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
    }
  }
}

}  // namespace
}  // namespace attnlab::based_test
