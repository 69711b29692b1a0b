// An attention as a function of its input, and the gradients of one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/contracts/attention.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"

namespace attnlab::testing {

/// What an attention that stands alone gives.
inline Tensor attended(Attention& attention, const AttentionInput& in,
                       AttentionTrace* trace = nullptr) {
  AttentionContext context;
  context.trace = trace;
  return attention.forward(in, context);
}

/// Fails where the attention gives something else than `expected`, recorded or not.
inline void expect_attended(Attention& attention, const AttentionInput& in, const Tensor& expected,
                            const std::string& name) {
  EXPECT_LT(largest_difference(attended(attention, in), expected), 1e-10) << name;
  AttentionTrace trace;
  EXPECT_LT(largest_difference(attended(attention, in, &trace), expected), 1e-10)
      << name << ", traced";
}

/// `attend` of `in` with other queries, keys and values: these three, in this order.
template <class Attend>
Differentiable of_tokens(const AttentionInput& in, const Attend& attend) {
  return [in, attend](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    return attend(changed);
  };
}

/// Fails where gradients of queries, keys and values, theirs again, or those of the parameters
/// differ from central differences, without and with the causal rule.
template <class Attend>
void expect_right_gradients_twice(AttentionInput in, const Attend& attend,
                                  const std::vector<Tensor>& parameters = {}) {
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    const Differentiable f = of_tokens(in, attend);
    EXPECT_LT(gradient_error(f, {in.queries, in.keys, in.values}), 1e-7) << causal;
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << causal;
    if (parameters.empty()) continue;
    EXPECT_LT(leaf_gradient_error([&] { return attend(in); }, parameters), 1e-7) << causal;
  }
}

}  // namespace attnlab::testing
