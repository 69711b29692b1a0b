// Series encoder: a pre-norm transformer over time steps, read out by their mean.
//
//   x_t = W [s_t; s_t - s_{t-1}] + b,   s_0 = s_1
//   x   = x + MultiHeadAttention(LayerNorm(x))
//   x   = x + Mlp(LayerNorm(x))                      both depth times
//   logits = W_h mean_t(LayerNorm(x)_t) + b_h
//
// Time steps have no positions: the difference to the step before is what tells their order.
// Padding (`valid`) is hidden from every query and does not count in the mean.
// Source: the tutorial. Cost: O(depth L dim (L + dim)) for L time steps.
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SeriesEncoderOptions {
  std::int64_t dim = 32, depth = 2, heads = 4, hidden = 64;
  double dropout = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dim", dim, at_least(1), "channels of a token");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("dropout", dropout, range(0, 0.99), "after the attention and in the MLP");
  }
};

class EncoderLayer : public torch::nn::Module {
 public:
  EncoderLayer(const SeriesEncoderOptions& o, std::int64_t index,
               const AttentionBuilder& attention) {
    MultiHeadOptions heads;
    heads.dim = o.dim;
    heads.heads = o.heads;
    heads.dropout = o.dropout;
    heads.layer = index;
    heads.layers = o.depth;
    norm_ = register_module("attention_norm", std::make_shared<LayerNorm>(o.dim));
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, attention));
    mlp_norm_ = register_module("mlp_norm", std::make_shared<LayerNorm>(o.dim));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(o.dim, o.hidden, o.dropout));
  }

  /// [B, L, dim] to the same.
  Tensor forward(const Tensor& x, AttentionContext& context, const AttentionExtras& extras) {
    const Tensor y = x + attention_->forward(norm_->forward(x), context, extras);
    return y + mlp_->forward(mlp_norm_->forward(y));
  }

  const AttentionTraits& traits() const { return attention_->attention().traits(); }

 private:
  std::shared_ptr<LayerNorm> norm_, mlp_norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Mlp> mlp_;
};

class SeriesEncoder final : public Model {
 public:
  SeriesEncoder(const SeriesEncoderOptions& options, const ModelSetup& setup)
      : classes_(setup.data.classes) {
    const std::vector<std::int64_t>& series = setup.data.field("series").shape;
    if (series.size() != 2 || series[1] <= 0 || classes_ <= 0) {
      throw DataError("series_encoder classifies series [L, C]; dataset '" + setup.data.name +
                      "' has series of another shape, or no classes");
    }
    if (options.dim % options.heads != 0) {
      throw OptionError("heads", std::to_string(options.heads) + " heads do not divide dim " +
                                     std::to_string(options.dim) + "; change either");
    }
    embedding_ = register_module("embedding", std::make_shared<Linear>(2 * series[1], options.dim));
    for (std::int64_t i = 0; i < options.depth; ++i) {
      layers_.push_back(
          register_module("layer" + std::to_string(i),
                          std::make_shared<EncoderLayer>(options, i, setup.attention)));
    }
    norm_ = register_module("norm", std::make_shared<LayerNorm>(options.dim));
    head_ = register_module("head", std::make_shared<Linear>(options.dim, classes_));
    check_padding(setup.data);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor series = batch.fields.at("series").to(head_->weight.scalar_type());
    const Tensor before = at::cat({series.narrow(1, 0, 1), series.slice(1, 0, -1)}, 1);
    Tensor x = embedding_->forward(at::cat({series, series - before}, -1));
    const Tensor* valid = batch.fields.find("valid");
    AttentionExtras extras;
    if (valid != nullptr) extras.visible.key_valid = extras.visible.query_valid = *valid;
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      x = layer->forward(x, context, extras);
      ++context.layer;
    }
    return {{"logits", head_->forward(mean(norm_->forward(x), valid))}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {{.name = "logits", .shape = {classes_}, .dtype = head_->weight.scalar_type()}};
  }

 private:
  /// Padding must be hidden where the data mark it; known before anything runs.
  void check_padding(const DatasetInfo& data) const {
    for (const FieldInfo& field : data.fields) {
      if (field.name != "valid" || layers_.front()->traits().padding) continue;
      throw TraitError("the series of dataset '" + data.name +
                       "' differ in length, and this attention does not honour 'padding'; choose "
                       "another attention");
    }
  }

  /// Of the time steps that are not padding: [B, dim].
  static Tensor mean(const Tensor& x, const Tensor* valid) {
    if (valid == nullptr) return x.mean(1);
    const Tensor weights = valid->to(x.scalar_type()).unsqueeze(-1);
    return (x * weights).sum(1) / weights.sum(1);
  }

  std::int64_t classes_;
  std::shared_ptr<Linear> embedding_, head_;
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace

ATTNLAB_PLUGIN(model, SeriesEncoder, SeriesEncoderOptions,
               {.id = "attnlab/series_encoder",
                .version = "1.0.0",
                .summary = "pre-norm transformer over time steps, read out by their mean",
                .licence = "Apache-2.0",
                .takes = {"series"},
                .gives = {"logits"}})

}  // namespace attnlab
