// Magnitude-aware linear attention (MALA): weights that grow sharper with the length of a query, as
// softmax's do and linear attention's do not.
//
//   y_i = sum_j (β_i s_ij - γ_i) v_j,   s_ij = φ(q_i) · φ(k_j) / (n √D),   φ(x) = elu(x) + 1
//   S_i = sum_j s_ij,   β_i = 1 + 1 / (S_i + 1e-6),   γ_i = S_i / n
//
// n is the number of keys that query i may see. Weights sum to one (but for 1e-6), and some are
// negative: twice as long a φ(q) moves them further from 1 / n, while linear attention divides by
// S, so that the length cancels. The scale of s is that of the public code, where S is a mean.
// Left out of the published layer: rotary positions of φ(q) and φ(k) within s, a convolution of the
// values beside the attention, and a gate on the output. Under the causal rule n and the sums are
// those of the keys up to each query.
// Weights exist under a trace and under attention dropout alone; then the quadratic form is taken.
// Source: Fan et al. 2025, Rectifying Magnitude Neglect in Linear Attention, ICCV (arXiv
// 2507.00698), and its public code.
// Cost: O((Lq + Lk) D Dv), causal or not (framework/nn/attention/linear_attention.h); the memory of
// earlier tokens is [B, H, D + 1, Dv + 1].
#include <cmath>

#include "framework/nn/attention/feature_attention.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

class Mala final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = FeatureAttention::kTraits;

  Mala(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}, kTraits) {}

  bool remembers() const override { return true; }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return elu_plus_one(queries);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return elu_plus_one(keys);
  }

  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    const Tensor counts = visible_counts(visible, logits).clamp_min(1);
    const Tensor hidden = visible.defined() ? visible.logical_not() : Tensor();
    const Tensor scores = (hidden.defined() ? logits.masked_fill(hidden, 0) : logits) / counts;
    const Tensor total = scores.sum(-1, /*keepdim=*/true);
    const Tensor weights = scores * factor(total) - total / counts;
    return hidden.defined() ? weights.masked_fill(hidden, 0) : weights;
  }

  Tensor own_kernel(const Tensor& queries, const Tensor& keys, const AttentionInput& input,
                    AttentionContext&) const override {
    const Tensor values = with_ones(input.values);
    return combined(linear_sums(queries, keys, values, input.visible),
                    linear_sums(ones_for(queries), ones_for(keys), values, input.visible));
  }

  Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                       AttentionContext&) override {
    const std::int64_t channels = shape().head_dim;
    const std::int64_t sizes[] = {input.batch(), input.heads(), channels + 1, shape().values() + 1};
    const Tensor kept = only_part(memory, sizes);
    Tensor weighed = kept.defined() ? kept.narrow(2, 0, channels) : kept;
    Tensor plain = kept.defined() ? kept.narrow(2, channels, 1) : kept;
    const double scale = 1 / std::sqrt(static_cast<double>(channels));
    const Tensor queries = elu_plus_one(input.queries) * scale, keys = elu_plus_one(input.keys);
    const Tensor values = with_ones(input.values);
    const Tensor sums = linear_sums_behind(queries, keys, values, weighed);
    const Tensor all = linear_sums_behind(ones_for(queries), ones_for(keys), values, plain);
    memory.parts = {at::cat({weighed, plain}, 2)};
    return combined(sums, all);
  }

 private:
  /// β of S.
  static Tensor factor(const Tensor& total) { return 1 + (total + 1e-6).reciprocal(); }

  /// One channel of ones for each token.
  static Tensor ones_for(const Tensor& x) { return at::ones_like(x.narrow(3, 0, 1)); }

  /// @param weighed  sums of n s_ij [v_j, 1], [B, H, Lq, Dv + 1]
  /// @param plain    sums of [v_j, 1]
  static Tensor combined(const Tensor& weighed, const Tensor& plain) {
    const std::int64_t channels = weighed.size(3) - 1;
    const Tensor counts = plain.narrow(3, channels, 1).clamp_min(1);
    const Tensor sums = weighed / counts, total = sums.narrow(3, channels, 1);
    return sums.narrow(3, 0, channels) * factor(total) -
           total * (plain.narrow(3, 0, channels) / counts);
  }
};

ATTNLAB_PLUGIN(
    attention, Mala, NoOptions,
    {.id = "attnlab/mala",
     .version = "1.0.0",
     .summary = "β φ(Q) (φ(K)ᵀ V) - γ sum of V: linear, sharper for queries of larger norm",
     .citation = "Fan et al. 2025, Rectifying Magnitude Neglect in Linear Attention, "
                 "ICCV, arXiv 2507.00698",
     .licence = "Apache-2.0"})

}  // namespace attnlab
