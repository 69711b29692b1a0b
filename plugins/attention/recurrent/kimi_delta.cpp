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
// public code, which the norm cancels but for its eps: that counts D times less than there.
// Source: Kimi Team 2025, Kimi Linear: An Expressive, Efficient Attention Architecture (arXiv
// 2510.26692), and its public code.
// Cost: O(L (D Dv + C (D + Dv))), in chunks of C = 64 (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/gated_delta.h"
#include "framework/plugin.h"

namespace attnlab {

class KimiDelta final : public GatedDelta<LowRankSourceMap> {
 public:
  KimiDelta(const OrderedOptions& options, const AttentionShape& shape)
      : GatedDelta(
            options, shape,
            [&](std::int64_t width, std::int64_t channels, bool of_gate) {
              return std::make_shared<LowRankSourceMap>(width, shape.values(), channels, shape,
                                                        /*bias=*/of_gate);
            },
            shape.head_dim, 1) {}

 protected:
  Tensor gate(const Tensor& x) const override { return x.sigmoid(); }
};

ATTNLAB_PLUGIN(attention, KimiDelta, OrderedOptions,
               {.id = "attnlab/kimi_delta",
                .version = "1.0.0",
                .summary = "S ← (I - β k kᵀ) diag(α) S + β k vᵀ: overwrites, forgets by channel",
                .citation = "Kimi Team, Kimi Linear: An Expressive, Efficient Attention "
                            "Architecture, arXiv 2510.26692",
                .licence = "Apache-2.0"})

}  // namespace attnlab
