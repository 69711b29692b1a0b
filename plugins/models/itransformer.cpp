// iTransformer: a transformer whose tokens are whole channels, for forecasting.
//
//   x        = instance norm of the series, [B, L, C]
//   token_c  = Dropout(W_e x_c + b_e),   x_c the L steps of channel c; those of the calendar, where
//              the data have it, are further tokens
//   tokens   = LayerNorm(z + Dropout(MultiHeadAttention(z)));  LayerNorm(z + Mlp(z))   depth times
//   forecast = instance norm undone(W_h LayerNorm(token_c) + b_h)      of the C channels
//
// Tokens have no order and no positions. Attentions that read places get none. Source: Liu et al.,
// ICLR 2024; thuml/iTransformer, commit c2426e68. Cost: O(B depth C dim (C + dim)).
#include <fmt/format.h>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/forecasting.h"
#include "framework/nn/modules/transformer_layer.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ITransformerOptions {
  std::int64_t dim = 256, depth = 2, heads = 8, hidden = 256;
  double dropout = 0.1, attention_dropout = 0.1;
  bool instance_norm = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dim", dim, range(1, 1 << 24), "channels of a token");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("dropout", dropout, range(0, 0.99), "after the embedding, the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("instance_norm", instance_norm, "normalise each window, and undo it in the forecast");
  }
};

class ITransformer final : public Model {
 public:
  ITransformer(const ITransformerOptions& options, const ModelSetup& setup)
      : options_(options), window_(setup.data, "itransformer") {
    check_heads(options.dim, options.heads);
    embedding_ =
        register_module("embedding", std::make_shared<Linear>(window_.lookback, options.dim));
    for (std::int64_t i = 0; i < options.depth; ++i) {
      layers_.push_back(
          register_module(fmt::format("layer{}", i), norm_last_layer(options, i, setup.attention)));
    }
    norm_ = register_module("norm", std::make_shared<LayerNorm>(options.dim, 1e-5));
    head_ = register_module("head", std::make_shared<Linear>(options.dim, window_.horizon));
    start_uniform(*embedding_);
    start_uniform(*head_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const at::ScalarType dtype = head_->weight.scalar_type();
    const Tensor series = window_.series_of(batch, dtype);
    const Tensor* const found = batch.fields.find("calendar");
    const Tensor calendar = found == nullptr ? Tensor() : found->to(dtype);
    if (!options_.instance_norm) return {{"forecast", forecast_of(series, calendar, pass)}};
    const InstanceNorm norm(series);
    return {{"forecast", norm.undone(forecast_of(norm.normed(series), calendar, pass))}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {window_.forecast_info(head_->weight.scalar_type())};
  }

 private:
  /// @param series    [B, L, C]
  /// @param calendar  [B, L, 4]; undefined: none
  /// @returns [B, T, C].
  Tensor forecast_of(const Tensor& series, const Tensor& calendar, ForwardPass& pass) {
    const Tensor all = calendar.defined() ? at::cat({series, calendar}, 2) : series;
    Tensor x = embedding_->forward(all.transpose(1, 2));
    if (is_training() && options_.dropout > 0) x = dropout(x, options_.dropout);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const std::shared_ptr<TransformerLayer>& layer : layers_) {
      x = layer->forward({x}, context).sum();
      ++context.layer;
    }
    const Tensor channels = norm_->forward(x).narrow(1, 0, series.size(2));
    return head_->forward(channels).transpose(1, 2);
  }

  ITransformerOptions options_;
  ForecastWindow window_;
  std::shared_ptr<Linear> embedding_;
  std::vector<std::shared_ptr<TransformerLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(
    model, ITransformer, ITransformerOptions,
    {.id = "attnlab/itransformer",
     .version = "1.0.0",
     .summary = "forecasts all channels by attention between them, one token per channel",
     .citation = "Liu et al., iTransformer, ICLR 2024, arXiv:2310.06625",
     .licence = "Apache-2.0",
     .takes = {"series", "future", "calendar?"},
     .gives = {"forecast"},
     .stacks = {"depth"},
     .recompute = true})

}  // namespace attnlab
