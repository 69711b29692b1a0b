// Entmax attention: 1.5-entmax in place of softmax, with a learned sharpness that grows with n.
//
//   Y = entmax(a_i L) V,   L = Q Kᵀ / √D,   a_i = 1 + β_h log(1 + n_i)^γ_h
//   entmax(z)_j = [z_j / 2 - τ]₊²,   τ such that a row's weights sum to one
//
// n_i is the number of keys that query i may see. Against standard attention: keys that lie far
// below the best have weight exactly zero (no more than one has weight where the best leads by 2),
// so that many useless keys do not take a share each. The sharpness keeps rows from spreading out
// over long inputs; without it (`adaptive: false`) it is plain 1.5-entmax.
// ASEntmax of the paper has a = δ + β (log n)^γ with β = softplus(w_β · x) and γ = s tanh(w_γ · x)
// of the token x, and δ = 1. Here β and γ are one learned number for each head, as in the form
// "learn" of its public code. Its starts are ours (β uniform in [0.1, 1], γ normal with 0.1), and
// so is its log(1 + n). All of a logit is multiplied, also a bias that a model adds.
// Source: Peters, Niculae and Martins 2019, Sparse Sequence-to-Sequence Models, arXiv 1905.05702
// (the exact algorithm, by sorting); Vasylenko et al. 2025, Long-Context Generalization with Sparse
// Attention, arXiv 2506.16640.
// Cost: as standard attention in its explicit form, with O(Lq Lk) memory, and a sort of each row.
#include <cmath>
#include <limits>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

/// Which numbers of each row have weight.
/// @param z  half the logits; finite, without a graph. @returns bool, of its shape.
Tensor entmax_support(const Tensor& z) {
  const Tensor sorted = std::get<0>(z.sort(-1, /*descending=*/true));
  // τ if the k largest have weight; the right k is the last whose k-th number is not below its τ.
  const Tensor k = at::arange(1, z.size(-1) + 1, z.options());
  const Tensor mean = sorted.cumsum(-1) / k;
  const Tensor variance = sorted.square().cumsum(-1) / k - mean.square();
  const Tensor threshold = mean - (1 / k - variance).clamp_min_(0).sqrt_();
  const Tensor size = threshold.le(sorted).sum(-1, /*keepdim=*/true);
  return z.ge(sorted.gather(-1, size - 1));
}

/// 1.5-entmax of each row: zeros where a pair is hidden. Differentiable any number of times: given
/// which weights are not zero, τ is a formula, mean - sqrt(1 / k - variance) of these k numbers.
Tensor entmax_weights(const Tensor& logits, const Tensor& visible) {
  const Tensor hidden = visible.defined() ? visible.logical_not() : Tensor();
  const Tensor seen = visible.defined() ? logits.masked_fill(hidden, -INFINITY) : logits;
  // With the largest number at 0, τ lies in [-1, 0), and nothing below -1 has weight.
  const Tensor top =
      seen.detach().amax(-1, /*keepdim=*/true).clamp_min_(std::numeric_limits<float>::lowest());
  const Tensor z = ((seen - top) / 2).clamp_min(-2);
  const Tensor support = entmax_support(z.detach()).to(z.scalar_type());
  const Tensor k = support.sum(-1, /*keepdim=*/true);
  const Tensor mean = (z * support).sum(-1, /*keepdim=*/true) / k;
  const Tensor variance = ((z - mean).square() * support).sum(-1, /*keepdim=*/true) / k;
  // Never below 1 / k², but by rounding.
  const Tensor threshold = mean - (1 / k - variance).clamp_min(k.square().reciprocal()).sqrt();
  const Tensor weights = (z - threshold).relu().square();
  return visible.defined() ? weights.masked_fill(hidden, 0) : weights;
}

}  // namespace

struct EntmaxOptions {
  bool adaptive = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("adaptive", adaptive,
      "multiply logits by 1 + β log(1 + n)^γ, both learned for each head; false: plain entmax");
  }
};

class Entmax final : public DotProductAttention {
 public:
  Entmax(const EntmaxOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}) {
    if (!options.adaptive) return;
    beta_ = register_parameter("beta", at::empty({shape.heads}).uniform_(0.1, 1));
    gamma_ = register_parameter("gamma", at::empty({shape.heads}).normal_(0, 0.1));
  }

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    if (!beta_.defined()) return entmax_weights(logits, visible);
    return entmax_weights(logits * sharpness(visible_counts(visible, logits)), visible);
  }

 private:
  /// a. @param counts  n, broadcastable to [B, H, Lq, 1]; where 0, taken for 1.
  Tensor sharpness(const Tensor& counts) const {
    const Tensor beta = beta_.to(counts.scalar_type()).view({-1, 1, 1});
    const Tensor gamma = gamma_.to(counts.scalar_type()).view({-1, 1, 1});
    return 1 + beta * counts.clamp_min(1).log1p().pow(gamma);
  }

  Tensor beta_, gamma_;  ///< [H]; undefined: plain entmax
};

ATTNLAB_PLUGIN(attention, Entmax, EntmaxOptions,
               {.id = "attnlab/entmax",
                .version = "1.0.0",
                .summary = "1.5-entmax of (1 + β log(1 + n)^γ) Q Kᵀ / √D: sparse weights",
                .citation = "Peters et al. 2019, Sparse Sequence-to-Sequence Models; Vasylenko et "
                            "al. 2025, Long-Context Generalization with Sparse Attention",
                .licence = "Apache-2.0"})

}  // namespace attnlab
