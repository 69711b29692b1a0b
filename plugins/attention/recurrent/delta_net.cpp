// DeltaNet: linear attention that overwrites. A token first reads what its key stands for, and
// writes by how much its value differs from that.
//
//   S_t = (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ,   y_t = RMSNorm(S_tᵀ q_t) ⊙ g
//   β_t = σ(w_h x_t),   q_t = SiLU(q) / |SiLU(q)|,   k_t likewise
//
// (The paper writes the transpose of S.) Against linear attention: the delta rule in place of a
// sum, so that a later value under a key takes an earlier one's place. x_t is what keys are
// projected from; the norm is of a head's channels, g is shared by heads. Norms have 1e-6 in their
// root, as in the public code. Left out: the short convolution before the activation, the SiLU of
// values that the public code has beside it, and its 1/√D, which the norm cancels but for its eps:
// that counts D times less than there.
// Source: Yang et al. 2024, Parallelizing Linear Transformers with the Delta Rule over Sequence
// Length (arXiv 2406.06484).
// Cost: O(L (D Dv + C (D + Dv))), in chunks of C = 64 (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

class DeltaNet final : public OrderedAttention {
 public:
  DeltaNet(const OrderedOptions& options, const AttentionShape& shape)
      : OrderedAttention(options, shape),
        beta_(register_module("beta",
                              std::make_shared<SourceMap>(shape.key_width, 1, shape, 0, false))),
        norm_(register_module("norm", std::make_shared<HeadRmsNorm>(shape.values(), shape))) {}

 protected:
  Tensor read(const AttentionInput& input, Tensor* state) const override {
    return norm_->forward(gated_delta_rule({.queries = silu_direction(input.queries),
                                            .keys = silu_direction(input.keys),
                                            .values = input.values,
                                            .log_decays = {},
                                            .key_valid = input.visible.key_valid,
                                            .state = state},
                                           beta_->forward(input.key_source).sigmoid()));
  }

 private:
  std::shared_ptr<SourceMap> beta_;
  std::shared_ptr<HeadRmsNorm> norm_;
};

ATTNLAB_PLUGIN(attention, DeltaNet, OrderedOptions,
               {.id = "attnlab/delta_net",
                .version = "1.0.0",
                .summary = "S ← (I - β k kᵀ) S + β k vᵀ: linear attention with the delta rule",
                .citation = "Yang et al., Parallelizing Linear Transformers with the Delta Rule "
                            "over Sequence Length, arXiv 2406.06484",
                .licence = "Apache-2.0"})

}  // namespace attnlab
