// What holds of every attention at linear cost (framework/nn/attention/linear_attention.h).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_weights.h"

namespace attnlab::testing {

using Attended = std::function<Tensor(const AttentionInput&)>;

/// The linear and the quadratic form.
inline constexpr AttentionKernel kLinearForms[] = {AttentionKernel::own,
                                                   AttentionKernel::explicit_form};

/// It declares what has a linear form, and refuses every other rule.
inline void expect_rules_of_linear_form(const AttentionTraits& has, const Attended& attended) {
  EXPECT_TRUE(has.linear_cost && has.causal && has.padding && has.ragged && has.second_order);
  EXPECT_FALSE(has.bias || has.window || has.pair_mask || has.relative_positions);
  const auto beyond = rules_by(has).beyond;
  EXPECT_GE(beyond.size(), 5u);
  for (const auto& [name, in] : beyond) EXPECT_THROW(attended(in), TraitError) << name;
}

/// Each form, and the traced one, gives what loops give, under every rule that it has.
/// @param traced  attends with a trace
inline void expect_equation_in_every_form(const AttentionTraits& has, const Attended& attended,
                                          const Attended& traced, const Attended& naive) {
  at::manual_seed(1);
  for (const auto& [name, in] : rules_by(has).covered) {
    const Tensor expected = naive(in);
    for (const auto kernel : kLinearForms) {
      const KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(in), expected), 1e-10)
          << name << ", " << name_of(kernel);
    }
    EXPECT_LT(largest_difference(traced(in), expected), 1e-10) << name;
  }
}

/// Both forms agree on sequences longer than a block of the linear one.
inline void expect_forms_agree(const Attended& attended) {
  for (const auto& [queries, keys] :
       {std::pair(150, 150), std::pair(70, 200), std::pair(200, 70)}) {
    AttentionInput in = random_input(2, 2, queries, keys, 8, 5);
    in.visible.key_valid = at::rand({2, keys}) < 0.8;
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      std::vector<Tensor> outputs;
      for (const auto kernel : kLinearForms) {
        const KernelChoice chosen(kernel);
        outputs.push_back(attended(in));
      }
      EXPECT_LT(largest_difference(outputs[0], outputs[1]), 1e-10);
    }
  }
}

/// @returns the output for 1000 tokens in bfloat16, and for the same numbers in double.
inline std::pair<Tensor, Tensor> in_bfloat16_and_double(const Attended& attended, bool causal) {
  AttentionInput in = random_input(1, 1, 1000, 1000, 8, 4), narrow = in;
  for (Tensor AttentionInput::*x :
       {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
    narrow.*x = (in.*x).to(at::kBFloat16);
    in.*x = (narrow.*x).to(at::kDouble);
  }
  in.visible.causal = narrow.visible.causal = causal;
  const Tensor y = attended(narrow);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  return {y, attended(in)};
}

/// The output and its gradients are finite where queries and keys are this large, for one token
/// and for several, in both forms.
inline void expect_finite(double size, const Attended& attended) {
  for (const auto kernel : kLinearForms) {
    const KernelChoice chosen(kernel);
    for (const std::int64_t length : {1, 5}) {
      AttentionInput in = random_input(1, 1, length, length, 4, 4);
      in.queries = (in.queries * size).to(at::kFloat).requires_grad_();
      in.keys = (in.keys * size).to(at::kFloat).requires_grad_();
      in.values = in.values.to(at::kFloat);
      const Tensor y = attended(in);
      y.sum().backward();
      EXPECT_TRUE(y.isfinite().all().item<bool>());
      EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
      EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
    }
  }
}

}  // namespace attnlab::testing
