// The diagonal metric of Elliptical attention: M from how much each coordinate of the values
// changed since the previous layer.
//
//   r_c = average over tokens j of |v^l_jc - v^(l-1)_jc|,   M = diag(r / max_c r),   no gradient
//
// for each example and head. M = 1 in the first layer, and where nothing changed. The published
// step width divides r and cancels.
//
// Against the published code: there the average runs over all tokens. Under a causal rule that
// tells a query about the future, and in padded batches it would count padding. Here each query
// averages over the keys that it may see, so that M differs between queries where visibility does.
// Source: Nielsen et al., Elliptical Attention, NeurIPS 2024, and its public code.
// Cost: O(L D) where visibility is one for all queries; else O(Lq Lk D), one more matrix product
// of attention's size for the mean, and as many element-wise steps for the median.
#pragma once

#include <string>

#include "framework/config/options.h"
#include "framework/contracts/attention.h"

namespace attnlab {

struct EllipticalOptions {
  std::string average = "mean";
  std::string evaluation_average = "same";
  bool causal_leak = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("average", average, one_of("mean", "median"),
      "how the changes of the tokens' values are averaged; median: the lower of two middle ones");
    v("evaluation_average", evaluation_average, one_of("same", "mean", "median"),
      "the average in evaluation; the published evaluation and attack scripts take the median");
    v("causal_leak", causal_leak,
      "average over all tokens, also those that a query may not see (the published code); false: "
      "over the visible ones");
  }
};

/// Estimates M for one layer, from its values and those that the previous layer left in the
/// context's ForwardState. A stack needs a state of its own, in which its layers come as
/// 0, 1, 2, ..., each once.
class EllipticalMetric {
 public:
  /// @throws ConfigError when values are not as wide as queries and keys: M has an entry for each
  /// of the values' coordinates and weighs those of queries and keys.
  EllipticalMetric(const EllipticalOptions& options, const AttentionShape& shape);

  /// What `DotProductAttention::metric` returns.
  /// @returns undefined for M = 1, in a layer without a predecessor in the state; else without
  ///   gradient, in the queries' dtype, [B, H, 1, D] where all queries see the same keys (with
  ///   `causal_leak`: all real keys of their sequence), [B, H, Lq, D] where they do not. A query
  ///   that sees nothing has M = 1.
  /// @throws ShapeError when the previous layer's values have another shape.
  /// @throws ConfigError when the state's last layer is not the one before this.
  Tensor operator()(const AttentionInput& input, AttentionContext& context, bool training) const;

 private:
  bool training_median_, evaluation_median_, causal_leak_;
  bool side_by_side_;  ///< heads of several members: their padding comes as pairs, by head
  bool last_;          ///< of its stack: nobody needs its values
};

}  // namespace attnlab
