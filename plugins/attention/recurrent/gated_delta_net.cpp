// Gated DeltaNet: the delta rule, and a state that a head may forget.
//
//   S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ
//   y_t = RMSNorm(S_tᵀ q_t) ⊙ g ⊙ SiLU(W_g x_t)
//   α_t = exp(-A_h softplus(w_h x_t + b_h)),   β_t = σ(u_h x_t)
//   q_t = SiLU(q) / |SiLU(q)|,   k_t likewise,   v_t = SiLU(v)
//
// (The paper writes the transpose of S.) Against DeltaNet: the decay α, the gate, SiLU of values.
// x_t of α and β is what keys are projected from, x_t of the gate what queries are; the norm is of
// a head's channels, g is shared by heads. A starts uniform in (0, 16], softplus(b) log-uniform in
// [0.001, 0.1]. Norms of keys have 1e-6 in their root, as in the public code. Left out: the short
// convolution before the activation, and 1/√D of the public code, which the norm cancels but for
// its eps: that counts D times less than there.
// Source: Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks: Improving Mamba2 with Delta Rule
// (arXiv 2412.06464), and its public code.
// Cost: O(L (D Dv + C (D + Dv))), in chunks of C = 64 (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/gated_delta.h"
#include "framework/plugin.h"

namespace attnlab {

class GatedDeltaNet final : public GatedDelta<SourceMap> {
 public:
  GatedDeltaNet(const OrderedOptions& options, const AttentionShape& shape)
      : GatedDelta(
            options, shape,
            [&](std::int64_t width, std::int64_t channels, bool) {
              return std::make_shared<SourceMap>(width, channels, shape, 0, /*bias=*/false);
            },
            1, 0) {}

 protected:
  Tensor gate(const Tensor& x) const override { return at::silu(x); }
};

ATTNLAB_PLUGIN(attention, GatedDeltaNet, OrderedOptions,
               {.id = "attnlab/gated_delta_net",
                .version = "1.0.0",
                .summary = "S ← α (I - β k kᵀ) S + β k vᵀ: the delta rule with a decay",
                .citation = "Yang, Kautz, Hatamizadeh, Gated Delta Networks: Improving Mamba2 with "
                            "Delta Rule, arXiv 2412.06464",
                .licence = "Apache-2.0"})

}  // namespace attnlab
