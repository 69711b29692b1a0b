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

/// How many keys each query of one sequence sees: [B or 1, H or 1, Lq or 1, 1] in the queries'
/// dtype. Without a pair mask, no tensor of all pairs is formed.
Tensor counts_of_sequence(const AttentionInput& in) {
  const Visibility& visible = in.visible;
  const std::int64_t rows = in.query_count(), columns = in.key_count();
  const at::Device device = in.queries.device();
  if (visible.pairs.defined() || !(visible.causal || visible.window > 0)) {
    return visible_counts(visible_pairs(visible, rows, columns, device),
                          in.queries.new_empty({0, columns}));
  }
  // Query i sees keys [first, end); the last query stands at the last key.
  const Tensor place =
      at::arange(columns - rows, columns, at::TensorOptions().dtype(at::kLong).device(device));
  Tensor first = at::zeros_like(place), end = at::full_like(place, columns);
  if (visible.window > 0) {
    first = (place - (visible.window - 1)).clamp_(0, columns);
    end = (place + visible.window).clamp_(0, columns);
  }
  if (visible.causal) end = at::minimum(end, (place + 1).clamp_min_(0));
  Tensor counts = (end - first).unsqueeze(0);
  if (visible.key_valid.defined()) {
    const Tensor before = at::constant_pad_nd(visible.key_valid.cumsum(1), {1, 0});
    counts = before.index_select(1, end) - before.index_select(1, first);
  }
  return counts.unsqueeze(1).unsqueeze(-1).to(in.queries.scalar_type());
}

/// The same for any batch; in a ragged one [1, H or 1, Lq, 1].
Tensor counts_of(const AttentionInput& in) {
  if (!in.visible.ragged()) return counts_of_sequence(in);
  std::vector<Tensor> counts;
  for (std::int64_t t = 0; t + 1 < in.visible.query_offsets.size(0); ++t) {
    const AttentionInput one = sequence_of(in, t);
    counts.push_back(counts_of_sequence(one).expand({-1, -1, one.query_count(), -1}));
  }
  return counts.empty() ? in.queries.new_zeros({1, 1, 0, 1}) : at::cat(counts, 2);
}

}  // namespace

struct SsmaxOptions {
  double start = 0.168;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("start", start, range(0, 100), "s at the start");
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
