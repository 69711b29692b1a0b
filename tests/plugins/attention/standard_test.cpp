// Standard attention: softmax(Q K^T / sqrt(D)) V under every rule of the contract.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::standard_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

std::shared_ptr<Attention> standard(const AttentionInput& in, const std::string& options = "{}") {
  return testing::make_attention("standard", testing::shape_of(in), options);
}

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr,
                const std::string& options = "{}") {
  return testing::attended(*standard(in, options), in, trace);
}

TEST(StandardAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive_attention(in, {.scale = 1 / std::sqrt(4.0)});
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, &trace), expected), 1e-10) << name << ", traced";
  }
}

TEST(StandardAttention, DividesByTheRootOfTheHeadsOrOfTheModelsWidth) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 3, 4, 5, 12, 3);
  const Tensor by_head = naive_attention(in, {.scale = 1 / std::sqrt(12.0)});
  const Tensor by_model = naive_attention(in, {.scale = 1 / 6.0});
  EXPECT_LT(largest_difference(attended(in, nullptr, "{scale_by: head_dim}"), by_head), 1e-10);
  EXPECT_LT(largest_difference(attended(in, nullptr, "{scale_by: model_dim}"), by_model), 1e-10);
}

TEST(StandardAttention, GradientsAreRight) {
  at::manual_seed(2);
  const AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  const auto attention = standard(in);
  const auto f = testing::of_tokens(
      in, [&](const AttentionInput& one) { return testing::attended(*attention, one); });
  EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
}

TEST(StandardAttention, IsSharpenedByTheKeysNorm) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 1, 1, 6, 8, 8);
  AttentionTrace trace;
  trace.entropy = true;
  attended(in, &trace);
  in.keys = in.keys * 3;
  attended(in, &trace);
  EXPECT_LT(trace.layers[1].entropy.item<double>(), trace.layers[0].entropy.item<double>());
}

TEST(StandardAttention, DoesNotDependOnTheOrderOfKeys) {
  at::manual_seed(4);
  const AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  AttentionInput turned = in;
  turned.keys = in.keys.flip(2);
  turned.values = in.values.flip(2);
  EXPECT_LT(largest_difference(attended(in), attended(turned)), 1e-12);
}

}  // namespace
}  // namespace attnlab::standard_test
