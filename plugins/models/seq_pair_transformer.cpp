// Sequence pair transformer: a stack of layers whose keys may come from one sequence and whose
// values come from another.
//
//   C = E[condition] + P_C,   Y = E[content] + P_Y,   x_i = m_i + Y_i     (cross: or + C_i)
//   x = x + Attention(LN(x) W_Q, K W_K, V W_V)                            depth times
//   x = x + MLP(LN(x))
//   logits = W LN(x_i) + b    one for each token, or one for all from the pooled tokens
//
//   wiring: two_sources   K = C, V = Y   indirect attention (attention: indirect) and the naive
//                                        misaligned form (attention: misaligned)
//   wiring: cross         K = V          the sequence that the queries do not come from
//
// In two_sources a padded slot of the condition stays visible, because it carries a value of the
// content; in cross, padding is hidden. Where the condition asks, its padding counts neither in the
// pooled answer nor among the queries. m, E and P are learned; C and Y are the same for all layers.
// With `self_attention` each layer first lets queries see each other, by standard attention
// whatever the attention under study is; it is not traced.
// Source: Indirect Attention, sections 5 and 6.1 (6 layers, 4 heads, 128 channels; where queries,
// keys and values come from: A.4). MLP, norms, positions, initial values and pooling are not given.
// Cost: O(depth n dim (n + dim)), and what the attention adds.
#include <fmt/format.h>

#include "framework/contracts/recompute.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SeqPairOptions {
  std::string wiring = "two_sources", queries = "auto", pool = "mean", positions = "learned";
  std::int64_t dim = 128, depth = 6, heads = 4, hidden = 512;
  bool self_attention = false;
  double embedding_std = 1, dropout = 0, attention_dropout = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("wiring", wiring, one_of("two_sources", "cross"),
      "keys from the condition and values from the content, or both from one sequence");
    v("queries", queries, one_of("auto", "content", "condition"),
      "sequence that gives the queries; auto: content, but condition for wiring cross with one "
      "target");
    v("pool", pool, one_of("mean", "first", "pointer"),
      "one target from the mean of the tokens or from the first token, or a score for each token");
    v("positions", positions, one_of("learned", "none"), "absolute positions of both sequences");
    v("dim", dim, range(1, 1 << 24), "channels of a token");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("self_attention", self_attention,
      "queries first attend to each other, by standard attention");
    v("embedding_std", embedding_std, range(1e-6, 10),
      "initial standard deviation of tokens, positions and learned queries");
    v("dropout", dropout, range(0, 0.99), "after attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
  }
};

MultiHeadOptions heads_of(const SeqPairOptions& o, std::int64_t layer, std::int64_t members) {
  MultiHeadOptions heads;
  heads.members = members;
  heads.dim = o.dim;
  heads.heads = o.heads;
  heads.attention_dropout = o.attention_dropout;
  heads.dropout = o.dropout;
  heads.layer = layer;
  heads.layers = o.depth;
  return heads;
}

/// What all layers attend to.
struct Sources {
  Tensor keys, values;  ///< [B, n, dim]
  Tensor key_valid;     ///< [B, n] bool; undefined: all
  Tensor query_valid;   ///< [B, n] bool; undefined: all
};

class PairLayer : public torch::nn::Module {
 public:
  PairLayer(const SeqPairOptions& o, std::int64_t index, std::int64_t members,
            const AttentionBuilder& attention) {
    const auto norm = [&](const char* name) {
      return register_module(name, std::make_shared<LayerNorm>(o.dim, 1e-5, members));
    };
    const MultiHeadOptions heads = heads_of(o, index, members);
    if (o.self_attention) {
      const AttentionBuilder standard = [](const AttentionShape& shape) {
        return std::make_shared<DotProductAttention>(shape);
      };
      self_norm_ = norm("self_norm");
      self_ = register_module("self", std::make_shared<MultiHeadAttention>(heads, standard));
      start_uniform(*self_);
    }
    norm_ = norm("attention_norm");
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, attention));
    mlp_norm_ = norm("mlp_norm");
    mlp_ = register_module("mlp", std::make_shared<Mlp>(o.dim, o.hidden, o.dropout, members));
    start_uniform(*attention_);
    start_uniform(*mlp_);
  }

  /// [B, n, dim] to the same.
  Tensor forward(Tensor x, const Sources& sources, AttentionContext& context) {
    if (self_ != nullptr) {
      AttentionContext untraced{context.layer, nullptr, nullptr};
      AttentionExtras extras;
      extras.visible.key_valid = sources.query_valid;
      x = x + self_->forward(self_norm_->forward(x), untraced, extras);
    }
    AttentionExtras extras;
    extras.visible.key_valid = sources.key_valid;
    // Elsewhere queries of padding only give what nobody reads.
    if (couples_queries()) extras.visible.query_valid = sources.query_valid;
    x = x + attention_->forward(norm_->forward(x), sources.keys, sources.values, context, extras);
    return x + mlp_->forward(mlp_norm_->forward(x));
  }

  const AttentionTraits& traits() const { return attention_->attention().traits(); }
  bool couples_queries() const { return attention_->attention().couples_queries(); }

 private:
  std::shared_ptr<MultiHeadAttention> self_;  ///< null: queries do not see each other
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<LayerNorm> self_norm_, norm_, mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
};

