// Mamba-2's layer (SSD) as an attention: a state space model whose step sizes the input chooses.
//
//   S_t = exp(-A_h Δ_t) S_{t-1} + Δ_t k_t v_tᵀ,   o_t = S_tᵀ q_t + D_h v_t
//   y_t = RMSNorm(o_t ⊙ SiLU(W_z x_t)) ⊙ g,   Δ_t = softplus(w_h x_t + b_h)
//   q_t = SiLU(q), k_t = SiLU(k), v_t = SiLU(v), in the paper's letters C, B and X
//
// Against linear attention: the decay and the step size of each token, the skip D of the query's
// own token (none where that is padding), gate and norm. x_t of Δ is what keys are projected from,
// x_t of the gate what queries are. A starts uniform in [1, 16], softplus(b) log-uniform in [0.001,
// 0.1], D at 1. Published layers share C and B between heads; here each head has its own, as
// queries and keys of an attention are. The norm is of a head's channels, g is shared by heads;
// published, it is of all channels. Left out: the short convolution before the activation.
// Source: Dao and Gu 2024, Transformers are SSMs: Generalized Models and Efficient Algorithms
// Through Structured State Space Duality (arXiv 2405.21060), section 7, and its public code.
// Cost: O(L D Dv), in chunks (framework/nn/attention/recurrence.h).
#include "framework/nn/attention/decay_maps.h"
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"
#include "framework/plugin.h"

namespace attnlab {

class Mamba2 final : public OrderedAttention {
 public:
  Mamba2(const OrderedOptions& options, const AttentionShape& shape)
      : OrderedAttention(options, shape),
        step_(register_module("step",
                              std::make_shared<SourceMap>(shape.key_width, 1, shape, 0, false))),
        decay_(register_module("decay", std::make_shared<StepDecay>(1, 1, shape))),
        norm_(register_module("norm", std::make_shared<HeadRmsNorm>(shape.values(), shape))),
        gate_(register_module("gate", std::make_shared<SourceMap>(shape.query_width, shape.values(),
                                                                  shape, 0, false))) {
    skip_ = register_parameter("skip", at::ones({shape.heads}));
  }

 protected:
  Tensor read(const AttentionInput& input, Tensor* state) const override {
    const Tensor steps = decay_->steps(step_->forward(input.key_source));
    const Tensor values = at::silu(input.values);
    const Tensor seen = gated_linear({.queries = at::silu(input.queries),
                                      .keys = at::silu(input.keys) * steps,
                                      .values = values,
                                      .log_decays = decay_->log_decays(steps),
                                      .key_valid = input.visible.key_valid,
                                      .state = state});
    const Tensor out = seen + skip_.view({-1, 1, 1}) * own_values(values, input);
    return norm_->forward(out * at::silu(gate_->forward(input.query_source)));
  }

 private:
  /// The value at each query's place, 0 where there is none.
  static Tensor own_values(const Tensor& values, const AttentionInput& input) {
    const Tensor& valid = input.visible.key_valid;
    const Tensor present =
        valid.defined() ? values.masked_fill(valid.logical_not().unsqueeze(1).unsqueeze(-1), 0)
                        : values;
    const std::int64_t before = input.query_count() - input.key_count();
    return before == 0 ? present : at::constant_pad_nd(present, {0, 0, before, 0});
  }

  std::shared_ptr<SourceMap> step_;
  std::shared_ptr<StepDecay> decay_;
  std::shared_ptr<HeadRmsNorm> norm_;
  std::shared_ptr<SourceMap> gate_;
  Tensor skip_;  ///< D, [H]
};

ATTNLAB_PLUGIN(attention, Mamba2, OrderedOptions,
               {.id = "attnlab/mamba2",
                .version = "1.0.0",
                .summary = "S ← exp(-A Δ) S + Δ k vᵀ, and a skip: Mamba-2 (SSD) as an attention",
                .citation = "Dao and Gu, Transformers are SSMs: Generalized Models and Efficient "
                            "Algorithms Through Structured State Space Duality, arXiv 2405.21060",
                .licence = "Apache-2.0"})

}  // namespace attnlab
