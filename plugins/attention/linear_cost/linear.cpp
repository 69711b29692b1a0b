// Linear attention: a feature map in place of the exponential, so that sums over keys come first.
//
//   y_i = φ(q_i) (sum_j φ(k_j) v_jᵀ) / (φ(q_i) · sum_j φ(k_j) + eps),   φ(x) = elu(x) + 1
//
// Against standard attention: the weights φ(q_i)·φ(k_j) / sum are a kernel of rank D, and no n x n
// matrix is made. Differences between the sources: φ on queries and keys (the original work, and
// the robustness paper's code; the default) or on queries alone (that paper's equation 6:
// `feature_map: queries`); eps (in equation 6; the public code has none: 0, where a row whose
// weights sum to 0 gives zeros instead of NaN). Keys without φ may have weights of both signs.
// Weights exist under a trace and under attention dropout alone; then the quadratic form is taken.
// Source: Katharopoulos et al. 2020; "Your attention matters", 2025, equation 6.
// Cost: O((Lq + Lk) D Dv), causal or not (framework/nn/attention/linear_attention.h).
#include <ATen/OpMathType.h>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct LinearAttentionOptions {
  std::string feature_map = "both";
  double eps = 1e-6;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("feature_map", feature_map, one_of("both", "queries"),
      "elu + 1 on queries and keys (the code), or on queries alone (the paper's equation)");
    v("eps", eps, range(0, 1), "added to the sum of a query's weights");
  }
};

class LinearAttention final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits{.causal = true,
                                           .padding = true,
                                           .ragged = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .second_order = true,
                                           .linear_cost = true};

  LinearAttention(const LinearAttentionOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .normaliser = Normaliser::custom}, kTraits),
        maps_keys_(options.feature_map == "both"),
        eps_(options.eps) {}

  bool remembers() const override { return true; }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return feature(queries);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return maps_keys_ ? feature(keys) : keys;
  }

  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    const Tensor weights =
        visible.defined() ? logits.masked_fill(visible.logical_not(), 0) : logits;
    const Tensor total = weights.sum(-1, true, at::toOpMathType(logits.scalar_type()));
    return (weights / divisor(total)).to(logits.scalar_type());
  }

  Tensor own_kernel(const Tensor& queries, const Tensor& keys, const AttentionInput& input,
                    AttentionContext&) const override {
    return divided(linear_sums(queries, keys, with_ones(input.values), input.visible),
                   input.values);
  }

  /// The memory is Σ φ(k) [v, 1]ᵀ, [B, H, D, Dv + 1].
  Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                       AttentionContext& context) override {
    const std::int64_t sizes[] = {input.batch(), input.heads(), shape().head_dim,
                                  shape().values() + 1};
    Tensor state = only_part(memory, sizes);
    const Tensor sums =
        linear_sums_behind(map_queries(input.queries, context), map_keys(input.keys, context),
                           with_ones(input.values), state);
    memory.parts = {state};
    return divided(sums, input.values);
  }

 private:
  /// elu(x) + 1, that is exp(min(x, 0)) + max(x, 0), without elu's loss of digits near -1.
  static Tensor feature(const Tensor& x) { return x.clamp_max(0).exp_() + x.relu(); }

  static Tensor with_ones(const Tensor& values) {
    const Tensor ones = at::ones({1, 1, 1, 1}, values.options())
                            .expand({values.size(0), values.size(1), values.size(2), 1});
    return at::cat({values, ones}, -1);
  }

  /// @param sums  of values, and of ones at the end
  Tensor divided(const Tensor& sums, const Tensor& values) const {
    const std::int64_t channels = values.size(3);
    return (sums.narrow(3, 0, channels) / divisor(sums.narrow(3, channels, 1)))
        .to(values.scalar_type());
  }

  Tensor divisor(const Tensor& total) const {
    return eps_ > 0 ? total + eps_ : total.masked_fill(total == 0, 1);
  }

  bool maps_keys_;
  double eps_;
};

ATTNLAB_PLUGIN(attention, LinearAttention, LinearAttentionOptions,
               {.id = "attnlab/linear",
                .version = "1.0.0",
                .summary = "φ(Q) (φ(K)ᵀ V) over its row sums, φ = elu + 1, at linear cost",
                .citation = "Katharopoulos et al., Transformers are RNNs, ICML 2020; Your "
                            "attention matters, 2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
