// Maps of queries and keys, and scales: see the header.
#include "framework/nn/attention/attention_maps.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/head_scale.h"

namespace attnlab {

namespace {

double sphere_floor(const MapOptions& options) { return options.eps == 0 ? 1e-12 : options.eps; }

}  // namespace

UnitKeys folded_sphere(const MapOptions& options) {
  const bool alone = options.map == "sphere" && options.scales == "none";
  return alone ? UnitKeys(sphere_floor(options)) : UnitKeys();
}

VectorMap::VectorMap(const MapOptions& options, const AttentionShape& shape)
    : kind_(options.map == "sphere"       ? Kind::sphere
            : options.map == "layer_norm" ? Kind::layer_norm
                                          : Kind::identity),
      eps_(sphere_floor(options)),
      heads_(shape.heads),
      members_(shape.members),
      groups_(options.scales == "head_channel" ? shape.heads : shape.members) {
  if (kind_ == Kind::layer_norm) {
    const double eps = options.eps == 0 ? 1e-6 : options.eps;
    norm_ =
        register_module("norm", std::make_shared<LayerNorm>(shape.head_dim, eps, shape.members));
  }
  if (options.scales == "none") return;
  const double start =
      options.init == 0 ? std::pow(static_cast<double>(shape.head_dim), 0.25) : options.init;
  scale = register_parameter("scale", at::full({groups_ * shape.head_dim}, start));
}

Tensor VectorMap::forward(const Tensor& x) const {
  Tensor mapped = kind_ == Kind::sphere       ? unit(x, eps_)
                  : kind_ == Kind::layer_norm ? norm_->forward_heads(x)
                                              : x;
  if (!scale.defined()) return mapped;
  const Tensor factors = per_head(scale, groups_, heads_);
  return members_ == 1 ? mapped * factors : scale_heads(mapped, factors);
}

double constant_scale(const ScaleOptions& options, const AttentionShape& shape) {
  if (options.kind == "learned") {
    if (options.value == 0) return 1;
    throw OptionError("value",
                      "belongs to a constant scale, and this one is learned; give its "
                      "start as init, or drop value");
  }
  if (options.value != 0) return options.value;
  const std::int64_t heads = options.by == "model_dim" ? shape.heads / shape.members : 1;
  return 1 / std::sqrt(static_cast<double>(heads * shape.head_dim));
}

LearnedScale::LearnedScale(const ScaleOptions& options, const AttentionShape& shape)
    : logarithm_(options.parameter == "log"), max_(options.max) {
  if (logarithm_ && options.init == 0) {
    throw OptionError("init", "0 has no logarithm; start above it, or take parameter: plain");
  }
  if (options.init > options.max) {
    throw OptionError(
        "init",
        fmt::format("{} is above max ({}), where nothing is learned; lower it, or raise max",
                    shortest(options.init), shortest(options.max)));
  }
  const double start = logarithm_ ? std::log(options.init) : options.init;
  parameter =
      register_parameter(logarithm_ ? "log_scale" : "scale", at::full({shape.heads}, start));
}

Tensor LearnedScale::factors() const {
  return logarithm_ ? parameter.clamp_max(std::log(max_)).exp() : parameter.clamp_max(max_);
}

Tensor LearnedScale::forward(const Tensor& queries) const {
  return queries * factors().view({-1, 1, 1});
}

}  // namespace attnlab
