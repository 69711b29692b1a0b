// Entmax attention: 1.5-entmax of (1 + β log(1 + n)^γ) L.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::entmax_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

constexpr const char* kPlain = "{adaptive: false}";

std::shared_ptr<Attention> built(const AttentionInput& in, const std::string& options = "{}") {
  auto attention = testing::make_attention("entmax", testing::shape_of(in), options);
  attention->to(at::kDouble);
  return attention;
}

Tensor traced_weights(Attention& attention, const AttentionInput& in) {
  AttentionTrace trace;
  trace.weights = true;
  attended(attention, in, &trace);
  return trace.layers[0].weights;
}

/// τ with Σ [z / 2 - τ]₊² = 1, by halving an interval that holds it.
double naive_threshold(const Row& z) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double v : z) top = std::max(top, v / 2);
  double low = top - 1, high = top;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double v : z) sum += std::pow(std::max(v / 2 - middle, 0.0), 2);
    (sum > 1 ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// @param beta, gamma  of each head
Tensor naive(const AttentionInput& in, const Row& beta, const Row& gamma) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(logits);
  const auto l = logits.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  auto to = weights.accessor<double, 4>();
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    const double n = testing::naive_count(visible, b, h, i);
    const auto head = static_cast<std::size_t>(h);
    const double sharpness = 1 + beta[head] * std::pow(std::log(1 + n), gamma[head]);
    Row z;
    for (Index k = 0; k < logits.size(3); ++k) {
      if (sees[b][h][i][k]) z.push_back(sharpness * l[b][h][i][k]);
    }
    const double above = sharpness * l[b][h][i][j] / 2 - naive_threshold(z);
    to[b][h][i][j] = std::pow(std::max(above, 0.0), 2);
  });
  return testing::weighed(weights, in.values);
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const auto learned = attention.named_parameters();
  return naive(in, testing::row(learned["beta"]), testing::row(learned["gamma"]));
}

TEST(EntmaxAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = built(in);
    const Tensor expected = naive(*attention, in);
    testing::expect_attended(*attention, in, expected, name);
    EXPECT_LT(largest_difference(attended(*built(in, kPlain), in), naive(in, {0, 0}, {0, 0})),
              1e-10)
        << name;
  }
}

TEST(EntmaxAttention, LearnsASharpnessOfEachHeadUnlessItIsPlain) {
  at::manual_seed(2);
  const AttentionInput in = random_input(1, 3, 2, 2, 4, 4);
  const auto learned = built(in)->named_parameters();
  ASSERT_EQ(learned.size(), 2u);
  EXPECT_EQ(learned["beta"].sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(learned["gamma"].sizes(), at::IntArrayRef({3}));
  EXPECT_GE(learned["beta"].min().item<double>(), 0.1);
  EXPECT_LE(learned["beta"].max().item<double>(), 1);
  EXPECT_EQ(testing::parameter_count(*built(in, kPlain)), 0);
}

TEST(EntmaxAttention, WeightsSumToOneAndManyAreExactlyZero) {
  at::manual_seed(3);
  const AttentionInput in = random_input(2, 2, 20, 200, 16, 3);
  for (const std::string options : {"{}", kPlain}) {
    const Tensor weights = traced_weights(*built(in, options), in);
    EXPECT_LT((weights.sum(-1) - 1).abs().max().item<double>(), 1e-12);
    EXPECT_GE(weights.min().item<double>(), 0);
    EXPECT_GT(weights.eq(0).sum().item<double>(), 0.5 * static_cast<double>(weights.numel()));
  }
}

TEST(EntmaxAttention, AKeyThatLeadsByTwoTakesAllAndEqualKeysShare) {
  AttentionInput in = random_input(1, 1, 1, 3, 1, 1);
  in.queries.fill_(1);
  const auto attention = built(in, kPlain);
  const auto weights = [&](const std::vector<double>& logits) {
    in.keys = at::tensor(logits, at::kDouble).view({1, 1, 3, 1});
    return testing::row(traced_weights(*attention, in));
  };
  EXPECT_EQ(weights({7, 5, 4}), Row({1, 0, 0}));
  const Row halves = weights({4, 4, 2});  // τ is 2 - √½, above 2 / 2
  for (const std::size_t j : {0, 1}) EXPECT_NEAR(halves[j], 0.5, 1e-15);
  EXPECT_EQ(halves[2], 0);
  for (const double weight : weights({-3, -3, -3})) EXPECT_NEAR(weight, 1.0 / 3, 1e-15);
  // Half the logits are 0.5 and 0, with a mean of 1/4 and a variance of 1/16.
  const double tau = 0.25 - std::sqrt(1.0 / 2 - 1.0 / 16);
  const Row two = weights({1, 0, -9});
  EXPECT_NEAR(two[0], std::pow(0.5 - tau, 2), 1e-14);
  EXPECT_NEAR(two[1], tau * tau, 1e-14);
  EXPECT_EQ(two[2], 0);
}

TEST(EntmaxAttention, GrowsSharperWithTheNumberOfKeys) {
  AttentionInput in = random_input(1, 1, 1, 2, 1, 1);
  const auto attention = built(in);
  {
    const at::NoGradGuard no_gradients;
    attention->named_parameters()["beta"].fill_(0.5);
    attention->named_parameters()["gamma"].fill_(1);
  }
  in.queries.fill_(1);
  // One key leads by 0.4. Alone with another it does not take all, among 1000 equal ones it does.
  const auto first_weight = [&](std::int64_t keys) {
    in.keys = at::zeros({1, 1, keys, 1}, at::kDouble);
    in.keys[0][0][0][0] = 0.4;
    in.values = at::zeros({1, 1, keys, 1}, at::kDouble);
    return traced_weights(*attention, in)[0][0][0][0].item<double>();
  };
  EXPECT_LT(first_weight(2), 0.9);
  EXPECT_GT(first_weight(100000), 0.99);
}

TEST(EntmaxAttention, StaysRightForLargeLogits) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 6, 50, 4, 3);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = (*x * 100).to(at::kFloat);
  in.queries.requires_grad_();
  const auto attention = testing::make_attention("entmax", testing::shape_of(in));
  const Tensor out = attended(*attention, in);
  EXPECT_LT((traced_weights(*attention, in).sum(-1) - 1).abs().max().item<double>(), 1e-5);
  EXPECT_TRUE(out.isfinite().all().item<bool>());
  out.sum().backward();
  EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
}

TEST(EntmaxAttention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 3, 5, 3, 2);
  for (const std::string options : {"{}", kPlain}) {
    const auto attention = built(in, options);
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      const auto f = testing::of_tokens(
          in, [&](const AttentionInput& one) { return attended(*attention, one); });
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7) << options;
      EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6)
          << options;
      if (options == kPlain) continue;
      EXPECT_LT(testing::leaf_gradient_error([&] { return attended(*attention, in); },
                                             attention->parameters()),
                1e-7);
    }
  }
}

}  // namespace
}  // namespace attnlab::entmax_test
