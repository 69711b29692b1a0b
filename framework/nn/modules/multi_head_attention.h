// Multi-head attention: projections, the attention of one layer, and the map of the merged heads.
//
// A composition may ask for fewer heads of keys and values, or for both of a low rank
// (`Projection`): then each has a matrix of its own. It may also ask that queries and keys be
// turned by where their tokens stand, or the logits biased (`Positions`, layer_positions.h).
//
//   Y = concat_h(Attention(X_q W_q^h, X_k W_k^h, X_v W_v^h)) W_o + b_o
//
// Queries, keys and values may come from one sequence, from two or from three. Where the sources
// have equally many channels, one matrix holds all three projections (rows: queries, keys, values);
// self-attention takes one product, and keys and values of one sequence take one.
//
// An ensemble of E members (framework/nn/modules/members.h) projects each member's examples by its
// own matrices. An attention with parameters then sees the members' heads side by side, [B, E H, L,
// D], so that a parameter of each head is each member's own; one without sees them as examples, [E
// B, H, L, D], which moves nothing. Cost: O(L dim (heads head_dim)), and the attention.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "framework/contracts/attention.h"
#include "framework/nn/modules/layer_positions.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

struct MultiHeadOptions {
  std::int64_t dim = 0;           ///< channels of the query sequence and of the output
  std::int64_t key_source = 0;    ///< channels of the sequence that keys come from; 0: dim
  std::int64_t value_source = 0;  ///< channels of the sequence that values come from; 0: dim
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;   ///< channels of a query and a key per head; 0: dim / heads
  std::int64_t value_dim = 0;  ///< channels of a value per head; 0: head_dim
  bool qkv_bias = true;
  bool output_bias = true;
  double attention_dropout = 0;  ///< of the weights
  double dropout = 0;            ///< of the output
  std::int64_t layer = 0;        ///< for AttentionShape
  std::int64_t layers = 1;
  std::int64_t members = 1;  ///< E, of an ensemble
};

/// What goes with the queries, keys and values of one call: see AttentionInput's fields. In an
/// ensemble, B there is E * B, and heads are those of one member.
struct AttentionExtras {
  Visibility visible;
  Tensor bias;
  RelativePositions relative;
  /// The positions' term stands beside what the attention makes of queries and keys: added to the
  /// logits as the bias (q_i + w) . r_{i-j} / sqrt(D), which no map of the attention changes.
  bool relative_as_bias = false;
  Tensor query_positions, key_positions;

  /// Moves the tensors that a gradient may flow to behind others, for `recomputed` (recompute.h).
  void take(std::vector<Tensor>& tensors) {
    for (Tensor* own : flowing()) tensors.push_back(std::exchange(*own, {}));
  }
  /// The same with these tensors, the first of them at `first`.
  AttentionExtras with(const std::vector<Tensor>& tensors, std::size_t first) const {
    AttentionExtras all = *this;
    for (Tensor* own : all.flowing()) *own = tensors.at(first++);
    return all;
  }

 private:
  std::array<Tensor*, 6> flowing() {
    return {&bias,
            &relative.keys,
            &relative.content_bias,
            &relative.position_bias,
            &query_positions,
            &key_positions};
  }
};

/// What a layer keeps of earlier tokens, for text that is written token by token.
struct KeyCache {
  Tensor keys, values;  ///< [B, H, n, D] and [B, H, n, Dv]; undefined: none yet
  Tensor sources;       ///< [B, n, dim] for attentions with the trait `sources`, else undefined
  Tensor queries;       ///< [B, H, n, D] for those whose queries depend on each other, likewise
  /// [B, n, rank] where keys and values are of a low rank; they themselves are not kept then.
  Tensor latent;
  /// [B] int64, where the next token stands, if keys are turned by their places; else undefined.
  Tensor place;
  /// Of an attention that remembers by itself: nothing else is kept then.
  AttentionMemory memory;

  std::int64_t bytes() const;

  std::int64_t tokens() const;  ///< n, unless the attention remembers by itself
  /// The same of the last n tokens alone, or of all.
  KeyCache last(std::int64_t n) const;
};

/// @param option  the one that says how many heads
/// @throws OptionError where heads do not divide dim.
void check_heads(std::int64_t dim, std::int64_t heads, const char* option = "heads");

class MultiHeadAttention : public torch::nn::Module {
 public:
  /// @throws ShapeError when heads do not divide dim and head_dim is not given; in an ensemble,
  /// when a parameter of the attention is not each member's own. ConfigError for a projection or
  /// positions that do not fit.
  MultiHeadAttention(const MultiHeadOptions& options, const AttentionBuilder& attention);

