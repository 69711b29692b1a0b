// The gated delta rule with its activations, norm and gate as published: what Gated DeltaNet and
// Kimi delta attention share.
//
//   q_t = SiLU(q) / |SiLU(q)|,   k_t likewise,   v_t = SiLU(v),   β_t = σ(u_h x_t)
//   y_t = RMSNorm(S_tᵀ q_t) ⊙ g ⊙ gate(G x_t)
//
// S is that of the gated delta rule (recurrence.h), with decays by step sizes (decay_maps.h).
#pragma once

#include <memory>

#include "framework/nn/attention/decay_maps.h"
#include "framework/nn/attention/ordered_attention.h"
#include "framework/nn/attention/recurrence.h"

namespace attnlab {

/// @tparam Map  of the sources that decays and gates are made of: SourceMap or LowRankSourceMap
template <class Map>
class GatedDelta : public OrderedAttention {
 public:
  /// @param make    (width of a source, numbers of a head, whether it is the gate's): a map
  /// @param decays  numbers of a head: 1, or one for each channel of the keys
  /// @param lowest  StepDecay's
  template <class Make>
  GatedDelta(const OrderedOptions& options, const AttentionShape& shape, const Make& make,
             std::int64_t decays, double lowest)
      : OrderedAttention(options, shape),
        step_(register_module("step", make(shape.key_width, decays, false))),
        decay_(register_module("decay", std::make_shared<StepDecay>(decays, lowest, shape))),
        beta_(register_module("beta",
                              std::make_shared<SourceMap>(shape.key_width, 1, shape, 0, false))),
        norm_(register_module("norm", std::make_shared<HeadRmsNorm>(shape.values(), shape))),
        gate_(register_module("gate", make(shape.query_width, shape.values(), true))) {}

 protected:
  /// The activation of the gate. @param x  [B, H, Lq, Dv].
  virtual Tensor gate(const Tensor& x) const = 0;

  Tensor read(const AttentionInput& input, Tensor* state) const final {
    const Tensor steps = decay_->steps(step_->forward(input.key_source));
    const Tensor out = gated_delta_rule({.queries = silu_direction(input.queries),
                                         .keys = silu_direction(input.keys),
                                         .values = at::silu(input.values),
                                         .log_decays = decay_->log_decays(steps),
                                         .key_valid = input.visible.key_valid,
                                         .state = state},
                                        beta_->forward(input.key_source).sigmoid());
    return norm_->forward(out) * gate(gate_->forward(input.query_source));
  }

 private:
  std::shared_ptr<Map> step_;
  std::shared_ptr<StepDecay> decay_;
  std::shared_ptr<SourceMap> beta_;
  std::shared_ptr<HeadRmsNorm> norm_;
  std::shared_ptr<Map> gate_;
};

}  // namespace attnlab
