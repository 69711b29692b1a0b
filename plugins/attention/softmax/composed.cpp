// Composed attention: assembled in YAML from a query map, a key map, a metric, a scale and a
// normaliser.
//
//   Y = N(s · map_q(Q) diag(M) map_k(K)ᵀ + bias) V
//
//   map_q, map_k  identity, sphere or layer norm, and learned factors (attention_maps.h)
//   M             1, or Elliptical attention's (elliptical.h)
//   s             a constant, or learned for each head (attention_maps.h)
//   N             softmax, sigmoid, Sinkhorn's, or 1/n^sigmoid(m) (normalisers.h)
//
// Left alone it is standard attention; every other part is one of a named mechanism, which
// `composed` equals bit for bit where it spells that one out; parameters have its names too. What
// it is for is the rest: QUEST with Sinkhorn, an elliptical sigmoid.
// Sinkhorn's rows and columns couple past and future. Traits belong to the plugin and not to one
// composition, so `causal` is declared, and a composition with Sinkhorn throws TraitError for it.
// Source: that of each part. Cost: as standard attention, and that of the parts; power has no
// linear form here, as `cosine` has.
#include <optional>

#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/elliptical.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

struct MetricOptions {
  std::string kind = "euclidean";
  EllipticalOptions elliptical;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("kind", kind, one_of("euclidean", "elliptical"),
      "how coordinates are weighted in the logits");
    v("elliptical", elliptical, "options of the elliptical metric");
  }
};

struct NormaliserOptions {
  std::string kind = "softmax";
  SigmoidOptions sigmoid;
  SinkhornOptions sinkhorn;
  PowerOptions power;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("kind", kind, one_of("softmax", "sigmoid", "sinkhorn", "power"), "how logits become weights");
    v("sigmoid", sigmoid, "options of the sigmoid");
    v("sinkhorn", sinkhorn, "options of Sinkhorn's normaliser, which cannot be causal");
    v("power", power, "options of the power: logits / n^sigmoid(m)");
  }
};

struct ComposedOptions {
  MapOptions query, key;
  MetricOptions metric;
  ScaleOptions scale;
  NormaliserOptions normaliser;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("query", query, "map of the queries");
    v("key", key, "map of the keys");
    v("metric", metric, "diagonal metric between queries and keys");
    v("scale", scale, "factor of the logits");
    v("normaliser", normaliser, "from logits to weights");
  }
};

class Composed final : public DotProductAttention {
 public:
  Composed(const ComposedOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, settings(options, shape)),
        query_(register_module("query", std::make_shared<VectorMap>(options.query, shape))),
        key_(register_module("key", std::make_shared<VectorMap>(left_of(options.key), shape))),
        normaliser_(options.normaliser) {
    if (options.metric.kind == "elliptical") metric_.emplace(options.metric.elliptical, shape);
    if (options.scale.kind == "learned") {
      scale_ = register_module("scale", std::make_shared<LearnedScale>(options.scale, shape));
    }
    if (normaliser_.kind == "power") {
      power_ = register_module("power",
                               std::make_shared<PowerNormaliser>(normaliser_.power, shape.heads));
    }
    sinkhorn_ = normaliser_.kind == "sinkhorn";
  }

  bool couples_queries() const override { return sinkhorn_; }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    const Tensor mapped = query_->forward(queries);
    return scale_ == nullptr ? mapped : scale_->forward(mapped);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return key_->forward(keys);
  }
  Tensor metric(const AttentionInput& input, AttentionContext& context) const override {
    return metric_ ? (*metric_)(input, context, is_training()) : Tensor();
  }
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    return sinkhorn_ ? sinkhorn_weights(logits, visible, normaliser_.sinkhorn)
                     : power_->forward(logits, visible);
  }
  RowWeights row_weights(const AttentionInput& input, AttentionContext&) const override {
    return sigmoid_weights(input, normaliser_.sigmoid);
  }
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (sinkhorn_ && input.visible.causal) {
      throw TraitError(
          "attention 'composed' with normaliser.kind sinkhorn cannot be causal, but the input sets "
          "visible.causal: its rows and columns couple past and future; take softmax, sigmoid or "
          "power, or a model without a causal rule");
    }
    return DotProductAttention::attend(input, context);
  }

 private:
  static DotProductSettings settings(const ComposedOptions& options, const AttentionShape& shape) {
    const std::string& kind = options.normaliser.kind;
    return {.scale = constant_scale(options.scale, shape),
            .normaliser = kind == "softmax"   ? Normaliser::softmax
                          : kind == "sigmoid" ? Normaliser::rule
                                              : Normaliser::custom,
            .unit_keys = folded_sphere(options.key)};
  }

  /// What is left of a map of keys to be done before the kernel.
  static MapOptions left_of(const MapOptions& key) {
    return folded_sphere(key) ? MapOptions{} : key;
  }

  std::shared_ptr<VectorMap> query_, key_;
  std::optional<EllipticalMetric> metric_;  ///< none: Euclidean
  std::shared_ptr<LearnedScale> scale_;     ///< null: constant
  NormaliserOptions normaliser_;
  std::shared_ptr<PowerNormaliser> power_;  ///< null: another normaliser
  bool sinkhorn_ = false;
};

ATTNLAB_PLUGIN(attention, Composed, ComposedOptions,
               {.id = "attnlab/composed",
                .version = "1.0.0",
                .summary = "assembled from maps, a metric, a scale and a normaliser",
                .citation = "see the mechanisms that its parts come from",
                .licence = "Apache-2.0",
                .needs = {"consecutive if metric.kind=elliptical"}})

}  // namespace attnlab
