// Retention: linear attention with a fixed decay for each head.
//
//   S_t = γ_h S_{t-1} + k_t v_tᵀ,   o_t = S_tᵀ q_t,   y_t = SiLU(W_g x_t) ⊙ GN(o_t)
//   γ_h = 1 - 2^(-5-h),   h = 0, 1, ... of the model's heads
//
// Against linear attention: γ_h^(t-j) in place of the sum of weights; then a group norm, which is a
// layer norm of each head's channels without factors, and the published gate, x_t being what
// queries are projected from. Left out: the rotation of queries and keys by their places (positions
// are the model's), and 1/√D and the norms of weights, which the group norm cancels but for its
// eps: for want of 1/√D that counts D times less than in the published layer. Padding does not
// count as a step.
// Source: Sun et al. 2023, Retentive Network: A Successor to Transformer for Large Language Models
// (arXiv 2307.08621), equations 5 to 8.
// Cost: O(L D Dv), in chunks (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

class Retention final : public OrderedAttention {
 public:
  Retention(const OrderedOptions& options, const AttentionShape& shape)
      : OrderedAttention(options, shape),
        gate_(register_module("gate", std::make_shared<SourceMap>(shape.query_width, shape.values(),
                                                                  shape, 0, false))) {}

 protected:
  Tensor read(const AttentionInput& input, Tensor* state) const override {
    const Tensor out = gated_linear({.queries = input.queries,
                                     .keys = input.keys,
                                     .values = input.values,
                                     .log_decays = log_decays(input.keys),
                                     .key_valid = input.visible.key_valid,
                                     .state = state});
    return at::silu(gate_->forward(input.query_source)) * unit_variance(out);
  }

 private:
  /// log γ_h: [1, H, Lk, 1].
  Tensor log_decays(const Tensor& keys) const {
    const Tensor head = at::arange(shape().heads, keys.options().dtype(at::kDouble))
                            .remainder(shape().heads / shape().members);
    const Tensor logs = at::log1p(-at::exp2(-5 - head)).to(keys.scalar_type());
    return logs.view({1, -1, 1, 1}).expand({1, -1, keys.size(2), 1});
  }

  std::shared_ptr<SourceMap> gate_;
};

ATTNLAB_PLUGIN(attention, Retention, OrderedOptions,
               {.id = "attnlab/retention",
                .version = "1.0.0",
                .summary = "S ← γ_h S + k vᵀ: linear attention, a fixed decay per head",
                .citation = "Sun et al., Retentive Network: A Successor to Transformer for Large "
                            "Language Models, arXiv 2307.08621",
                .licence = "Apache-2.0"})

}  // namespace attnlab
