// ALiBi: the farther a key, the lower its logit, at a rate that each head has.
//
//   Y = softmax(Q Kᵀ / √D + b) V,   b_ij = -2^(-8h/H) |p_i - p_j|,   h = 1 ... H the head
//
// Nothing is learned. The rates are the paper's formula for any number of heads (its code departs
// from it where that is no power of two). The paper is causal, with tokens at 0, 1, 2, ...; without
// the causal rule the distance counts both ways, and places of several coordinates are as far apart
// as in space, |p_i - p_j| their Euclidean distance: both ours. In an ensemble each member's heads
// have the same rates. Sequences of a ragged batch are attended one by one, so that distances
// between them are not computed.
// Source: Press, Smith, Lewis 2022, Train Short, Test Long, arXiv:2108.12409, section 3.
// Cost: as standard attention, and the bias: O(H Lq Lk) time and memory.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/places.h"
#include "framework/plugin.h"

namespace attnlab {

class Alibi final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.places = true;
    return traits;
  }();

  Alibi(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape, {}, kTraits) {
    const std::int64_t heads = shape.heads / shape.members;
    const Tensor numbers = at::arange(1, heads + 1, at::kDouble);
    slopes_ = at::exp2(numbers * (-8.0 / static_cast<double>(heads)))
                  .repeat({shape.members})
                  .view({1, shape.heads, 1, 1});
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (!input.visible.ragged()) return attend_biased(input, context);
    const std::int64_t sequences = input.visible.query_offsets.size(0) - 1;
    // Without sequences there is nothing to attend to, and traces of ragged batches are refused.
    if (sequences == 0 || context.trace != nullptr) {
      return DotProductAttention::attend(input, context);
    }
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < sequences; ++t) {
      outputs.push_back(attend_biased(sequence_of(input, t), context));
    }
    return at::cat(outputs, 2);
  }

 private:
  /// b, [B or 1, H, Lq, Lk].
  Tensor bias_of(const AttentionInput& input) const {
    const Places places(input);
    const Tensor between = places.keys.unsqueeze(1) - places.queries.unsqueeze(2);
    const Tensor distance =
        places.coordinates() == 1 ? between.squeeze(-1).abs() : between.norm(2, -1);
    const at::TensorOptions options = input.queries.options();
    return distance.unsqueeze(1).to(options) * slopes_.to(options).neg();
  }

  Tensor attend_biased(const AttentionInput& input, AttentionContext& context) {
    return attend_with_bias(input, bias_of(input), context);
  }

  Tensor slopes_;  ///< [1, H, 1, 1] float64
};

ATTNLAB_PLUGIN(attention, Alibi, NoOptions,
               {.id = "attnlab/alibi",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D - slope distance) V, a slope for each head",
                .citation = "Press, Smith, Lewis, Train Short, Test Long, ICLR 2022, "
                            "arXiv:2108.12409",
                .licence = "Apache-2.0"})

}  // namespace attnlab