class SeqPairTransformer final : public Model {
 public:
  SeqPairTransformer(const SeqPairOptions& options, const ModelSetup& setup)
      : options_(options), members_(setup.members), vocabulary_(setup.data.vocabulary) {
    read_shapes(setup.data);
    check_options();
    tokens_ = started("tokens", vocabulary_);
    queries_ = started("queries", length_);
    if (options.positions == "learned") {
      condition_positions_ = started("condition_positions", length_);
      content_positions_ = started("content_positions", length_);
    }
    for (std::int64_t i = 0; i < options.depth; ++i) {
      layers_.push_back(
          register_module(fmt::format("layer{}", i),
                          std::make_shared<PairLayer>(options, i, members_, setup.attention)));
    }
    check_traits();
    norm_ = register_module("norm", std::make_shared<LayerNorm>(options.dim, 1e-5, members_));
    head_ = register_module(
        "head",
        std::make_shared<Linear>(options.dim, points() ? 1 : setup.data.classes, true, members_));
    start_uniform(*head_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor condition = embedded(batch, "condition", condition_positions_);
    const Tensor content = embedded(batch, "content", content_positions_);
    const Sources sources = sources_of(condition, content, batch.fields.at("condition_valid"));
    Tensor x = add_by_member(asks_with_content() ? content : condition, queries_, members_);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      const auto pass = [layer, rest = sources](const std::vector<Tensor>& in,
                                                AttentionContext& own) {
        const Sources all = {in[1], in[2], rest.key_valid, rest.query_valid};
        return std::vector<Tensor>{layer->forward(in[0], all, own)};
      };
      x = recomputed(*layer, {x, sources.keys, sources.values}, context, pass)[0];
      ++context.layer;
    }
    return {{"logits", answered(norm_->forward(x), sources.query_valid)}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return name.find('.') != std::string::npos && Model::decays(name, parameter);
  }

 private:
  bool cross() const { return options_.wiring == "cross"; }
  bool each_token() const { return targets_ == length_ && targets_ > 1; }
  bool points() const { return !each_token() && options_.pool == "pointer"; }
  bool asks_with_content() const {
    if (options_.queries != "auto") return options_.queries == "content";
    return !cross() || each_token();
  }

  void read_shapes(const DatasetInfo& data) {
    const std::vector<std::int64_t>& condition = data.field("condition").shape;
    const std::vector<std::int64_t>& targets = data.field("targets").shape;
    if (condition.size() != 1 || condition[0] <= 0 || data.field("content").shape != condition) {
      throw DataError(
          fmt::format("seq_pair_transformer needs condition [n] and content [n] of one length; "
                      "dataset '{}' gives other shapes (pad the shorter sequence)",
                      data.name));
    }
    if (targets.size() != 1 || (targets[0] != 1 && targets[0] != condition[0])) {
      throw DataError(
          fmt::format("seq_pair_transformer answers one target, or one for each token; dataset "
                      "'{}' has another number of targets",
                      data.name));
    }
    if (data.vocabulary <= 0 || data.classes <= 0) {
      throw DataError(
          fmt::format("seq_pair_transformer embeds tokens and gives classes; dataset '{}' does not "
                      "say how many there are (vocabulary, classes)",
                      data.name));
    }
    length_ = condition[0];
    targets_ = targets[0];
    classes_ = data.classes;
  }

  void check_options() const {
    check_heads(options_.dim, options_.heads);
    if (each_token() && !asks_with_content()) {
      throw OptionError("queries",
                        "the dataset has a target for each token of the content, so "
                        "queries must come from it; set content or auto");
    }
    if (points() && (!asks_with_content() || classes_ > length_)) {
      throw OptionError("pool",
                        "pointer scores the tokens of the content, so queries must come "
                        "from it (queries: content), with no more classes than tokens");
    }
  }

  /// Known before anything runs.
  void check_traits() const {
    for (const auto& layer : layers_) check_traits(*layer);
  }

  void check_traits(const PairLayer& layer) const {
    const AttentionTraits& traits = layer.traits();
    if (!cross() && !traits.different_source) {
      throw TraitError(
          "seq_pair_transformer takes keys and values from two sequences, and this attention does "
          "not honour 'different_source'; choose another attention, or wiring: cross");
    }
    const bool hides_keys = cross() && asks_with_content();
    const bool hides_queries = !asks_with_content() && layer.couples_queries();
    if ((hides_keys || hides_queries) && !traits.padding) {
      throw TraitError(
          "seq_pair_transformer hides the condition's padding, and this attention "
          "does not honour 'padding'; choose another attention");
    }
  }

  Tensor started(const std::string& name, std::int64_t rows) {
    return register_parameter(
        name, at::empty({members_ * rows, options_.dim}).normal_(0, options_.embedding_std));
  }

  /// @returns [B, n, dim]. @param positions  [members * n, dim] or undefined
  Tensor embedded(const Batch& batch, const char* field, const Tensor& positions) const {
    const Tensor& ids = batch.fields.at(field);
    if (ids.dim() != 2 || ids.size(1) != length_ || ids.scalar_type() != at::kLong) {
      throw ShapeError(fmt::format("seq_pair_transformer: {} must be [B, {}] int64, found {}",
                                   field, length_, describe(ids)));
    }
    const Tensor x = at::embedding(tokens_, members_ == 1 ? ids : rows_of_members(ids, field));
    return positions.defined() ? add_by_member(x, positions, members_) : x;
  }

  /// Each member's tokens where its part of the embedding begins.
  Tensor rows_of_members(const Tensor& ids, const char* field) const {
    // Beyond its part a member would read another's.
    if (ids.numel() > 0 &&
        (ids.min().item<std::int64_t>() < 0 || ids.max().item<std::int64_t>() >= vocabulary_)) {
      throw DataError(
          fmt::format("seq_pair_transformer: {} has a token outside the vocabulary (0 to {}); "
                      "correct the dataset, or its vocabulary",
                      field, vocabulary_ - 1));
    }
    const Tensor first = at::arange(members_, ids.options()).mul_(vocabulary_);
    const std::int64_t batch = batch_of_member(ids, members_);
    return (ids.view({members_, batch, length_}) + first.view({members_, 1, 1})).view(ids.sizes());
  }

  /// @param valid  [B, n] bool, true = a token of the condition, false = padding
  Sources sources_of(const Tensor& condition, const Tensor& content, const Tensor& valid) const {
    Sources out;
    if (!asks_with_content()) out.query_valid = valid;
    if (!cross()) {
      out.keys = condition;
      out.values = content;
    } else {
      out.keys = out.values = asks_with_content() ? condition : content;
      if (asks_with_content()) out.key_valid = valid;
    }
    return out;
  }

  /// @param x      [B, n, dim]
  /// @param valid  [B, n] bool, which of them count; undefined: all
  /// @returns [B, T, classes].
  Tensor answered(const Tensor& x, const Tensor& valid) const {
    if (each_token()) return head_->forward(x);
    if (points()) return head_->forward(x).squeeze(-1).narrow(1, 0, classes_).unsqueeze(1);
    if (options_.pool == "first") return head_->forward(x.narrow(1, 0, 1));
    if (!valid.defined()) return head_->forward(x.mean(1, true));
    const Tensor weights = valid.to(x.scalar_type()).unsqueeze(-1);
    return head_->forward((x * weights).sum(1, true) / weights.sum(1, true));
  }

  SeqPairOptions options_;
  std::int64_t members_ = 1, vocabulary_ = 0;
  std::int64_t length_ = 0, targets_ = 0, classes_ = 0;
  // Of each member, one after the other:
  Tensor tokens_;                                   ///< E, [vocabulary, dim]
  Tensor queries_;                                  ///< m, [n, dim]
  Tensor condition_positions_, content_positions_;  ///< [n, dim]; undefined: none
  std::vector<std::shared_ptr<PairLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(
    model, SeqPairTransformer, SeqPairOptions,
    {.id = "attnlab/seq_pair_transformer",
     .version = "1.1.0",
     .summary = "layers with keys of one sequence and values of another, or cross-attention",
     .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                 "into a Feature, section 6.1",
     .licence = "Apache-2.0",
     .takes = {"condition", "condition_valid", "content"},
     .gives = {"logits"},
     .stacks = {"depth"},
     .ensemble = true,
     .recompute = true})

}  // namespace attnlab
