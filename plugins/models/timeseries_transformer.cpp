// Time-series transformer: the classifier of the Time-Series-Library, and QUEST's form of it.
//
//   x_t = W [s_{t-1}; s_t; s_{t+1}] + sinusoid_t              circular convolution over time
//   x   = LayerNorm(x + Dropout(MultiHeadAttention(x)))
//   x   = LayerNorm(x + Mlp(x))                               both depth times
//   class_token:   logits = W_h LayerNorm([token; x])_0 + b   (QUEST, appendix A.5.6)
//   concatenated:  logits = W_h flatten(Dropout(GELU(LayerNorm(x)))) + b,   padding set to zero
//
// Where the data mark padding (`valid`), no query sees it, it does not count as a query, and the
// convolution turns round at each series' own end, so a series gives the same whatever it is
// batched with. The library masks nothing; its form is `padding: published` of the dataset.
// `positions`: what is added in the place of sinusoids; relative ones (Transformer-XL's, each layer
// its own) count all tokens, the class token first. The class token starts as truncated normal (std
// 0.02) and has no position; the paper says neither. Attentions that read places get the usual
// ones, by time step: the class token stands at 0, before the first step, at 1. Source:
// thuml/Time-Series-Library, commit 4e938a17; QUEST, ICLR 2026. Cost: O(depth L dim (L + dim)) for
// L time steps, with attention of quadratic cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/linear.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/relative_positions.h"
#include "framework/nn/modules/transformer_layer.h"
#include "framework/plugin.h"

namespace attnlab {

struct TimeseriesTransformerOptions {
  std::int64_t dim = 128, depth = 3, heads = 8, hidden = 256;
  double dropout = 0.1, attention_dropout = 0.1;
  std::string head = "class_token", positions = "sinusoidal";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dim", dim, range(1, 1 << 24), "channels of a token");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("dropout", dropout, range(0, 0.99), "after the embedding, the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("head", head, one_of("class_token", "concatenated"),
      "what the classifier reads: a token added in front, or all time steps concatenated");
    v("positions", positions, one_of("none", "learned", "sinusoidal", "relative"),
      "positions of time steps; learned: only for series of one length; relative: "
      "Transformer-XL's");
  }
};

/// sin and cos of t / 10000^(2i/dim) in channels 2i and 2i + 1: [length, dim].
Tensor sinusoid(std::int64_t length, std::int64_t dim, const at::TensorOptions& options) {
  const auto exact = at::TensorOptions().dtype(at::kDouble);
  const Tensor rate = at::exp(at::arange(0, dim, 2, exact) * (-std::log(10000.0) / double(dim)));
  const Tensor angle = at::arange(length, exact).unsqueeze(1) * rate;
  return at::stack({angle.sin(), angle.cos()}, -1)
      .view({length, -1})
      .narrow(1, 0, dim)
      .contiguous()
      .to(options);
}

class SeriesEmbedding : public torch::nn::Module {
 public:
  SeriesEmbedding(std::int64_t channels, std::int64_t dim) {
    // Kaiming's normal for leaky rectifiers of slope 0.01. The library's call leaves the slope at
    // PyTorch's 0, which makes the standard deviation larger by 1 in 20,000; recorded numbers keep
    // it.
    const double std = std::sqrt(2 / (1 + 0.01 * 0.01) / double(3 * channels));
    weight = register_parameter("weight", at::empty({dim, 3, channels}).normal_(0, std));
  }

  /// @param series  [B, L, C]
  /// @param length  [B] int64, where the convolution turns round; undefined: at L
  /// @returns [B, L, dim].
  Tensor forward(const Tensor& series, const Tensor& length) const {
    Tensor before = series.roll(1, 1), after = series.roll(-1, 1);
    if (length.defined()) {
      const Tensor last = (length - 1).view({-1, 1, 1}).expand({-1, 1, series.size(2)});
      before.narrow(1, 0, 1).copy_(series.gather(1, last));
      after.scatter_(1, last, series.narrow(1, 0, 1));
    }
    return attnlab::linear(at::cat({before, series, after}, -1), weight.flatten(1), {});
  }

