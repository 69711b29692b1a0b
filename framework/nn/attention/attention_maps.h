// Parts of dot-product attention: maps of queries and keys, and the scale of the logits.
//
//   map     identity: x      sphere: x / max(|x|_2, eps)      layer norm: LayerNorm(x) over D
//   then    C ⊙ map(x), where C is learned: one number per channel, or one per head and channel
//   scale   a constant, 1/sqrt(D) unless set, or a learned number for each head
//
// `composed` assembles an attention from them by name; the named mechanisms use the same ones.
//
// Everything learned here is registered with one dimension ([D], [H D] or [H]), as the weights of
// a norm are. Models let weight decay act on tensors of two dimensions and more
// (`Model::decays`), and a scale that decays towards 0 would flatten every row of weights.
// Source of maps and scales: QUEST, ICLR 2026, table 1 and the works cited there.
#pragma once

#include <memory>
#include <string>

#include "framework/config/options.h"
#include "framework/contracts/attention.h"
#include "framework/nn/kernels/unit.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

struct MapOptions {
  std::string map = "identity";
  double eps = 0;
  std::string scales = "none";
  double init = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("map", map, one_of("identity", "sphere", "layer_norm"), "what is done to each vector");
    v("eps", eps, range(0, 1),
      "sphere: floor of the norm; layer_norm: added to the variance; 0: 1e-12 and 1e-6");
    v("scales", scales, one_of("none", "channel", "head_channel"),
      "learned factors after the map: one per channel, or one per head and channel");
    v("init", init, at_least(0), "initial value of these factors; 0: D^(1/4)");
  }
};

/// The floor of the norm where a map of keys is the sphere alone: `DotProductSettings::unit_keys`,
/// which kernels fold into their own pass. Empty for other maps.
UnitKeys folded_sphere(const MapOptions& options);

/// A map of queries or of keys, with learned factors.
class VectorMap : public torch::nn::Module {
 public:
  VectorMap(const MapOptions& options, const AttentionShape& shape);
  /// @param x  [B or 1, H, L, D] floating point, of the parameters' dtype where there are any.
  /// @returns the same shape.
  Tensor forward(const Tensor& x) const;

  /// The factors C: [D] or [H D], head after head; undefined without. In an ensemble [members D]
  /// or [H D], where H counts the heads of all members.
  Tensor scale;

 private:
  enum class Kind { identity, sphere, layer_norm };

  Kind kind_;
  double eps_;                       ///< of the sphere
  std::int64_t heads_;               ///< H
  std::int64_t members_;             ///< of an ensemble
  std::int64_t groups_;              ///< of heads that share factors: H, or one for each member
  std::shared_ptr<LayerNorm> norm_;  ///< "norm": weight and bias [members D], shared by heads
};

struct ScaleOptions {
  std::string kind = "constant";
  double value = 0;
  std::string parameter = "log";
  double init = 10;
  double max = 100;
  std::string by = "head_dim";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("kind", kind, one_of("constant", "learned"), "learned: a number for each head");
    v("value", value, at_least(0), "value of a constant factor; 0: 1/sqrt of what `by` says");
    v("parameter", parameter, one_of("log", "plain"),
      "for a learned scale: learn its logarithm, or the scale itself");
    v("init", init, at_least(0), "initial value of a learned scale");
    v("max", max, at_least(0), "upper bound of a learned scale");
    v("by", by, one_of("head_dim", "model_dim"), "for value 0: divide by sqrt(D), or by sqrt(H D)");
  }
};

/// The constant factor of the logits that `options` mean: value, or 1/sqrt(D) or 1/sqrt(H D) where
/// it is 0; 1 where the scale is learned (`LearnedScale` then does all of it). In an ensemble, H
/// here is the heads of one member.
/// @throws OptionError where the scale is learned and has a value too.
double constant_scale(const ScaleOptions& options, const AttentionShape& shape);

/// A learned scale for each head:  C_h q,  C_h = exp(min(p_h, log max)) or min(p_h, max).
/// The logarithm with its bound is Swin Transformer V2's (Liu et al., CVPR 2022, public code: init
/// 10, max 100). The bound has no gradient beyond itself.
class LearnedScale : public torch::nn::Module {
 public:
  /// @throws OptionError where the start is 0 under a logarithm, or above max.
  LearnedScale(const ScaleOptions& options, const AttentionShape& shape);
  /// @param queries  [B, H, L, D]; scaling them scales the logits, at less cost.
  Tensor forward(const Tensor& queries) const;
  /// C, [H].
  Tensor factors() const;

  Tensor parameter;  ///< [H], "log_scale" or "scale"

 private:
  bool logarithm_;
  double max_;
};

}  // namespace attnlab
