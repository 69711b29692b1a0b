// Differential attention, the second version: two queries ask the same keys, and each token says
// how much of the second answer is taken away.
//
//   Y = (softmax(Q Kᵀ / √D) - λ softmax(Q₂ Kᵀ / √D)) V,   Q₂ = X W₂,   λ = σ(X w)
//
// X is what the queries are projected from; λ is one number for each token and head. Q is the
// model's, Q₂ and λ are made here, without biases, from truncated normals (std 0.02): λ starts near
// 1/2. Against the first version (`differential`): keys and values are not split, λ depends on the
// token, there is no norm behind, and heads are as many and as wide as those of standard attention.
// The authors make Q and Q₂ by one map, as twice as many heads that share keys and values.
// Where a layer turns queries and keys by their places, it cannot turn Q₂, as the authors do.
// A bias on the logits, and biases of relative positions, are added to both. Dropout drops the
// weights of each softmax by itself; the authors drop none. A trace records the difference as
// weights, which may be negative and sum to 1 - λ, and no logits: there are two for each pair.
// Source: Ye, Dong, Sun and Wei 2026, Differential Transformer V2 (a note of Microsoft Research),
// and its public code.
// Cost: twice standard attention, in its kernels, and a map of Lq tokens.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

class DifferentialV2 final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.sources = true;
    return traits;
  }();

  DifferentialV2(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits),
        query_(
            register_module("query", std::make_shared<SourceMap>(shape.query_width, shape.head_dim,
                                                                 shape, 0, /*bias=*/false))),
        share_(register_module("share", std::make_shared<SourceMap>(shape.query_width, 1, shape, 0,
                                                                    /*bias=*/false))) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    AttentionInput second = input;
    second.queries = query_->forward(input.query_source);
    const Tensor share = share_->forward(input.query_source).sigmoid();  // λ, [B, H, Lq, 1]
    LayerTrace seen, seen_by_second;
    const Tensor first = attend_noting(input, context, seen);
    const Tensor taken = attend_noting(second, context, seen_by_second);
    if (context.trace != nullptr) record(seen, seen_by_second.weights, share, context);
    return first - share * taken;
  }

 private:
  /// @param seen  of the first; becomes that of the layer
  static void record(LayerTrace& seen, const Tensor& second, const Tensor& share,
                     AttentionContext& context) {
    AttentionTrace& asked = *context.trace;
    seen.layer = context.layer;
    if (seen.weights.defined()) {
      const Tensor weights = seen.weights - (asked.attached ? share : share.detach()) * second;
      const Tensor sizes = weights.abs();
      if (asked.entropy) seen.entropy = -at::xlogy(sizes, sizes).sum(-1);
      seen.weights = asked.weights ? weights : Tensor();
    }
    asked.take(std::move(seen));
  }

  std::shared_ptr<SourceMap> query_, share_;
};

ATTNLAB_PLUGIN(
    attention, DifferentialV2, NoOptions,
    {.id = "attnlab/differential_v2",
     .version = "1.0.0",
     .summary = "(softmax(Q Kᵀ / √D) - λ softmax(Q₂ Kᵀ / √D)) V, λ and Q₂ from the token",
     .citation = "Ye, Dong, Sun, Wei 2026, Differential Transformer V2",
     .licence = "Apache-2.0"})

}  // namespace attnlab
