// Kimi delta attention (KDA): the delta rule, with a decay of the state for each key channel.
//
//   S_t = (I - β_t k_t k_tᵀ) diag(α_t) S_{t-1} + β_t k_t v_tᵀ
//   y_t = σ(W_2 W_1 x_t + c) ⊙ RMSNorm(S_tᵀ q_t) ⊙ g
//   α_t = exp(-A_h softplus(V_2 V_1 x_t + b)),   β_t = σ(u_h x_t)
//   q_t = SiLU(q) / |SiLU(q)|,   k_t likewise,   v_t = SiLU(v)
//
// V_1 and W_1 have rank Dv, for all heads together. Differences from Gated DeltaNet: α is one
// number per channel, by a low-rank map, and the gate is a sigmoid of a low-rank map. x_t in α and
// β is the input of the keys' projection, x_t in the gate that of the queries'. The norm is over a
// head's channels; heads share g. A starts uniform in [1, 16], softplus(b) log-uniform in [0.001,
// 0.1], as in Mamba-2. Norms of keys have 1e-6 in their root. Left out: the short convolution
// before the activation, and 1/√D of the public code. The norm cancels that factor except in its
// eps, which counts D times less than there.
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
                .summary = "S ← (I - β k kᵀ) diag(α) S + β k vᵀ: delta rule, decay per channel",
                .citation = "Kimi Team, Kimi Linear: An Expressive, Efficient Attention "
                            "Architecture, arXiv 2510.26692",
                .licence = "Apache-2.0"})

}  // namespace attnlab
