// Transformer LM: a causal language model of fixed context.
//
//   gpt2            x = E[t] + P,            layers with the norm first,   h = LN(x)
//   transformer_xl  x = E[t] sqrt(dim) + S,  layers with the norm last,    h = x
//   nll_i = -log p(target_i | t_0 .. t_i),   p = softmax(h E^T), plain or adaptive (tied_softmax.h)
//
// P is learned. S is sinusoids sin | cos; "reversed" gives place i of a context of n tokens the
// number n - 1 - i, as the published code does where windows are n tokens long. A place means the
// same in shorter lines, so that a line gives the same alone and padded. "relative" adds nothing to
// x and gives each layer Transformer-XL's positions, with a W_r, u and w of its own.
//
// `norm: rms` and `mlp: swiglu` are those of transformer_layer.h, in either style; with
// `biases: none`, `positions: none` and attention.positions they make LLaMA's layer.
//
// With `answers` it also gives the most likely token of each place that has a target, -1 elsewhere.
//
// A batch without targets asks for `logits`, the log-probabilities of what follows its last tokens.
// Keys and values stay in `carried` then, so that a next token costs one pass over what came
// before; where the context is full it begins again with the last half of it.
// Source: Radford et al. 2019 (GPT-2), sizes and start of nanoGPT (commit 3adf61e, "bias": False);
// Small and Medium: Schlag et al., ICML 2021, code IDSIA/lmtool-fwp (attn_type 2), which QUEST's
// language models follow. Cost: O(depth L dim (L + dim)), and the softmax.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/language.h"
#include "framework/nn/modules/relative_positions.h"
#include "framework/nn/modules/tied_softmax.h"
#include "framework/nn/modules/transformer_layer.h"
#include "plugins/models/transformer_lm/options.h"

namespace attnlab {
namespace {

TransformerLayerOptions layer_options(const TransformerLmOptions& o, std::int64_t index) {
  TransformerLayerOptions layer;
  layer.attention.dim = o.dim;
  layer.attention.heads = o.heads;
  layer.attention.qkv_bias = layer.attention.output_bias = o.biases == "all";
  layer.attention.attention_dropout = o.attention_dropout;
  layer.attention.dropout = o.dropout;
  layer.attention.layer = index;
  layer.attention.layers = o.depth;
  layer.mlp = {.dim = o.dim,
               .hidden = o.swiglu() ? gated_hidden(o.hidden, o.swiglu_multiple) : o.hidden,
               .activation = o.activation_kind(),
               .swiglu = o.swiglu(),
               .bias = o.biases != "none",
               .hidden_dropout = o.gpt2() ? 0 : o.dropout,
               .dropout = o.dropout};
  layer.norm_first = o.gpt2();
  layer.norm = o.norm_kind();
  layer.norm_bias = o.biases != "none";
  return layer;
}

class TransformerLm final : public Model {
 public:
  TransformerLm(const TransformerLmOptions& given, const ModelSetup& setup)
      : options_(resolve(given, window_of(setup.data))) {
    const TransformerLmOptions& o = options_;
    table_ = register_module("table", std::make_shared<TiedSoftmax>(TiedSoftmaxOptions{
                                          setup.data.vocabulary, o.dim, o.cutoffs, !o.gpt2()}));
    if (o.positions == "learned") {
      learned_ =
          register_parameter("positions", at::empty({o.context, o.dim}).normal_(0, o.initial_std));
    }
    const double layers = static_cast<double>(o.depth);
    for (std::int64_t i = 0; i < o.depth; ++i) {
      layers_.push_back(register_module(
          fmt::format("layer{}", i),
          std::make_shared<TransformerLayer>(layer_options(o, i), setup.attention)));
      layers_.back()->start(o.initial_std, o.gpt2() ? 0 : o.initial_std,
                            o.initial_std / (o.gpt2() ? std::sqrt(2 * layers) : 1));
      if (o.positions != "relative") continue;
      relative_.push_back(register_module(fmt::format("relative{}", i),
                                          std::make_shared<RelativeKeys>(o.dim, o.heads)));
    }
    if (o.gpt2()) {
      norm_ = register_module(
          "norm", std::make_shared<LayerNorm>(o.dim, 1e-5, 1, o.biases != "none", o.norm_kind()));
    }
    for (const auto& layer : layers_) check_padding(setup.data, layer->attention());
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const TokenBatch in(batch);
    if (!in.targets.defined()) return {{"logits", next(in, pass)}};
    const Tensor hidden = encoded(in, 0, pass, nullptr);
    NamedTensors outputs = {{"nll", table_->nll(hidden, in.targets)}};
    if (options_.answers) outputs.set("answers", answers(hidden, in.targets));
    return outputs;
  }

  std::vector<FieldInfo> outputs() const override {
    std::vector<FieldInfo> all = {
        {.name = "nll", .shape = {-1}, .dtype = table_->weight.scalar_type()}};
    if (options_.answers) all.push_back({.name = "answers", .shape = {-1}, .dtype = at::kLong});
    return all;
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    const bool place = name.starts_with("relative") && name.ends_with("_bias");
    return !place && Model::decays(name, parameter);
  }

  /// Layers from 1 on, table and positions 0 (the table is the softmax's, too), the norm at the end
  /// behind the last layer.
  std::int64_t depth(const std::string& name) const override {
    const std::int64_t layer =
        std::max(number_behind("layer", name), number_behind("relative", name));
    if (layer >= 0) return 1 + layer;
    return name.starts_with("norm.") ? 1 + options_.depth : 0;
  }