  Tensor weight;  ///< [dim, 3, C]: the time step before, at and after
};

class TimeseriesTransformer final : public Model {
 public:
  TimeseriesTransformer(const TimeseriesTransformerOptions& options, const ModelSetup& setup)
      : options_(options) {
    const std::vector<std::int64_t> series = checked_series(setup.data);
    const std::int64_t dim = options_.dim;
    embedding_ = register_module("embedding", std::make_shared<SeriesEmbedding>(series.at(1), dim));
    if (has_class_token()) {
      Tensor token = at::empty({1, 1, dim});
      fill_truncated_normal(token);
      class_token_ = register_parameter("class_token", token);
    }
    for (std::int64_t i = 0; i < options_.depth; ++i) {
      layers_.push_back(register_module(fmt::format("layer{}", i),
                                        norm_last_layer(options_, i, setup.attention)));
      if (options_.positions != "relative") continue;
      relative_.push_back(register_module(fmt::format("relative{}", i),
                                          std::make_shared<RelativeKeys>(dim, options_.heads)));
    }
    if (options_.positions == "learned") {
      learned_ = register_parameter("positions", at::empty({series.at(0), dim}).normal_(0, 0.02));
    }
    check_padding(setup.data);
    norm_ = register_module("norm", std::make_shared<LayerNorm>(dim, 1e-5));
    head_ = register_module(
        "head",
        std::make_shared<Linear>(has_class_token() ? dim : dim * series.at(0), setup.data.classes));
    start_uniform(*head_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor* valid = batch.fields.find("valid");
    const Tensor series = batch.fields.at("series").to(head_->weight.scalar_type());
    Tensor x = embedding_->forward(series, valid == nullptr ? Tensor() : batch.fields.at("length"));
    x = drop(placed(x));
    AttentionExtras extras;
    if (class_token_.defined()) x = at::cat({class_token_.expand({x.size(0), 1, -1}), x}, 1);
    if (valid != nullptr) {
      extras.visible.key_valid =
          class_token_.defined() ? at::constant_pad_nd(*valid, {1, 0}, true) : *valid;
      if (couples_queries()) extras.visible.query_valid = extras.visible.key_valid;
    }
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    Tensor distances;
    if (!relative_.empty()) {
      distances = sinusoids_of_distances(x.size(1), x.size(1), options_.dim, x.options());
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (distances.defined()) extras.relative = relative_[i]->forward(distances);
      x = layers_[i]->forward({x}, context, extras).sum();
      ++context.layer;
    }
    return {{"logits", class_token_.defined() ? head_->forward(norm_->forward(x.select(1, 0)))
                                              : concatenated(norm_->forward(x), batch)}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    const bool place =
        name == "positions" || (name.starts_with("relative") && name.ends_with("_bias"));
    return name != "class_token" && !place && Model::decays(name, parameter);
  }

 private:
  bool has_class_token() const { return options_.head == "class_token"; }
  /// Elsewhere queries of padding only give what nobody reads.
  bool couples_queries() const {
    return std::any_of(layers_.begin(), layers_.end(),
                       [](const auto& layer) { return layer->attention().couples_queries(); });
  }

  /// The shape [L or -1, C] of the dataset's series.
  std::vector<std::int64_t> checked_series(const DatasetInfo& data) const {
    std::vector<std::int64_t> series = data.field("series").shape;
    if (series.size() != 2 || series[1] <= 0) {
      throw ShapeError(fmt::format(
          "timeseries_transformer needs series [L, C]; dataset '{}' gives another shape",
          data.name));
    }
    if (data.classes <= 0) {
      throw DataError(fmt::format(
          "timeseries_transformer classifies, and dataset '{}' has no classes", data.name));
    }
    check_heads(options_.dim, options_.heads);
    if (options_.positions == "learned" && series[0] < 0) {
      throw OptionError("positions",
                        "learned are for series of one length; let the dataset pad all alike (uea: "
                        "padding: maximum or published), or choose sinusoidal");
    }
    if (options_.positions == "relative" && options_.dim % 2 != 0) {
      throw OptionError("dim", "is odd, and relative positions come in pairs; make it even");
    }
    if (!has_class_token() && series[0] < 0) {
      throw OptionError("head",
                        "concatenated reads series of one length; let the dataset pad all alike "
                        "(uea: padding: maximum or published), or choose class_token");
    }
    return series;
  }

  /// Padding must be honoured where the data mark it; known before anything runs.
  void check_padding(const DatasetInfo& data) const {
    const auto& fields = data.fields;
    const bool marked = std::any_of(fields.begin(), fields.end(),
                                    [](const FieldInfo& field) { return field.name == "valid"; });
    const bool honoured = std::all_of(layers_.begin(), layers_.end(), [](const auto& layer) {
      return layer->attention().traits().padding;
    });
    if (!marked || honoured) return;
    throw TraitError(
        fmt::format("the series of dataset '{}' differ in length, and this attention does not "
                    "honour 'padding'; choose another attention, or pad as published code does "
                    "(uea: padding: published)",
                    data.name));
  }

  Tensor drop(const Tensor& x) const {
    return is_training() && options_.dropout > 0 ? dropout(x, options_.dropout) : x;
  }

  /// Time steps with their positions. @param x  [B, L, dim]
  Tensor placed(const Tensor& x) {
    const std::int64_t length = x.size(1);
    if (options_.positions == "sinusoidal") return x + sinusoids_to(length, x.options());
    if (!learned_.defined()) return x;
    if (length > learned_.size(0)) {
      throw ShapeError(
          fmt::format("timeseries_transformer has learned positions for {} time steps, and this "
                      "batch has {}; cut its series, or take other positions",
                      learned_.size(0), length));
    }
    return x + learned_.narrow(0, 0, length);
  }

  /// The first `length` rows of a table that grows where it must.
  Tensor sinusoids_to(std::int64_t length, const at::TensorOptions& options) {
    const bool fits = sinusoids_.defined() && sinusoids_.size(0) >= length &&
                      sinusoids_.dtype() == options.dtype() &&
                      sinusoids_.device() == options.device();
    if (!fits) sinusoids_ = sinusoid(length, options_.dim, options.requires_grad(false));
    return sinusoids_.narrow(0, 0, length);
  }

  /// @param tokens  [B, L, dim]
  Tensor concatenated(const Tensor& tokens, const Batch& batch) const {
    if (tokens.size(1) * options_.dim != head_->weight.size(1)) {
      throw ShapeError(
          fmt::format("timeseries_transformer: the concatenated head was built for series of {} "
                      "time steps, this batch has {}",
                      head_->weight.size(1) / options_.dim, tokens.size(1)));
    }
    const Tensor& length = batch.fields.at("length");
    const Tensor real = at::arange(tokens.size(1), length.options()) < length.unsqueeze(1);
    const Tensor features = drop(at::gelu(tokens)) * real.unsqueeze(-1);
    return head_->forward(features.flatten(1));
  }

  TimeseriesTransformerOptions options_;
  std::shared_ptr<SeriesEmbedding> embedding_;
  Tensor class_token_;  ///< [1, 1, dim]; undefined with the concatenated head
  Tensor sinusoids_;    ///< [longest so far, dim]
  Tensor learned_;      ///< [L, dim]; undefined with other positions
  std::vector<std::shared_ptr<TransformerLayer>> layers_;
  std::vector<std::shared_ptr<RelativeKeys>> relative_;  ///< one for each layer; empty: none
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

ATTNLAB_PLUGIN(model, TimeseriesTransformer, TimeseriesTransformerOptions,
               {.id = "attnlab/timeseries_transformer",
                .version = "1.0.0",
                .summary = "classifier of time series, post-norm, as in the Time-Series-Library",
                .citation = "Wang et al., Deep time series models, 2024, arXiv:2407.13278",
                .licence = "Apache-2.0",
                .takes = {"series", "length"},
                .gives = {"logits"},
                .needs = {"relative_positions if positions=relative"},
                .stacks = {"depth"},
                .recompute = true})

}  // namespace attnlab
