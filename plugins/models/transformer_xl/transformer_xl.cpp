// Transformer-XL: a language model whose batches continue each other, with a memory of the segment
// before and relative positions.
//
//   x   = E[t] sqrt(dim),   m = what this layer was given for the `memory` tokens before
//   q   = x W_q,   k, v = [m; x] W_k, [m; x] W_v,   r_d = W_r S(min(d, clamp_length))
//   A_ij = ((q_i + u) . k_j + (q_i + w) . r_{i-j}) / sqrt(D)      for j <= i; D channels per head
//   x   = LN(x + softmax(A) v W_o),   x = LN(x + Mlp(x))          depth times
//   nll_i = -log p(target_i | what came before), p = softmax(x E^T), adaptive or plain
//
// S are sinusoids sin | cos. u and w are [heads, D], shared by all layers. The memory is cut off
// from the gradient. A is the standard attention's: another one maps q + u, q + w, k and r as it
// does queries and keys (RelativePositions), so QUEST brings k and r to unit length and drops
// 1 / sqrt(D). Its paper does not say what becomes of r; `position_term: plain` is the other
// reading. `positions: none` leaves r, u and w out, for `attention.positions`.
//
// A batch without targets asks for `logits`, the log-probabilities of what follows its last tokens.
// Keys, values and places then stay in `carried`: with the weights at rest they are what the
// memory's inputs would give again. They reach back as far as a segment's last token does in
// training. Of a long text windows are read one after the other, each with `memory` tokens before
// it, as an evaluation's segments are, so that what follows it is as likely as there and memory
// stays bounded. Source: Dai et al., ACL 2019, arXiv:1901.02860, and its code (commit 44781ed,
// attn_type 0); QUEST, ICLR 2026, section 4.4. Cost: O(depth L (dim^2 + (L + memory) dim)), and the
// softmax.
#include <fmt/format.h>

#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/language.h"
#include "framework/nn/modules/relative_positions.h"
#include "framework/nn/modules/tied_softmax.h"
#include "framework/nn/modules/transformer_layer.h"
#include "plugins/models/transformer_xl/options.h"

namespace attnlab {
namespace {

constexpr double kStd = 0.02;

TransformerLayerOptions layer_options(const TransformerXlOptions& o, std::int64_t index) {
  TransformerLayerOptions layer;
  layer.attention.dim = o.dim;
  layer.attention.heads = o.heads;
  layer.attention.qkv_bias = layer.attention.output_bias = false;
  layer.attention.attention_dropout = o.attention_dropout;
  layer.attention.dropout = o.dropout;
  layer.attention.layer = index;
  layer.attention.layers = o.depth;
  layer.mlp = {.dim = o.dim,
               .hidden = o.swiglu() ? gated_hidden(o.hidden, o.swiglu_multiple) : o.hidden,
               .activation = Activation::relu,
               .swiglu = o.swiglu(),
               .hidden_dropout = o.dropout,
               .dropout = o.dropout};
  layer.norm_first = o.norm == "first";
  layer.norm = o.norm_kind == "rms" ? NormKind::rms : NormKind::layer;
  return layer;
}

/// u and w.
struct PositionBiases {
  Tensor content, position;  ///< [heads, D]; undefined: 0

  PositionBiases() = default;
  PositionBiases(torch::nn::Module& owner, const TransformerXlOptions& o) {
    const auto learned = [&](const char* name) {
      return owner.register_parameter(name, at::empty({o.heads, o.dim / o.heads}).normal_(0, kStd));
    };
    content = learned("content_bias");
    position = learned("position_bias");
  }
};

class XlLayer : public torch::nn::Module {
 public:
  XlLayer(const TransformerXlOptions& o, std::int64_t index, const AttentionBuilder& attention)
      : heads_(o.heads) {
    layer_ = register_module(
        "layer", std::make_shared<TransformerLayer>(layer_options(o, index), attention));
    layer_->start(kStd, kStd, kStd);
    if (!o.relative()) return;
    places_ = register_module("places", std::make_shared<Linear>(o.dim, o.dim, false));
    start_normal(*this, kStd);
    if (o.biases == "layer") own_ = PositionBiases(*this, o);
  }

  TransformerLayer& layer() { return *layer_; }

  /// @param sinusoids  [n, dim]
  /// @returns r, [H, n, D].
  Tensor places(const Tensor& sinusoids) const {
    return places_->forward(sinusoids).view({sinusoids.size(0), heads_, -1}).transpose(0, 1);
  }

  /// @param places   [H, Lk, D], for distances Lk - 1 to 0
  /// @param queries  Lq: distances of later tokens follow, which the causal rule hides
  RelativePositions relative(const Tensor& places, std::int64_t queries,
                             const PositionBiases& shared) const {
    const PositionBiases& biases = own_.content.defined() ? own_ : shared;
    return {at::constant_pad_nd(places, {0, 0, 0, queries - 1}), biases.content, biases.position};
  }

