// PatchTST: a transformer over patches of each channel by itself, for forecasting.
//
//   x        = instance norm of the series; then [B, L, C] is B C series of one channel
//   patches  = windows of `patch` steps, `stride` apart; `padding`: the last value is written
//              `stride` times behind it first.   N = (L - patch) / stride + 1, rounded down, + 1
//   z        = Dropout(W_p patch + b_p + position)
//   z        = BatchNorm(z + Dropout(MultiHeadAttention(z)))
//   z        = BatchNorm(z + Mlp(z))                               both depth times
//   forecast = instance norm undone(Dropout(W_h flatten(z) + b_h))
//
// Batch norms are over examples, channels and patches. `residual_logits` adds the logits of each
// layer to the next one's, those of all layers before in them, as the published code does and the
// paper does not say; the attention must give logits and take a bias. A pair that one layer hides
// adds nothing. What attention gives is dropped twice, as there. Not here: heads of each channel,
// the affine part of the instance norm, decomposition; the published scripts leave them out. The
// flat map's columns lie patch by patch, there channel by channel. Attentions that read places get
// none: patches stand at 0, 1, 2, ... Source: Nie et al., ICLR 2023; yuqinie98/PatchTST, commit
// 204c21ef, PatchTST_supervised. Cost: O(B C depth N dim (N + dim)).
#include <fmt/format.h>

#include <utility>

#include "framework/contracts/recompute.h"
#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/batch_norm.h"
#include "framework/nn/modules/forecasting.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct PatchTstOptions {
  std::int64_t patch = 16, stride = 8;
  bool padding = true;
  std::int64_t dim = 128, depth = 3, heads = 16, hidden = 256;
  double dropout = 0.2, attention_dropout = 0, head_dropout = 0;
  bool instance_norm = true, residual_logits = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("patch", patch, at_least(1), "time steps of a patch");
    v("stride", stride, at_least(1), "time steps from one patch to the next");
    v("padding", padding, "first append the last value to the series: one more patch");
    v("dim", dim, range(1, 1 << 24), "channels of a token");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("dropout", dropout, range(0, 0.99), "after the embedding, the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("head_dropout", head_dropout, range(0, 0.99), "dropout of the forecast");
    v("instance_norm", instance_norm, "normalise each window, and undo it in the forecast (RevIN)");
    v("residual_logits", residual_logits,
      "add each layer's logits to the next one's, as the published code does");
  }
};

Tensor dropped(const Tensor& x, double p, bool training) {
  return training && p > 0 ? dropout(x, p) : x;
}

class PatchLayer : public torch::nn::Module {
 public:
  PatchLayer(const PatchTstOptions& o, std::int64_t index, const AttentionBuilder& attention)
      : dropout_(o.dropout) {
    const MultiHeadOptions heads = {.dim = o.dim,
                                    .heads = o.heads,
                                    .attention_dropout = o.attention_dropout,
                                    .dropout = o.dropout,
                                    .layer = index,
                                    .layers = o.depth};
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, attention));
    attention_norm_ = register_module("attention_norm", std::make_shared<BatchNorm>(o.dim));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(o.dim, o.hidden, o.dropout));
    mlp_norm_ = register_module("mlp_norm", std::make_shared<BatchNorm>(o.dim));
    start_uniform(*attention_);
    start_uniform(*mlp_);
  }

  /// @param x  [B, N, dim]. @returns the same shape.
  Tensor forward(const Tensor& x, AttentionContext& context, const AttentionExtras& extras) {
    const Tensor attended = attention_->forward(x, context, extras);
    const Tensor y = normed(*attention_norm_, x + dropped(attended, dropout_, is_training()));
    return normed(*mlp_norm_, y + mlp_->forward(y));
  }

 private:
  static Tensor normed(BatchNorm& norm, const Tensor& x) {
    return norm.forward(x.reshape({-1, x.size(2)})).view(x.sizes());
  }

  double dropout_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<BatchNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
};

/// Hands a record with logits and a graph to a trace, as that asks for it.
void hand_on(LayerTrace record, AttentionTrace& asked) {
  if (!asked.logits) record.logits = Tensor();
  for (Tensor* part : {&record.weights, &record.logits, &record.query_norms, &record.key_norms,
                       &record.entropy, &record.bias}) {
    if (part->defined() && !asked.attached) *part = part->detach();
  }
  asked.take(std::move(record));
}

/// One layer whose logits are recorded. @param logits  [B, H, N, N], of the layer before
/// (undefined: none); becomes this layer's, undefined where the attention gives none.
Tensor with_logits(PatchLayer& layer, const Tensor& x, AttentionContext& context, Tensor& logits) {
  AttentionTrace own;
  if (context.trace != nullptr) own = *context.trace;
  own.layers.clear();
  own.on_layer = nullptr;
  own.logits = own.attached = true;
  AttentionContext inner = context;
  inner.trace = &own;
  AttentionExtras extras;
  extras.bias = logits;
  const Tensor y = layer.forward(x, inner, extras);
  logits = own.layers.empty() ? Tensor() : own.layers.front().logits;
  if (logits.defined()) logits = logits.masked_fill(logits.isinf(), 0);
  if (context.trace != nullptr && !own.layers.empty()) {
    hand_on(std::move(own.layers.front()), *context.trace);
  }
  return y;
}

