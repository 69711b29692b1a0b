// Attention with soft-capped logits: none is above a bound, and none stops learning at it.
//
//   Y = softmax(c tanh(Q Kᵀ / (c √D))) V
//
// Against standard attention: logits lie within (-c, c), so that large ones cannot take over, and
// small ones stay as they are. The cap comes before what is added to the logits, a mask or a bias
// that a model gives (Gemma 2's order); relative positions of the model's own are within it.
// Source: Gemma Team 2024, Gemma 2: Improving Open Language Models at a Practical Size,
// arXiv:2408.00118, section 2, with c = 50 for its attention layers. Cost: as standard attention,
// and a tanh for each pair.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct SoftCapOptions {
  double cap = 50;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("cap", cap, range(1e-3, 1e6), "c: upper bound of scaled logits");
  }
};

class SoftCap final : public DotProductAttention {
 public:
  SoftCap(const SoftCapOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.terms = true}), cap_(options.cap) {}

 protected:
  LogitTerms terms(const AttentionInput&, AttentionContext&) const override {
    return {.cap = cap_};
  }

 private:
  double cap_;
};

ATTNLAB_PLUGIN(attention, SoftCap, SoftCapOptions,
               {.id = "attnlab/soft_cap",
                .version = "1.0.0",
                .summary = "softmax(c tanh(Q Kᵀ / (c √D))) V: logits stay below a bound",
                .citation = "Gemma Team 2024, Gemma 2: Improving Open Language Models at a "
                            "Practical Size, arXiv 2408.00118",
                .licence = "Apache-2.0"})

}  // namespace attnlab