 private:
  std::int64_t heads_;
  std::shared_ptr<TransformerLayer> layer_;
  std::shared_ptr<Linear> places_;  ///< W_r; null without relative positions
  PositionBiases own_;              ///< undefined unless each layer has its own
};

class TransformerXl final : public Model {
 public:
  TransformerXl(const TransformerXlOptions& given, const ModelSetup& setup)
      : options_(resolve(given, window_of(setup.data))) {
    const TransformerXlOptions& o = options_;
    window_ = window_of(setup.data);
    if (window_ > 0) reach_ = std::max<std::int64_t>(1, o.memory + window_ - 1);
    table_ = register_module("table", std::make_shared<TiedSoftmax>(TiedSoftmaxOptions{
                                          setup.data.vocabulary, o.dim, o.cutoffs, true}));
    if (o.relative() && o.biases == "shared") biases_ = PositionBiases(*this, o);
    for (std::int64_t i = 0; i < o.depth; ++i) {
      layers_.push_back(register_module(fmt::format("layer{}", i),
                                        std::make_shared<XlLayer>(o, i, setup.attention)));
    }
    for (const auto& layer : layers_) {
      check_traits(layer->layer().attention());
      check_padding(setup.data, layer->layer().attention());
    }
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const TokenBatch in(batch);
    if (!in.targets.defined()) return {{"logits", next(in, pass)}};
    return {{"nll", table_->nll(remembering(in, pass), in.targets)}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {{.name = "nll", .shape = {-1}, .dtype = table_->weight.scalar_type()}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return !name.ends_with("_bias") && Model::decays(name, parameter);
  }

  /// Layers from 1 on; what they share (the table, u and w) 0.
  std::int64_t depth(const std::string& name) const override {
    return 1 + number_behind("layer", name);
  }

 private:
  /// Known before anything runs.
  void check_traits(const Attention& attention) const {
    if (options_.same_length && !attention.traits().window) {
      throw TraitError(
          "transformer_xl with same_length needs an attention that honours 'window'; choose "
          "another, or same_length: false");
    }
    if (attention.couples_queries()) {
      throw TraitError(
          "transformer_xl asks with the queries of one segment, and with this attention they "
          "depend on those of earlier segments; choose another attention, or transformer_lm");
    }
    if (!options_.relative() && attention.remembers()) {
      throw TraitError(
          "transformer_xl forgets what lies behind its memory, and this attention keeps all tokens "
          "in a memory of its own; choose another attention, or transformer_lm");
    }
    if (options_.relative() && options_.position_term == "plain" && !attention.traits().bias) {
      throw TraitError(
          "transformer_xl with position_term: plain needs an attention that honours 'bias'; choose "
          "another, or position_term: mapped");
    }
  }

  Tensor embedded(const TokenBatch& in) const {
    return drop(table_->embed(in.tokens) * std::sqrt(static_cast<double>(options_.dim)));
  }

  /// S of distances keys - 1 down to 0, [keys, dim].
  Tensor distances(std::int64_t keys, const at::TensorOptions& options) {
    if (!sinusoids_.defined() || sinusoids_.size(0) < keys ||
        sinusoids_.dtype() != options.dtype() || sinusoids_.device() != options.device()) {
      Tensor numbers = at::arange(keys).flip(0);
      if (options_.clamp_length > 0) numbers = numbers.clamp_max(options_.clamp_length);
      sinusoids_ = sinusoids(numbers, options_.dim, options);
    }
    return last_of(sinusoids_, 0, keys);
  }

  AttentionExtras extras() const {
    AttentionExtras extras;
    extras.visible.causal = true;
    if (options_.same_length) extras.visible.window = options_.memory;
    extras.relative_as_bias = options_.relative() && options_.position_term == "plain";
    return extras;
  }

  /// Which tokens of memory and segment are real, [B, m + L]; undefined: all.
  static Tensor valid_keys(const TokenBatch& in, const NamedTensors& before, std::int64_t memory) {
    const Tensor* kept = before.find("valid");
    if (kept == nullptr && !in.valid.defined()) return {};
    const auto all_real = [&](std::int64_t length) {
      return at::ones({in.tokens.size(0), length}, in.tokens.options().dtype(at::kBool));
    };
    return at::cat({kept == nullptr ? all_real(memory) : *kept,
                    in.valid.defined() ? in.valid : all_real(in.length())},
                   1);
  }

  /// [B, L, dim], what the softmax reads, with the memory that `pass` carries.
  Tensor remembering(const TokenBatch& in, ForwardPass& pass) {
    const bool remembers = options_.memory > 0 && pass.carried != nullptr;
    const NamedTensors before = remembers ? std::exchange(*pass.carried, {}) : NamedTensors();
    const std::int64_t memory = before.size() == 0 ? 0 : before.at("memory0").size(1);
    Tensor x = embedded(in);
    Tensor sines;
    if (options_.relative()) sines = drop(distances(memory + in.length(), x.options()));
    AttentionExtras extras = this->extras();
    extras.visible.key_valid = valid_keys(in, before, memory);
    set_places(memory, in.length(), extras);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      const std::string name = fmt::format("memory{}", context.layer);
      const Tensor kept = memory > 0 ? before.at(name) : Tensor();
      if (remembers) {
        const Tensor seen =
            kept.defined() && in.length() < options_.memory ? at::cat({kept, x}, 1) : x;
        pass.carried->set(name, last_of(seen, 1, options_.memory).detach());
      }
      if (sines.defined()) {
        extras.relative = layer->relative(layer->places(sines), in.length(), biases_);
      }
      x = layer->layer().forward({x}, context, extras, kept).sum();
      ++context.layer;
    }
    if (remembers && extras.visible.key_valid.defined()) {
      pass.carried->set("valid", last_of(extras.visible.key_valid, 1, options_.memory));
    }
    return drop(x);
  }

  /// Log-probabilities of what follows the last tokens, [B, vocabulary].
  Tensor next(const TokenBatch& in, ForwardPass& pass) {
    NamedTensors none;
    NamedTensors& kept = pass.carried == nullptr ? none : *pass.carried;
    std::vector<KeyCache> caches = read_caches(kept, options_.depth);
    const std::int64_t all = in.length(), most = window_ > 0 ? window_ : all;
    Tensor x;
    for (std::int64_t begin = 0, n = 0; begin < all; begin += n) {
      // What is not a whole window is read first: the last token sees as far as that of a segment
      // does.
      n = begin == 0 && all % most != 0 ? all % most : most;
      TokenBatch piece = in;
      piece.tokens = in.tokens.narrow(1, begin, n);
      if (window_ > 0) {
        // Of earlier calls stays what the last token of this piece may see.
        keep_last(caches, begin > 0 ? options_.memory : reach_ + 1 - piece.length());
      }
      x = read(piece, caches, kept, pass);
    }
    write_caches(caches, reach_, kept);
    return table_->log_probabilities(x.select(1, x.size(1) - 1));
  }

  static void keep_last(std::vector<KeyCache>& caches, std::int64_t n) {
    for (KeyCache& cache : caches) cache = n > 0 ? cache.last(n) : KeyCache();
  }

  /// [B, L, dim], what the softmax reads, behind the tokens of the caches, which grow.
  Tensor read(const TokenBatch& in, std::vector<KeyCache>& caches, NamedTensors& kept,
              ForwardPass& pass) {
    const std::int64_t before = caches[0].tokens();
    Tensor x = embedded(in);
    Tensor sines;
    if (options_.relative()) sines = distances(before + in.length(), x.options());
    AttentionExtras extras = this->extras();
    set_places(before, in.length(), extras);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      const auto i = static_cast<std::size_t>(context.layer);
      if (sines.defined()) {
        const Tensor places = known_places(*layer, sines, fmt::format("places{}", i), in, kept);
        extras.relative = layer->relative(places, in.length(), biases_);
      }
      x = layer->layer().forward_cached({x}, caches[i], context, extras).sum();
      ++context.layer;
    }
    return x;
  }

