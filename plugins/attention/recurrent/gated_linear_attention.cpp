// Gated linear attention (GLA): linear attention whose state forgets, each key channel at a pace
// that the input chooses.
//
//   S_t = diag(α_t) S_{t-1} + k_t v_tᵀ,   o_t = S_tᵀ q_t,   y_t = SiLU(W_r x_t + b_r) ⊙ LN(o_t)
//   α_t = σ(W_2 W_1 x_t + b)^(1/16),   W_1 of rank 16 for all heads
//
// Against linear attention: decays in place of the sum of weights, and a layer norm (of a head's
// channels, without factors) and a gate at the output. x_t of α is what keys are projected from,
// x_t of the gate what queries are. Keys have D channels, where the published layer has half as
// many as values; no 1/√D (the public code has it), which the norm cancels but for its eps: that
// counts D times less than there.
// Source: Yang et al. 2023, Gated Linear Attention Transformers with Hardware-Efficient Training
// (arXiv 2312.06635), equations of section 4.4.
// Cost: O(L D Dv), in chunks (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/decay_maps.h"
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"
#include "framework/plugin.h"

namespace attnlab {

class GatedLinearAttention final : public OrderedAttention {
 public:
  GatedLinearAttention(const OrderedOptions& options, const AttentionShape& shape)
      : OrderedAttention(options, shape),
        decay_(register_module("decay", std::make_shared<LowRankSourceMap>(
                                            shape.key_width, kRank, shape.head_dim, shape, true))),
        gate_(register_module(
            "gate", std::make_shared<SourceMap>(shape.query_width, shape.values(), shape))) {}

 protected:
  Tensor read(const AttentionInput& input, Tensor* state) const override {
    // log σ(x) = -softplus(-x)
    const Tensor logs = at::softplus(-decay_->forward(input.key_source)) / -kTemperature;
    const Tensor out = gated_linear({.queries = input.queries,
                                     .keys = input.keys,
                                     .values = input.values,
                                     .log_decays = logs,
                                     .key_valid = input.visible.key_valid,
                                     .state = state});
    return at::silu(gate_->forward(input.query_source)) * unit_variance(out);
  }

 private:
  static constexpr std::int64_t kRank = 16;
  static constexpr double kTemperature = 16;

  std::shared_ptr<LowRankSourceMap> decay_;
  std::shared_ptr<SourceMap> gate_;
};

ATTNLAB_PLUGIN(attention, GatedLinearAttention, OrderedOptions,
               {.id = "attnlab/gated_linear_attention",
                .version = "1.0.0",
                .summary = "S ← diag(α(X)) S + k vᵀ: linear attention, decay per channel",
                .citation = "Yang et al., Gated Linear Attention Transformers with "
                            "Hardware-Efficient Training, arXiv 2312.06635",
                .licence = "Apache-2.0"})

}  // namespace attnlab
