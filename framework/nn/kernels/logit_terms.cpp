// Terms of logits as operations: see the header.
#include "framework/nn/kernels/logit_terms.h"

#include <cmath>
#include <limits>

#include "framework/nn/kernels/headwise.h"
#include "framework/tensor/by_distance.h"

namespace attnlab {

bool LogitTerms::adds() const {
  return bias.defined() || distance_bias.defined() || query_sums.defined() || key_sums.defined();
}

Tensor LogitTerms::added(std::int64_t keys) const {
  Tensor sum = bias;
  if (distance_bias.defined()) {
    sum = sum_of_given(sum, pairs_of_distances(distance_bias, keys));
  }
  if (!query_sums.defined() && !key_sums.defined()) return sum;
  if (!key_sums.defined()) return sum_of_given(sum, query_sums.unsqueeze(-1));
  const Tensor to_keys = key_sums.unsqueeze(-2);
  // The difference first: both may be large, where it is small.
  return sum_of_given(sum,
                      query_sums.defined() ? query_sums.unsqueeze(-1) - to_keys : to_keys.neg());
}

Tensor capped(const Tensor& logits, double cap) { return (logits / cap).tanh() * cap; }

Tensor softmax_with(const LogitTerms& terms, const Tensor& logits, const Tensor& hidden) {
  Tensor sizes = logits, weights, signs;
  if (terms.signs) {
    signs = logits.detach().sign().masked_fill(logits.detach().abs() < kNoSign, 0);
    sizes = logits * signs;
  }
  if (terms.sink.defined()) {
    // Every row has the sink, so that hidden pairs may be -inf: one column more, then left out.
    if (hidden.defined()) sizes = sizes.masked_fill(hidden, -INFINITY);
    const Tensor column =
        terms.sink.view({1, -1, 1, 1}).expand({logits.size(0), logits.size(1), logits.size(2), 1});
    weights = at::cat({sizes, column}, -1).softmax(-1).narrow(-1, 0, logits.size(3));
  } else {
    constexpr double kBelowAll = std::numeric_limits<float>::lowest();
    if (hidden.defined()) sizes = sizes.masked_fill(hidden, kBelowAll);
    weights = sizes.softmax(-1);
    if (hidden.defined()) weights = weights.masked_fill(hidden, 0);
  }
  return terms.signs ? weights * signs : weights;
}

Tensor sum_of_given(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

}  // namespace attnlab
