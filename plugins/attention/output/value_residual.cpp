// Value residual: each layer's values are mixed with those of the first layer of its stack.
//
//   Y = softmax(Q Kᵀ / √D) (λ₁ V_l + λ₂ V_1),   λ₁ = λ₂ = 0.5
//
// Against standard attention: what a token was at first stays within reach of deep layers without
// passing the residual stream. With `learned`, λ₁ and λ₂ are two learned numbers of each layer that
// start at 0.5; without, they stay there, as in the public code. V_1 are the values as the first
// layer projects them, and gradients flow into them.
// The first layer of a stack, and a layer that stands alone, is standard attention. In a stack of
// several mechanisms, the first layer with this one gives V_1; it learns no factors.
// A trace records weights in the first layer alone: the others' do not give the output with the
// layer's own values. Logits and entropy are there in all.
// Source: Zhou et al. 2024, Value Residual Learning, arXiv 2410.17897 (ResFormer). Cost: as
// standard attention, and a pass over the values; V_1 is kept during the forward pass.
#include <fmt/format.h>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/unrecorded_weights.h"
#include "framework/nn/modules/members.h"
#include "framework/plugin.h"

namespace attnlab {

struct ValueResidualOptions {
  bool learned = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("learned", learned, "learn both factors of each layer, starting at 0.5; false: both are 0.5");
  }
};

/// What the layers so far have left in the context's ForwardState.
struct ValueResidualState {
  std::int64_t layer = 0;  ///< the last that came
  Tensor values;           ///< V_1 with its graph; undefined: no layer has come
  void each(const TensorVisit& visit) { visit(values); }
};

class ValueResidual final : public DotProductAttention {
 public:
  ValueResidual(const ValueResidualOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape) {
    if (!options.learned || shape.layer == shape.first_layer) return;
    own_ = register_parameter("own", at::full({shape.members}, 0.5));
    first_ = register_parameter("first", at::full({shape.members}, 0.5));
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (context.state == nullptr) return DotProductAttention::attend(input, context);
    const Tensor first =
        first_values(context.state->of<ValueResidualState>(), input.values, context.layer);
    if (!first.defined()) return DotProductAttention::attend(input, context);
    const UnrecordedWeights unrecorded(context.trace);
    AttentionInput mixed = input;
    mixed.values = own_.defined() ? input.values * by_head(own_) + first * by_head(first_)
                                  : (input.values + first) * 0.5;
    return DotProductAttention::attend(mixed, context);
  }

 private:
  /// V_1; undefined for the layer that gives it.
  static Tensor first_values(ValueResidualState& state, const Tensor& values, std::int64_t layer) {
    if (!state.values.defined()) {
      state = {layer, values};
      return {};
    }
    if (layer <= state.layer) {
      throw ConfigError(
          fmt::format("value residual attention: layer {} came after layer {}, but it takes values "
                      "of the first layer of its own stack; the model must give each stack of "
                      "layers, and each forward pass, a ForwardState of its own",
                      layer, state.layer));
    }
    if (state.values.sizes() != values.sizes()) {
      throw ShapeError(
          fmt::format("value residual attention: the values of layer {} are {} and those of the "
                      "first layer {}, but it adds them token by token; use another attention, or "
                      "a ForwardState of their own for the layers after the change",
                      layer, describe(values), describe(state.values)));
    }
    state.layer = layer;
    return state.values;
  }

  /// A number of each member for its heads, [H or 1, 1, 1].
  Tensor by_head(const Tensor& factor) const {
    return per_head(factor, shape().members, shape().heads);
  }

  Tensor own_, first_;  ///< λ₁, λ₂, [members]; undefined: 0.5
};

ATTNLAB_PLUGIN(attention, ValueResidual, ValueResidualOptions,
               {.id = "attnlab/value_residual",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D) (λ₁ V + λ₂ V₁), V₁ the first layer's values",
                .citation = "Zhou et al. 2024, Value Residual Learning, arXiv 2410.17897",
                .licence = "Apache-2.0"})

}  // namespace attnlab
