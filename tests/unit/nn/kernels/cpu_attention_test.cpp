// Gradients of softmax attention that are composed of LibTorch's operations.
#include "framework/nn/kernels/cpu_attention.h"

#include <gtest/gtest.h>

#include "tests/support/naive_attention.h"

namespace attnlab::cpu_attention_test {
namespace {

using testing::largest_difference;

TEST(ComposedGradients, OfNarrowNumbersKnowHiddenPairs) {
  at::manual_seed(20);
  const auto made = [] { return at::randn({1, 2, 5, 4}); };
  const Tensor q = made(), k = made(), v = made(), grad = made();
  ComposedLogits in;
  in.hidden = at::ones({5, 5}, at::kBool).triu(1);
  const ComposedGradients exact = composed_softmax_gradients(q, k, v, grad, in);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const ComposedGradients narrow =
        composed_softmax_gradients(q.to(type), k.to(type), v.to(type), grad.to(type), in);
    EXPECT_EQ(narrow.q.scalar_type(), type);
    EXPECT_LT(largest_difference(narrow.k.to(at::kFloat), exact.k), 0.1);
  }
}

}  // namespace
}  // namespace attnlab::cpu_attention_test
