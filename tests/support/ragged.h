// Sequences laid end to end, which must not see each other.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/naive_attention.h"

namespace attnlab::testing {

/// Two sequences of 3 and 4 tokens in one input give what each gives by itself.
/// @param attended  of the two  @param alone  of one of them
inline void expect_sequences_apart(bool causal,
                                   const std::function<Tensor(const AttentionInput&)>& attended,
                                   const std::function<Tensor(const AttentionInput&)>& alone) {
  AttentionInput in = random_input(1, 2, 7, 7, 4, 4);
  in.visible.causal = causal;
  std::vector<Tensor> separate;
  for (const auto& [first, length] : {std::pair(0, 3), std::pair(3, 4)}) {
    AttentionInput one = in;
    for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->narrow(2, first, length);
    separate.push_back(alone(one));
  }
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3, 7}, at::kLong);
  EXPECT_LT(largest_difference(attended(in), at::cat(separate, 2)), 1e-10);
}

}  // namespace attnlab::testing
