// Scalable softmax: logits grow with the logarithm of the number of keys.
//
//   Y = softmax(s_h log(n_i) Q Kᵀ / √D) V
//
// n_i is the number of keys that query i may see, s one learned number for each head and layer.
// Against standard attention: e^z becomes n^(s z), so that a key that leads by more than 1/s keeps
// its weight while keys are added, where softmax spreads out. The paper's variant with a bias,
// s log n + b, is not here: it finds that b harms inputs longer than those of training.
// With one key, log 1 is 0, as in the paper: its weight is 1 whatever its logit, as softmax's.
// The start: 0.168, with which s log n is 1 on average over n = 1, ..., 1024 (in general 1 over the
// mean of log n, log N - 1 for the longest N), so that training begins as softmax's does; the
// paper's figures are drawn with 0.43.
// The factor is a metric of each query, so that the kernels of softmax serve. What a model adds to
// the logits, a bias, is not multiplied.
// Source: Nakanishi 2025, Scalable-Softmax Is Superior for Attention, arXiv 2501.19399.
// Cost: as standard attention, and a pass over the queries.
#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

/// How many keys each query sees: [B or 1, H or 1, Lq or 1, 1], of a ragged batch [1, H or 1, Lq,
/// 1].
Tensor counts_of(const AttentionInput& in) {
  if (!in.visible.ragged()) return visible_counts(in);
  std::vector<Tensor> counts;
  for (std::int64_t t = 0; t + 1 < in.visible.query_offsets.size(0); ++t) {
    const AttentionInput one = sequence_of(in, t);
    counts.push_back(visible_counts(one).expand({-1, -1, one.query_count(), -1}));
  }
  return counts.empty() ? in.queries.new_zeros({1, 1, 0, 1}) : at::cat(counts, 2);
}

}  // namespace

struct SsmaxOptions {
  double start = 0.168;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("start", start, range(0, 100), "initial s");
  }
};

class Ssmax final : public DotProductAttention {
 public:
  Ssmax(const SsmaxOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape),
        s_(register_parameter("s", at::full({shape.heads}, options.start))) {}

 protected:
  Tensor metric(const AttentionInput& input, AttentionContext&) const override {
    const Tensor counts = counts_of(input);
    return counts.clamp_min(1).log() * s_.to(counts.scalar_type()).view({-1, 1, 1});
  }

 private:
  Tensor s_;  ///< [H]
};

ATTNLAB_PLUGIN(attention, Ssmax, SsmaxOptions,
               {.id = "attnlab/ssmax",
                .version = "1.0.0",
                .summary = "softmax(s_h log(n) Q Kᵀ / √D) V, n the number of visible keys",
                .citation = "Nakanishi 2025, Scalable-Softmax Is Superior for Attention, arXiv "
                            "2501.19399",
                .licence = "Apache-2.0"})

}  // namespace attnlab