  /// r of all distances, [H, n, D]: those that are not in `kept` are mapped, and put there.
  static Tensor known_places(const XlLayer& layer, const Tensor& sines, const std::string& name,
                             const TokenBatch& in, NamedTensors& kept) {
    const std::int64_t rows = sines.size(0);
    const Tensor* known = kept.find(name);
    Tensor places = known == nullptr ? Tensor() : last_of((*known)[0], 1, rows);
    const std::int64_t more = rows - (known == nullptr ? 0 : places.size(1));
    if (more > 0) {
      const Tensor new_places = layer.places(sines.narrow(0, 0, more));
      places = known == nullptr ? new_places : at::cat({new_places, places}, 1);
      kept.set(name, places.detach().unsqueeze(0).expand({in.tokens.size(0), -1, -1, -1}));
    }
    return places;
  }

  Tensor drop(const Tensor& x) const {
    return is_training() && options_.dropout > 0 ? dropout(x, options_.dropout) : x;
  }

  TransformerXlOptions options_;
  std::int64_t window_ = -1;  ///< tokens of the dataset's examples; -1: they differ
  std::int64_t reach_ = 0;    ///< tokens before a new one that it sees; 0: all
  std::shared_ptr<TiedSoftmax> table_;
  PositionBiases biases_;  ///< undefined where layers have their own, or none
  std::vector<std::shared_ptr<XlLayer>> layers_;
  Tensor sinusoids_;  ///< of the longest reach so far, the largest distance first
};

}  // namespace

ATTNLAB_PLUGIN(model, TransformerXl, TransformerXlOptions,
               {.id = "attnlab/transformer_xl",
                .version = "1.0.0",
                .summary = "language model with a memory of the segment before, relative positions",
                .citation = "Dai et al., Transformer-XL, ACL 2019, arXiv:1901.02860; QUEST, ICLR "
                            "2026, section 4.4",
                .licence = "Apache-2.0",
                .takes = {"tokens", "targets", "tokens_valid?"},
                .gives = {"nll", "logits?"},
                .needs = {"causal", "different_lengths",
                          "relative_positions if positions=relative"},
                .stacks = {"depth"},
                .recompute = true})

}  // namespace attnlab
