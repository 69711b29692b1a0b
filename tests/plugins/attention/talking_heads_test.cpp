// Talking heads: logits mixed between heads before the softmax, weights after it.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::talking_heads_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> made(const AttentionShape& shape) {
  auto attention = testing::make_attention("talking_heads", shape);
  attention->to(at::kDouble);
  return attention;
}

/// With matrices drawn at random.
std::shared_ptr<Attention> varied(const AttentionShape& shape) {
  auto attention = made(shape);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : attention->parameters()) parameter.copy_(at::randn_like(parameter));
  return attention;
}

/// Every pair of x as `matrix` mixes it between heads, 0 where it is hidden before or after.
Tensor naive_mixed(const Tensor& x, const Tensor& visible, const Tensor& matrix) {
  const Row by = testing::row(matrix);
  const auto from = x.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  Tensor mixed = at::zeros_like(x);
  auto to = mixed.accessor<double, 4>();
  testing::each_pair(x, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    for (Index g = 0; g < x.size(1); ++g) {
      const double share = by[static_cast<std::size_t>(h * x.size(1) + g)];
      if (sees[b][g][i][j]) to[b][h][i][j] += share * from[b][g][i][j];
    }
  });
  return mixed;
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const auto learned = attention.named_parameters();
  const Tensor visible = testing::naive_visible(in);
  const Tensor logits =
      naive_mixed(testing::naive_logits(in, {.scale = 0.5}), visible, learned["logit_mix"]);
  // One half-step is a softmax.
  const Tensor weights = testing::naive_sinkhorn(logits, visible, {.max_iter = 1});
  return testing::weighed(naive_mixed(weights, visible, learned["weight_mix"]), in.values);
}

TEST(TalkingHeads, EqualTheirEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = varied(testing::shape_of(in));
    const Tensor expected = naive(*attention, in);
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(TalkingHeads, StartNearStandardAttention) {
  at::manual_seed(2);
  const AttentionInput in = random_input(1, 4, 5, 6, 4, 3);
  const auto attention = made(testing::shape_of(in));
  for (const auto& item : attention->named_parameters()) {
    EXPECT_EQ(item.value().sizes(), at::IntArrayRef({4, 4})) << item.key();
    const double distance =
        largest_difference(item.value().detach(), at::eye(4, item.value().options()));
    EXPECT_GT(distance, 0) << item.key();
    EXPECT_LT(distance, 0.2) << item.key();
  }
  {
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : attention->parameters()) {
      parameter.copy_(at::eye(4, parameter.options()));
    }
  }
  const Tensor standard = testing::naive_attention(in, {.scale = 0.5});
  EXPECT_LT(largest_difference(attended(*attention, in), standard), 1e-12);
}

TEST(TalkingHeads, OneHeadsQueriesMoveAnothersWeights) {
  at::manual_seed(3);
  const AttentionInput in = random_input(1, 2, 3, 5, 4, 3);
  AttentionInput other = in;
  other.queries = in.queries.clone();
  other.queries.select(1, 0).mul_(-2);
  const auto second_head = [](const Tensor& out) { return out.select(1, 1); };
  const auto talking = varied(testing::shape_of(in));
  EXPECT_GT(largest_difference(second_head(attended(*talking, in)),
                               second_head(attended(*talking, other))),
            1e-3);
}

TEST(TalkingHeads, WhatIsHiddenInAHeadNeitherGivesNorTakes) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 3, 5, 4, 3);
  in.visible.pairs = at::ones({1, 2, 3, 5}, at::kBool);
  in.visible.pairs.select(1, 0).select(2, 4).fill_(false);  // the last key, in the first head
  AttentionInput other = in;
  other.keys = in.keys.clone(), other.values = in.values.clone();
  for (const Tensor* x : {&other.keys, &other.values}) x->select(1, 0).select(1, 4).mul_(-7);
  const auto attention = varied(testing::shape_of(in));
  EXPECT_TRUE(at::equal(attended(*attention, in), attended(*attention, other)));
}

TEST(TalkingHeads, MembersOfAnEnsembleDoNotTalk) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 4, 3, 5, 4, 3);
  AttentionShape shape = testing::shape_of(in);
  shape.members = 2;
  const auto together = varied(shape);
  std::vector<Tensor> apart;
  for (const std::int64_t member : {0, 1}) {
    AttentionInput one = in;
    for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->narrow(1, 2 * member, 2);
    const auto alone = made(testing::shape_of(one));
    const at::NoGradGuard no_gradients;
    for (auto& item : alone->named_parameters()) {
      item.value().copy_(together->named_parameters()[item.key()].narrow(0, 2 * member, 2));
    }
    apart.push_back(attended(*alone, one));
  }
  EXPECT_LT(largest_difference(attended(*together, in), at::cat(apart, 1)), 1e-12);
}

TEST(TalkingHeads, GradientsAreRightTwice) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const auto attention = varied(testing::shape_of(in));
  testing::expect_right_gradients_twice(
      in, [&](const AttentionInput& x) { return attended(*attention, x); },
      attention->parameters());
}

}  // namespace
}  // namespace attnlab::talking_heads_test