class PatchTst final : public Model {
 public:
  PatchTst(const PatchTstOptions& options, const ModelSetup& setup)
      : options_(options), window_(setup.data, "patch_tst") {
    if (options.patch > window_.lookback) {
      throw OptionError("patch", fmt::format("{} steps are more than the {} of dataset '{}'; make "
                                             "it smaller, or dataset.lookback larger",
                                             options.patch, window_.lookback, setup.data.name));
    }
    check_heads(options.dim, options.heads);
    embedding_ = register_module("embedding", std::make_shared<Linear>(options.patch, options.dim));
    start_uniform(*embedding_);
    positions_ =
        register_parameter("positions", at::empty({patches(), options.dim}).uniform_(-0.02, 0.02));
    for (std::int64_t i = 0; i < options.depth; ++i) {
      layers_.push_back(register_module(fmt::format("layer{}", i),
                                        std::make_shared<PatchLayer>(options, i, setup.attention)));
    }
    head_ =
        register_module("head", std::make_shared<Linear>(patches() * options.dim, window_.horizon));
    start_uniform(*head_);
    if (options.residual_logits) refuse_without_logits();
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor series = window_.series_of(batch, head_->weight.scalar_type());
    if (!options_.instance_norm) return {{"forecast", forecast_of(series, pass)}};
    const InstanceNorm norm(series);
    return {{"forecast", norm.undone(forecast_of(norm.normed(series), pass))}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {window_.forecast_info(head_->weight.scalar_type())};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return name != "positions" && Model::decays(name, parameter);
  }

 private:
  /// N
  std::int64_t patches() const {
    return (window_.lookback - options_.patch) / options_.stride + 1 + (options_.padding ? 1 : 0);
  }

  /// @param series  [B, L, C]. @returns [B, T, C].
  Tensor forecast_of(const Tensor& series, ForwardPass& pass) {
    const std::int64_t examples = series.size(0), channels = series.size(2);
    Tensor x = series.transpose(1, 2);
    if (options_.padding) {
      x = at::cat({x, x.narrow(2, x.size(2) - 1, 1).expand({-1, -1, options_.stride})}, 2);
    }
    x = embedding_->forward(x.unfold(2, options_.patch, options_.stride)).flatten(0, 1);
    x = dropped(x + positions_, options_.dropout, is_training());
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    Tensor logits;
    for (const std::shared_ptr<PatchLayer>& layer : layers_) {
      const auto pass = [layer, residual = options_.residual_logits](const std::vector<Tensor>& in,
                                                                     AttentionContext& own) {
        if (!residual) return std::vector<Tensor>{layer->forward(in[0], own, {}), {}};
        Tensor given = in[1];
        const Tensor y = with_logits(*layer, in[0], own, given);
        return std::vector<Tensor>{y, given};
      };
      const std::vector<Tensor> out = recomputed(*layer, {x, logits}, context, pass);
      x = out[0];
      logits = out[1];
      ++context.layer;
    }
    x = head_->forward(x.reshape({examples, channels, -1}));
    return dropped(x, options_.head_dropout, is_training()).transpose(1, 2);
  }

  /// Known before anything runs: asks the first layer for logits, and with them as a bias.
  void refuse_without_logits() {
    const at::NoGradGuard no_gradients;
    PatchLayer& layer = *layers_.front();
    layer.eval();
    ForwardState state;
    AttentionContext context{0, &state};
    Tensor logits;
    const Tensor zeros = at::zeros({1, patches(), options_.dim});
    with_logits(layer, zeros, context, logits);
    const bool given = logits.defined();
    if (given) with_logits(layer, zeros, context, logits);
    layer.train();
    if (given) return;
    throw TraitError(
        "patch_tst: this attention gives no logits, which residual_logits adds to the next "
        "layer's; choose another attention, or set model.residual_logits=false");
  }

  PatchTstOptions options_;
  ForecastWindow window_;
  std::shared_ptr<Linear> embedding_;
  Tensor positions_;  ///< [N, dim]
  std::vector<std::shared_ptr<PatchLayer>> layers_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(model, PatchTst, PatchTstOptions,
               {.id = "attnlab/patch_tst",
                .version = "1.0.0",
                .summary = "forecasts each channel by attention between patches of its past",
                .citation = "Nie et al., A time series is worth 64 words, ICLR 2023, "
                            "arXiv:2211.14730",
                .licence = "Apache-2.0",
                .takes = {"series", "future"},
                .gives = {"forecast"},
                .needs = {"bias if residual_logits=true"},
                .stacks = {"depth"},
                .recompute = true})

}  // namespace attnlab