  /// Self-attention. @param x  [E * B, L, dim]. @returns [E * B, L, dim].
  Tensor forward(const Tensor& x, AttentionContext& context, const AttentionExtras& extras = {});
  /// @param queries  [E * B, Lq, dim]
  /// @param keys     [E * B, Lk, key_source]
  /// @param values   [E * B, Lk, value_source]; another tensor than `keys` counts as another
  ///                 sequence.
  /// @returns [E * B, Lq, dim].
  /// @throws ShapeError for what an ensemble cannot take: ragged batches, relative positions, and,
  /// beside an attention with parameters, positions that differ between examples. ShapeError,
  /// ConfigError for places and relative positions that `attention.positions` does not take.
  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                 AttentionContext& context, const AttentionExtras& extras = {});

  /// Attention to tokens that stand at learned places, of tokens + by_member(places, E, B) without
  /// forming that sum: cheaper, most of all where the tokens are data and need no gradient.
  /// @param queries  [E * B, Lq, dim]
  /// @param tokens   [E * B, Lk, dim], for keys and values
  /// @param places   [E * Lk, dim]
  Tensor forward_placed(const Tensor& queries, const Tensor& tokens, const Tensor& places,
                        AttentionContext& context);

  /// Self-attention of tokens whose keys and values follow those of others.
  /// @param before  [B, M, dim], data: none of its gradient is computed where that saves work
  /// @param x       [B, L, dim]
  /// @returns [B, L, dim].
  Tensor forward_after(const Tensor& before, const Tensor& x, AttentionContext& context,
                       const AttentionExtras& extras);

  /// Self-attention of new tokens that see earlier ones, too, as far as `extras` lets them. What
  /// new tokens show is put behind the cache; no gradient flows into that.
  /// @param x  [B, L, dim]
  /// @returns [B, L, dim].
  /// @throws ShapeError for an ensemble, ConfigError as `forward`.
  Tensor forward_cached(const Tensor& x, KeyCache& cache, AttentionContext& context,
                        const AttentionExtras& extras);

  Attention& attention() { return *attention_; }
  /// The map of the merged heads, for other starts.
  Linear& output() { return *output_; }

 private:
  void make_projections(const MultiHeadOptions& options, const Projection& asked);
  /// The query (0), key (1) or value (2) projection, split into heads: of keys and values, into
  /// their own.
  Tensor project(const Tensor& x, int which) const;
  /// What keys and values are made of: the sequence, or its channels of a low rank.
  Tensor latent_of(const Tensor& x) const { return latent_ == nullptr ? x : latent_->forward(x); }
  /// Keys or values of every head, of those of their own heads.
  Tensor spread(const Tensor& x) const;
  void project_all(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   AttentionInput& input) const;
  /// [E * B, L, H * C] to [E * B, L, H, C].
  Tensor by_head(const Tensor& y, std::int64_t channels) const;
  /// [E * B, L, H, C] to [B, E * H, L, C] where heads stand side by side, else [E * B, H, L, C].
  Tensor split(const Tensor& y) const;
  /// [B, E * H, L, Dv] or [E * B, H, L, Dv] to [E * B, L, H * Dv].
  Tensor merge(const Tensor& heads) const;
  void add_extras(const AttentionExtras& extras, AttentionInput& input) const;
  /// What was projected, for an attention that reads it.
  void add_sources(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   AttentionInput& input) const;
  bool reads_sources() const { return attention_->traits().sources; }
  bool turns() const { return positions_ != nullptr && positions_->turns(); }
  bool biases() const { return positions_ != nullptr && !positions_->turns(); }
  /// What the attention gives of an input that only lacks what positions change.
  Tensor ask(AttentionInput& input, AttentionContext& context);
  /// Takes away places of several coordinates that were given for `positions_` alone.
  void drop_places(AttentionInput& input) const;
  /// What the attention gives, its heads merged and mapped.
  Tensor finished(const Tensor& attended);
  /// `AttentionExtras::relative_as_bias`.
  void add_relative_bias(const RelativePositions& relative, AttentionInput& input) const;
  /// What broadcasts to [E * B, H, Lq, Lk] so that it broadcasts to [B, E * H, Lq, Lk].
  Tensor beside_heads(const Tensor& x) const;

  std::int64_t heads_, members_, head_dim_, value_dim_;
  std::int64_t key_heads_ = 0;  ///< of keys and values
  double dropout_;
  std::shared_ptr<Linear> packed_;               ///< "qkv"; null: three of their own
  std::shared_ptr<Linear> query_, key_, value_;  ///< null where packed
  std::shared_ptr<Linear> latent_;               ///< null unless keys and values are of a low rank
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<LayerPositions> positions_;  ///< null: none
  bool side_by_side_ = false;                  ///< the heads of all members
  std::shared_ptr<Linear> output_;
};

}  // namespace attnlab
