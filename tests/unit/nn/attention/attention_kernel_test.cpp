// Every kernel against the definition, and the choice among them.
#include "framework/nn/attention/attention_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/tensor/torch_compat.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/like_double.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"
#include "tests/support/product_precision.h"

namespace attnlab::attention_kernel_test {
namespace {

using testing::gradient_error;
using testing::KernelChoice;
using testing::largest_difference;
using testing::naive_attention;
using testing::one_input_for_each_rule;
using testing::random_input;
using testing::second_gradient_error;
using testing::shape_of;

/// Softmax attention, as a normaliser of its own where it has a kernel; that one answers with a
/// constant, so that its use shows.
class Counting final : public DotProductAttention {
 public:
  Counting(const AttentionInput& in, bool own)
      : DotProductAttention(
            shape_of(in),
            {.scale = 0.5, .normaliser = own ? Normaliser::custom : Normaliser::softmax}),
        own_(own) {}

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
  return testing::attended(attention, in, trace);
}

bool serves(AttentionKernel kernel, const AttentionInput& in) {
  if (kernel != AttentionKernel::fused) return true;
  return !in.bias.defined() && !in.relative.defined() && fused_attention_serves(in);
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

/// As the published models that ended without numbers: logits beyond 65504 are infinite.
TEST(AttentionKernel, InFloat16TheCpuHasTheExplicitFormAlone) {
  at::manual_seed(3);
  const testing::ProductPrecision narrow(Precision::float16);
  AttentionInput in = random_input(1, 2, 4, 5, 3, 3);
  in.queries = in.queries.to(at::kFloat), in.keys = in.keys.to(at::kFloat);
  in.values = in.values.to(at::kFloat);
  const Tensor found = attended(in);
  EXPECT_LT(largest_difference(found, naive_attention(in, {.scale = 0.5})), 0.01);
  const KernelChoice form(AttentionKernel::explicit_form);
  EXPECT_TRUE(found.equal(attended(in)));
  AttentionInput large = in;
  large.queries = at::full_like(in.queries, 1000), large.keys = at::full_like(in.keys, 1000);
  EXPECT_TRUE(attended(large).isnan().all().item<bool>());
  for (const AttentionKernel other : {AttentionKernel::headwise, AttentionKernel::fused}) {
    const KernelChoice chosen(other);
    EXPECT_THAT(testing::message_of<ConfigError>([&] { attended(in); }),
                ::testing::HasSubstr("it has no products in float16"));
  }
}

TEST(AttentionKernel, EachIsDifferentiableTwice) {
  at::manual_seed(2);
  AttentionInput in = random_input(1, 2, 4, 4, 3, 3);
  in.visible.causal = true;
  const auto f = testing::of_tokens(in, [&](const AttentionInput& one) { return attended(one); });
  for (const AttentionKernel kernel :
       {AttentionKernel::explicit_form, AttentionKernel::fused, AttentionKernel::headwise}) {
    if (!serves(kernel, in)) continue;
    const KernelChoice chosen(kernel);
    EXPECT_LT(gradient_error(f, {in.queries, in.keys, in.values}), 1e-7) << name_of(kernel);
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << name_of(kernel);
  }
}

TEST(AttentionKernel, HeadwiseIsDifferentiableTwiceWhereItGoesBlockByBlock) {
  at::manual_seed(10);
  const auto by = [](AttentionKernel kernel) {
    return [kernel](const std::vector<Tensor>& x) {
      const KernelChoice chosen(kernel);
      AttentionInput in;
      in.queries = x[0], in.keys = x[1], in.values = x[2];
      in.visible.causal = true;
      return attended(in);
    };
  };
  testing::expect_like_double(
      by(AttentionKernel::headwise), by(AttentionKernel::explicit_form),
      {at::randn({1, 2, 330, 8}), at::randn({1, 2, 330, 8}), at::randn({1, 2, 330, 8})}, 1e-5);
}

TEST(AttentionKernel, HeadwiseDifferentiatesBiasAndRelativePositionsTwice) {
  at::manual_seed(8);
  AttentionInput in = random_input(2, 2, 4, 5, 3, 3);
  in.visible.causal = true;
  in.relative.keys = at::randn({2, 8, 3}, at::kDouble);
  in.relative.position_bias = at::randn({2, 3}, at::kDouble);
  in.bias = at::randn({2, 4, 1}, at::kDouble);
  const auto f = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    changed.bias = x[3], changed.relative.keys = x[4], changed.relative.position_bias = x[5];
    return attended(changed);
  };
  const std::vector<Tensor> inputs = {in.queries, in.keys,          in.values,
                                      in.bias,    in.relative.keys, in.relative.position_bias};
  const KernelChoice chosen(AttentionKernel::headwise);
  EXPECT_LT(gradient_error(f, inputs), 1e-7);
  EXPECT_LT(second_gradient_error(f, inputs), 1e-6);
}

/// Softmax attention whose keys come to unit length.
Tensor attended_by_unit_keys(const AttentionInput& in, double eps) {
  class UnitKeyed final : public DotProductAttention {
   public:
    UnitKeyed(const AttentionInput& in, double eps)
        : DotProductAttention(shape_of(in), {.scale = 0.5, .unit_keys = eps}) {}
  } attention(in, eps);
  return testing::attended(attention, in);
}

TEST(AttentionKernel, EachBringsKeysToUnitLength) {
  at::manual_seed(3);
  const double eps = 0.5;  // some keys lie below it, one is zero
  AttentionInput in = random_input(2, 3, 4, 5, 3, 3);
  in.keys.select(2, 1).mul_(0.1);
  in.keys.select(2, 2).zero_();
  in.visible.causal = true;
  const Tensor expected = naive_attention(in, {.scale = 0.5, .unit_keys = true, .eps = eps});
  const auto f = testing::of_tokens(
      in, [&](const AttentionInput& one) { return attended_by_unit_keys(one, eps); });
  for (const AttentionKernel kernel :
       {AttentionKernel::explicit_form, AttentionKernel::fused, AttentionKernel::headwise}) {
    if (!serves(kernel, in)) continue;
    const KernelChoice chosen(kernel);
    EXPECT_LT(largest_difference(attended_by_unit_keys(in, eps), expected), 1e-10);
    EXPECT_LT(gradient_error(f, {in.queries, in.keys, in.values}), 1e-7) << name_of(kernel);
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << name_of(kernel);
  }
}

TEST(AttentionKernel, HeadwiseTakesLongSequencesInBlocks) {
  at::manual_seed(4);
  // 4 MB of logits per head: several blocks of queries, and a last one that is shorter.
  AttentionInput in = random_input(1, 2, 701, 731, 4, 3);
  in.visible.pairs = at::rand({701, 731}) < 0.7;
  in.visible.pairs.select(0, 700).zero_();
  std::vector<Tensor> results[2];
  for (const AttentionKernel kernel : {AttentionKernel::explicit_form, AttentionKernel::headwise}) {
    const KernelChoice chosen(kernel);
    AttentionInput leaves = in;
    for (Tensor* x : {&leaves.queries, &leaves.keys, &leaves.values}) {
      *x = x->detach().clone().requires_grad_();
    }
    const Tensor y = attended_by_unit_keys(leaves, 1e-12);
    std::vector<Tensor>& result = results[kernel == AttentionKernel::headwise ? 1 : 0];
    result = torch::autograd::grad({(y * testing::probe_like(y)).sum()},
                                   {leaves.queries, leaves.keys, leaves.values});
    result.push_back(y);
    result.push_back(attended_by_unit_keys(in, 1e-12));  // without gradients
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_LT(largest_difference(results[0][i], results[1][i]), 1e-12) << i;
  }
}

TEST(AttentionKernel, AMechanismsOwnComesFirst) {
  const AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  EXPECT_EQ(largest_difference(attended(in, true), at::full_like(attended(in), 7)), 0);
  const KernelChoice chosen(AttentionKernel::explicit_form);
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
}  // namespace attnlab::attention_kernel_test
