// ALiBi: the farther a key, the lower its logit, at a rate that each head has.
//
//   Y = softmax(Q Kᵀ / √D + b) V,   b_ij = -2^(-8h/H) |p_i - p_j|,   h = 1 ... H the head
//
// Nothing is learned. The rates are the paper's formula for any number of heads (its code departs
// from it where that is not a power of two). The paper is causal, with tokens at 0, 1, 2, ...;
// without the causal rule the distance counts both ways, and places of several coordinates are as
// far apart as in space, |p_i - p_j| their Euclidean distance: both ours. In an ensemble each
// member's heads have the same rates. Sequences of a ragged batch are attended one by one, so that
// distances between them are not computed. Source: Press, Smith, Lewis 2022, Train Short, Test
// Long, arXiv:2108.12409, section 3. Cost: as standard attention; where a model gives places also
// the bias, O(H Lq Lk) time and memory.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/modules/places.h"
#include "framework/plugin.h"

namespace attnlab {

class Alibi final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.places = true;
    return traits;
  }();

  Alibi(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.terms = true}, kTraits) {
    const std::int64_t heads = shape.heads / shape.members;
    const Tensor numbers = at::arange(1, heads + 1, at::kDouble);
    slopes_ = at::exp2(numbers * (-8.0 / static_cast<double>(heads)))
                  .repeat({shape.members})
                  .view({1, shape.heads, 1, 1});
  }

 protected:
  LogitTerms terms(const AttentionInput& input, AttentionContext&) const override {
    const at::TensorOptions options = input.queries.options();
    if (!input.query_positions.defined() && !input.key_positions.defined()) {
      // Queries and keys stand at 0, 1, 2, ...: entry Lq - 1 of the table is distance 0.
      const std::int64_t rows = input.query_count(), columns = input.key_count();
      const Tensor distance = at::arange(1 - rows, columns, options).abs();
      return {.distance_bias = distance * slopes_.to(options).neg().squeeze(-1)};
    }
    const Places places(input);
    const Tensor between = places.keys.unsqueeze(1) - places.queries.unsqueeze(2);
    const Tensor distance =
        places.coordinates() == 1 ? between.squeeze(-1).abs() : between.norm(2, -1);
    return {.bias = distance.unsqueeze(1).to(options) * slopes_.to(options).neg()};
  }

 private:
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
