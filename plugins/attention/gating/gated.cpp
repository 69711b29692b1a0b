// Gated attention: what a head has found passes a gate that the query's token sets.
//
//   Y = softmax(Q Kᵀ / √D) V ⊙ σ(X W)
//
// X is what the queries are projected from. W gives a number for each head and channel of the
// values (`gate: element`, the paper's best) or one for each head (`gate: head`), without a bias,
// and starts small, so that gates start near 1/2. Against standard attention: a head can say
// nothing without a key to put its weights on, and values and the output's map are no longer one
// linear map.
// A trace records weights only where they give the output with the values: the gate of a whole head
// is a factor of its weights, and these sum to the gate; gates of single channels are in no
// weights. Logits are softmax's in both forms, and so is the entropy where there are no weights.
// Source: Qiu et al. 2025, Gated Attention for Large Language Models, arXiv 2505.06708, the gate
// behind the sum of values.
// Cost: as standard attention, and a map of Lq tokens.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

struct GatedOptions {
  std::string gate = "element";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("gate", gate, one_of("element", "head"), "one gate per channel of a head, or one per head");
  }
};

class Gated final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.sources = true;
    return traits;
  }();

  Gated(const GatedOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits),
        by_head_(options.gate == "head"),
        gate_(register_module(
            "gate", std::make_shared<SourceMap>(shape.query_width, by_head_ ? 1 : shape.values(),
                                                shape, 0, /*bias=*/false))) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    const Tensor gate = gate_->forward(input.query_source).sigmoid();
    AttentionTrace* const whole = context.trace;
    if (whole == nullptr) return DotProductAttention::attend(input, context) * gate;
    AttentionTrace own = *whole;
    own.layers.clear();
    own.weights = by_head_ && (whole->weights || whole->entropy);
    own.on_layer = [&](LayerTrace layer) {
      if (layer.weights.defined()) scale_weights(layer, whole->attached ? gate : gate.detach());
      if (!whole->weights) layer.weights = Tensor();
      whole->take(std::move(layer));
    };
    AttentionContext inner = context;
    inner.trace = &own;
    return DotProductAttention::attend(input, inner) * gate;
  }

 private:
  static void scale_weights(LayerTrace& layer, const Tensor& gate) {
    layer.weights = layer.weights * gate;
    if (layer.entropy.defined()) {
      layer.entropy = -at::xlogy(layer.weights, layer.weights).sum(-1);
    }
  }

  bool by_head_;
  std::shared_ptr<SourceMap> gate_;
};

ATTNLAB_PLUGIN(attention, Gated, GatedOptions,
               {.id = "attnlab/gated",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D) V ⊙ σ(X W), a gate from the query's token",
                .citation = "Qiu et al. 2025, Gated Attention for Large Language Models, arXiv "
                            "2505.06708",
                .licence = "Apache-2.0"})

}  // namespace attnlab