 private:
  /// The most likely token where there is a target, else -1, [B, L].
  Tensor answers(const Tensor& hidden, const Tensor& targets) const {
    const at::NoGradGuard no_gradients;
    const Tensor asked = targets.flatten().ge(0).nonzero().squeeze(1);
    const Tensor rows = hidden.flatten(0, 1).index_select(0, asked);
    const Tensor none = at::full({targets.numel()}, -1, targets.options());
    return none.index_copy(0, asked, table_->log_probabilities(rows).argmax(1))
        .view(targets.sizes());
  }

  /// Log-probabilities of what follows the last tokens, [B, vocabulary].
  Tensor next(TokenBatch in, ForwardPass& pass) {
    std::vector<KeyCache> caches;
    std::int64_t first = 0;
    if (pass.carried != nullptr) {
      NamedTensors& kept = *pass.carried;
      caches = read_caches(kept, options_.depth);
      if (kept.size() > 0) first = kept.at("tokens").size(1);
      const Tensor all = first > 0 ? at::cat({kept.at("tokens"), in.tokens}, 1) : in.tokens;
      kept.set("tokens", all);
      if (options_.context > 0 && all.size(1) > options_.context) {
        in.tokens = last_of(all, 1, (options_.context + 1) / 2);
        kept.set("tokens", in.tokens);
        caches = read_caches({}, options_.depth);
        first = 0;
      }
    }
    const Tensor hidden = encoded(in, first, pass, pass.carried == nullptr ? nullptr : &caches);
    if (pass.carried != nullptr) write_caches(caches, 0, *pass.carried);
    return table_->log_probabilities(hidden.select(1, in.length() - 1));
  }

  /// @param first   place of the first token
  /// @param caches  of earlier tokens, which grow; null: there are none
  /// @returns [B, L, dim], what the softmax reads.
  Tensor encoded(const TokenBatch& in, std::int64_t first, ForwardPass& pass,
                 std::vector<KeyCache>* caches) {
    Tensor x = table_->embed(in.tokens);
    if (!options_.gpt2()) x = x * std::sqrt(static_cast<double>(options_.dim));
    Tensor distances;
    if (!relative_.empty()) {
      distances =
          drop(sinusoids_of_distances(in.length(), first + in.length(), options_.dim, x.options()));
    } else if (options_.positions != "none") {
      x = x + places(first, in.length(), x.options());
    }
    x = drop(x);
    AttentionExtras extras;
    extras.visible.causal = true;
    extras.visible.key_valid = in.valid;
    set_places(first, in.length(), extras);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    Residual residual{x};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (distances.defined()) extras.relative = relative_[i]->forward(distances);
      residual = caches == nullptr
                     ? layers_[i]->forward(residual, context, extras)
                     : layers_[i]->forward_cached(residual, (*caches)[i], context, extras);
      ++context.layer;
    }
    return norm_ == nullptr ? drop(residual.sum()) : residual.normed(*norm_).norm;
  }

  /// [count, dim]
  Tensor places(std::int64_t first, std::int64_t count, const at::TensorOptions& options) {
    const std::int64_t end = first + count;
    if (learned_.defined()) {
      if (end > options_.context) {
        throw ShapeError(
            fmt::format("transformer_lm has learned positions for {} tokens, and this line has {}; "
                        "cut it, or train with a longer context",
                        options_.context, end));
      }
      return learned_.narrow(0, first, count);
    }
    const std::int64_t rows = std::max(options_.context, end);
    if (!sinusoids_.defined() || sinusoids_.size(0) != rows ||
        sinusoids_.dtype() != options.dtype() || sinusoids_.device() != options.device()) {
      const Tensor numbers = at::arange(rows);
      sinusoids_ = sinusoids(options_.positions == "reversed" ? numbers.flip(0) : numbers,
                             options_.dim, options);
    }
    return sinusoids_.narrow(0, first, count);
  }

  Tensor drop(const Tensor& x) const {
    return is_training() && options_.dropout > 0 ? dropout(x, options_.dropout) : x;
  }

  TransformerLmOptions options_;
  std::shared_ptr<TiedSoftmax> table_;
  Tensor learned_;    ///< [context, dim]; undefined with other positions
  Tensor sinusoids_;  ///< [context or more, dim], made when first asked for
  std::vector<std::shared_ptr<TransformerLayer>> layers_;
  std::vector<std::shared_ptr<RelativeKeys>> relative_;  ///< one for each layer; empty: none
  std::shared_ptr<LayerNorm> norm_;                      ///< null where norms come last
};

}  // namespace

ATTNLAB_PLUGIN(
    model, TransformerLm, TransformerLmOptions,
    {.id = "attnlab/transformer_lm",
     .version = "1.0.0",
     .summary = "causal language model of fixed context, in the style of GPT-2 or Transformer-XL",
     .citation = "Radford et al., Language models are unsupervised multitask learners, "
                 "2019; Schlag et al., ICML 2021; QUEST, ICLR 2026, section 4.4",
     .licence = "Apache-2.0",
     .takes = {"tokens", "targets", "tokens_valid?"},
     .gives = {"nll", "answers if answers=true", "logits?"},
     .needs = {"causal", "relative_positions if positions=relative"},
     .stacks = {"depth"},
     .recompute = true})

}  // namespace attnlab
