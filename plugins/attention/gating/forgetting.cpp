// Forgetting attention (FoX): each token says how much of what was before it is forgotten.
//
//   Y = softmax(Q Kᵀ / √D + F) V,   F_ij = sum over t = j+1 .. i of log f_t,   f_t = σ(w · x_t + b)
//
// for each head; x_t is what key t is projected from, and query i stands at key i + Lk - Lq.
// Against standard attention: weights fall with the tokens in between, as fast as these ask for, so
// that no other positions are needed. It is the forget gate of recurrent networks, and so needs the
// causal rule. A token of padding forgets nothing; one that is hidden by a window or a pair mask
// counts. b starts at 0 as in the authors' code, so that gates start near 1/2; x-transformers
// starts it at 5, gates near 1 (`start`). The authors' full layer ("Pro") also has an output gate,
// norms and shifts of keys and values; these are not here. Source: Lin et al., Forgetting
// Transformer: Softmax Attention with a Forget Gate, ICLR 2025 (arXiv 2503.02130). Cost: as
// standard attention, and a map of the keys' source.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

struct ForgettingOptions {
  double start = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("start", start, range(-30, 30),
      "initial b: 0 in the authors' code (gates near 0.5), 5 in x-transformers (0.993)");
  }
};

class Forgetting final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits{.bias = true,
                                           .causal = true,
                                           .window = true,
                                           .pair_mask = true,
                                           .padding = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .relative_positions = true,
                                           .second_order = true,
                                           .sources = true,
                                           .ordered = true};

  Forgetting(const ForgettingOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.terms = true}, kTraits),
        gate_(register_module(
            "gate", std::make_shared<SourceMap>(shape.key_width, 1, shape, options.start))) {}

 protected:
  /// Finite numbers of no meaning where the causal rule hides a pair.
  LogitTerms terms(const AttentionInput& input, AttentionContext&) const override {
    Tensor logs = at::log_sigmoid(gate_->forward(input.key_source).squeeze(-1));  // [B, H, Lk]
    const Tensor padding = padding_of(input.visible);
    if (padding.defined()) logs = logs.masked_fill(padding, 0);
    const Tensor sums = logs.cumsum(-1);
    // Those of the queries' places; a query before the first key sees nothing.
    const std::int64_t before = input.query_count() - input.key_count();
    return {.query_sums = at::constant_pad_nd(sums, {before, 0}), .key_sums = sums};
  }

 private:
  /// bool, broadcastable to [B, H, Lk]; undefined: there is none. Beside other members' examples
  /// padding comes as pairs (MultiHeadAttention): a key that no query sees is padding there.
  Tensor padding_of(const Visibility& visible) const {
    if (visible.key_valid.defined()) return visible.key_valid.logical_not().unsqueeze(1);
    const Tensor& pairs = visible.pairs;
    if (shape().members == 1 || !pairs.defined()) return {};
    return (pairs.dim() < 2 ? pairs : pairs.any(-2)).logical_not();
  }

  std::shared_ptr<SourceMap> gate_;
};

ATTNLAB_PLUGIN(attention, Forgetting, ForgettingOptions,
               {.id = "attnlab/forgetting",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D + sum of log f) V, f = σ(w · x + b): FoX",
                .citation = "Lin et al., Forgetting Transformer: Softmax Attention with a Forget "
                            "Gate, ICLR 2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
