// ReLU attention: weights are rectified logits, squared or not, over the number of keys.
//
//   Y = relu(Q Kᵀ / √D)^p V / n,   p = 2 or 1,   n the number of keys that a query may see
//
// Against standard attention: keys do not compete, weights of negative logits are exactly zero, and
// rows do not sum to one.
// Wortsman et al. divide by the sequence's length, which they find to matter; relu / n is what they
// recommend (`power: 1`), relu² / n is one of the other functions they try. Here hidden keys and
// padding do not count for n, so that padding equals absence and a causal prefix equals the prefix
// alone. The square comes from the feed-forward layer of Primer (So et al. 2021), and FLASH (Hua et
// al. 2022) took it into attention.
// Source: Wortsman et al. 2023, Replacing softmax with ReLU in Vision Transformers, arXiv
// 2309.08586. Cost: as standard attention in its explicit form, with O(Lq Lk) memory.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

struct ReluOptions {
  std::int64_t power = 2;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("power", power, range(1, 2), "of the rectified logits: 2, the square, or 1");
  }
};

class Relu final : public DotProductAttention {
 public:
  Relu(const ReluOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}),
        squares_(options.power == 2) {}

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    const Tensor rectified = logits.relu();
    const Tensor weights =
        (squares_ ? rectified.square() : rectified) / visible_counts(visible, logits).clamp_min_(1);
    return visible.defined() ? weights.masked_fill(visible.logical_not(), 0) : weights;
  }

 private:
  bool squares_;
};

ATTNLAB_PLUGIN(attention, Relu, ReluOptions,
               {.id = "attnlab/relu",
                .version = "1.0.0",
                .summary = "relu(Q Kᵀ / √D)² / n V, or without the square: keys do not compete",
                .citation = "Wortsman et al. 2023, Replacing softmax with ReLU in Vision "
                            "Transformers, arXiv 2309.08586; So et al. 2021, Primer, arXiv "
                            "2109.08668",
                .licence = "Apache-2.0"})

}  // namespace attnlab
