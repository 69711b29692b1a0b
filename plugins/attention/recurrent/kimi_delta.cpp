// Kimi delta attention (KDA): the delta rule, and a state that forgets each key channel at a pace
// of its own.
//
//   S_t = (I - β_t k_t k_tᵀ) diag(α_t) S_{t-1} + β_t k_t v_tᵀ
//   y_t = σ(W_2 W_1 x_t + c) ⊙ RMSNorm(S_tᵀ q_t) ⊙ g
//   α_t = exp(-A_h softplus(V_2 V_1 x_t + b)),   β_t = σ(u_h x_t)
//   q_t = SiLU(q) / |SiLU(q)|,   k_t likewise,   v_t = SiLU(v)
//
// V_1 and W_1 are of rank Dv, for all heads. Against Gated DeltaNet: α is one number a channel, of
// a low-rank map, and the gate a sigmoid of one. x_t of α and β is what keys are projected from,
// x_t of the gate what queries are; the norm is of a head's channels, g is shared by heads. A
// starts uniform in [1, 16], softplus(b) log-uniform in [0.001, 0.1], as Mamba-2's. Norms of keys
// have 1e-6 in their root. Left out: the short convolution before the activation, and 1/√D of the
// public code, which the norm cancels. Source: Kimi Team 2025, Kimi Linear: An Expressive,
// Efficient Attention Architecture (arXiv 2510.26692), and its public code. Cost: O(L (D Dv + C (D
// + Dv))), in chunks of C = 64 (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/decay_maps.h"
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"
#include "framework/plugin.h"

namespace attnlab {

class KimiDelta final : public OrderedAttention {
 public:
  KimiDelta(const OrderedOptions& options, const AttentionShape& shape)
      : OrderedAttention(options, shape),
        step_(register_module("step",
                              std::make_shared<LowRankSourceMap>(shape.key_width, shape.values(),
                                                                 shape.head_dim, shape, false))),
        decay_(register_module("decay", std::make_shared<StepDecay>(shape.head_dim, 1, shape))),
        beta_(register_module("beta",
                              std::make_shared<SourceMap>(shape.key_width, 1, shape, 0, false))),
        norm_(register_module("norm", std::make_shared<HeadRmsNorm>(shape.values(), shape))),
        gate_(register_module("gate",
                              std::make_shared<LowRankSourceMap>(shape.query_width, shape.values(),
                                                                 shape.values(), shape, true))) {}

 protected:
  Tensor read(const AttentionInput& input, Tensor* state) const override {
    const Tensor steps = decay_->steps(step_->forward(input.key_source));
    const Tensor out = gated_delta_rule({.queries = silu_direction(input.queries),
                                         .keys = silu_direction(input.keys),
                                         .values = at::silu(input.values),
                                         .log_decays = decay_->log_decays(steps),
                                         .key_valid = input.visible.key_valid,
                                         .state = state},
                                        beta_->forward(input.key_source).sigmoid());
    return gate_->forward(input.query_source).sigmoid() * norm_->forward(out);
  }

 private:
  std::shared_ptr<LowRankSourceMap> step_;
  std::shared_ptr<StepDecay> decay_;
  std::shared_ptr<SourceMap> beta_;
  std::shared_ptr<HeadRmsNorm> norm_;
  std::shared_ptr<LowRankSourceMap> gate_;
};

ATTNLAB_PLUGIN(attention, KimiDelta, OrderedOptions,
               {.id = "attnlab/kimi_delta",
                .version = "1.0.0",
                .summary = "S ← (I - β k kᵀ) diag(α) S + β k vᵀ: overwrites, forgets by channel",
                .citation = "Kimi Team, Kimi Linear: An Expressive, Efficient Attention "
                            "Architecture, arXiv 2510.26692",
                .licence = "Apache-2.0"})

}  // namespace attnlab
