// Every kernel against the definition, and the choice among them.
#include "framework/nn/attention_kernel.h"

#include <gtest/gtest.h>

#include "framework/nn/dot_product_attention.h"
#include "framework/nn/torch_compat.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_attention.h"

namespace attnlab {
namespace {

using testing::gradient_error;
using testing::KernelChoice;
using testing::largest_difference;
using testing::naive_attention;
using testing::one_input_for_each_rule;
using testing::random_input;
using testing::second_gradient_error;

AttentionShape shape_of(const AttentionInput& in) {
  AttentionShape shape;
  shape.heads = in.heads();
  shape.head_dim = in.queries.size(3);
  shape.value_dim = in.values.size(3);
  return shape;
}

/// Softmax attention; its own kernel answers with a constant, so that its use shows.
class Counting final : public DotProductAttention {
 public:
  Counting(const AttentionInput& in, bool own)
      : DotProductAttention(shape_of(in), {.scale = 0.5}), own_(own) {}

 protected:
  Tensor own_kernel(const Tensor& queries, const Tensor&, const AttentionInput& in,
                    AttentionContext&) const override {
    if (!own_) return {};
    return at::full({in.batch(), in.heads(), queries.size(2), in.values.size(3)}, 7,
                    in.values.options());
  }

 private:
  bool own_;
};

Tensor attended(const AttentionInput& in, bool own = false, AttentionTrace* trace = nullptr) {
  Counting attention(in, own);
  AttentionContext context;
  context.trace = trace;
  return attention.forward(in, context);
}

bool serves(AttentionKernel kernel, const AttentionInput& in) {
  if (kernel == AttentionKernel::explicit_form) return true;
  if (in.bias.defined() || in.relative.defined()) return false;
  return kernel == AttentionKernel::headwise || fused_attention_serves(in);
}

TEST(AttentionKernel, EachEqualsTheDefinitionUnderEveryRuleItServesAndRefusesTheOthers) {
  at::manual_seed(1);
  for (const AttentionKernel kernel :
       {AttentionKernel::explicit_form, AttentionKernel::fused, AttentionKernel::headwise}) {
    const KernelChoice chosen(kernel);
    for (const auto& [name, in] : one_input_for_each_rule()) {
      if (!serves(kernel, in)) {
        EXPECT_THROW(attended(in), ConfigError) << name_of(kernel) << ", " << name;
        continue;
      }
      EXPECT_LT(largest_difference(attended(in), naive_attention(in, {.scale = 0.5})), 1e-10)
          << name_of(kernel) << ", " << name;
    }
  }
}

TEST(AttentionKernel, EachIsDifferentiableTwice) {
  at::manual_seed(2);
  AttentionInput in = random_input(1, 2, 4, 4, 3, 3);
  in.visible.causal = true;
  const auto f = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    return attended(changed);
  };
  for (const AttentionKernel kernel :
       {AttentionKernel::explicit_form, AttentionKernel::fused, AttentionKernel::headwise}) {
    if (!serves(kernel, in)) continue;
    const KernelChoice chosen(kernel);
    EXPECT_LT(gradient_error(f, {in.queries, in.keys, in.values}), 1e-7) << name_of(kernel);
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << name_of(kernel);
  }
}

TEST(AttentionKernel, AMechanismsOwnComesFirst) {
  const AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  EXPECT_EQ(largest_difference(attended(in, true), at::full_like(attended(in), 7)), 0);
  const KernelChoice chosen(AttentionKernel::headwise);
  EXPECT_LT(largest_difference(attended(in, true), naive_attention(in, {.scale = 0.5})), 1e-10);
}

TEST(AttentionKernel, AMechanismsOwnIsNotAskedWhereWeightsAreNeeded) {
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  AttentionTrace trace;
  const Tensor expected = naive_attention(in, {.scale = 0.5});
  EXPECT_LT(largest_difference(attended(in, true, &trace), expected), 1e-10);
  in.bias = at::zeros({3, 4}, at::kDouble);
  EXPECT_LT(largest_difference(attended(in, true), expected), 1e-10);
}

TEST(AttentionKernel, OwnIsAnErrorWhereThereIsNone) {
  const KernelChoice chosen(AttentionKernel::own);
  const AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  EXPECT_NO_THROW(attended(in, true));
  try {
    attended(in, false);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ATTNLAB_ATTENTION_KERNEL"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("Counting"), std::string::npos) << error.what();
  }
}

TEST(AttentionKernel, TheFusedOneIsLibTorchs) {
  const AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  EXPECT_EQ(fused_attention_serves(in), compat::kHasFusedAttention);
  AttentionInput padded = in;
  padded.visible.key_valid = at::ones({1, 4}, at::kBool);
  EXPECT_FALSE(fused_attention_serves(padded)) << "a row that sees nothing would be NaN";
}

}  // namespace
}  // namespace attnlab
