// The attention contract: projected queries, keys and values of one layer to an output, per head.
//
// Shapes: B batch, H heads, Lq queries, Lk keys, D query and key channels, Dv value channels.
// Masks are boolean and positive: true means "may be seen". An undefined tensor means "not given".
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// What an attention honours. The host refuses a composition that needs more than is declared, and
/// `Attention::forward` refuses an input that uses more: nothing is ever ignored silently.
struct AttentionTraits {
  bool bias = false;                ///< AttentionInput::bias
  bool causal = false;              ///< Visibility::causal
  bool window = false;              ///< Visibility::window
  bool pair_mask = false;           ///< Visibility::pairs
  bool padding = false;             ///< Visibility::key_valid and query_valid
  bool ragged = false;              ///< Visibility::query_offsets and key_offsets
  bool different_lengths = false;   ///< Lq != Lk
  bool different_source = false;    ///< AttentionInput::values_from_elsewhere
  bool relative_positions = false;  ///< AttentionInput::relative
  bool second_order = false;        ///< gradients of gradients are right, for all inputs above
  bool linear_cost = false;         ///< cost grows with Lq + Lk, not with Lq * Lk
  bool sources = false;  ///< reads AttentionInput::query_source, key_source and value_source
  /// Needs the causal rule: a recurrence has no meaning without an order. A model that does not
  /// need `causal` cannot take it, unless it has an option `both_ways`: where that is true, the
  /// object declares false and reads a sequence forward and backward.
  bool ordered = false;
  /// Reads places: a model that knows them gives AttentionInput::query_positions and key_positions.
  bool places = false;

  bool operator==(const AttentionTraits&) const = default;
  /// Every input that the contract knows, at quadratic cost: what `DotProductAttention` gives.
  static constexpr AttentionTraits all_quadratic() {
    return {true, true, true, true, true, true, true, true, true, true};
  }
  /// The same under the causal rule alone, without ragged batches and relative positions.
  static constexpr AttentionTraits ordered_quadratic() {
    AttentionTraits traits = all_quadratic();
    traits.ragged = traits.relative_positions = false;
    traits.ordered = true;
    return traits;
  }
  /// Calls visit(name, value) for each trait; the names are those of manifests and messages.
  template <class Visit>
  constexpr void each(Visit&& visit) const {
    visit("bias", bias);
    visit("causal", causal);
    visit("window", window);
    visit("pair_mask", pair_mask);
    visit("padding", padding);
    visit("ragged", ragged);
    visit("different_lengths", different_lengths);
    visit("different_source", different_source);
    visit("relative_positions", relative_positions);
    visit("second_order", second_order);
    visit("linear_cost", linear_cost);
    visit("sources", sources);
    visit("ordered", ordered);
    visit("places", places);
  }
};

/// What a layer knows about itself when it asks for its attention.
struct AttentionShape {
  std::int64_t heads = 1;      ///< H
  std::int64_t head_dim = 0;   ///< D, channels of a query and of a key
  std::int64_t value_dim = 0;  ///< Dv, channels of a value; 0 means D
  std::int64_t layer = 0;      ///< index of the layer among those that share a ForwardState
  std::int64_t layers = 1;     ///< how many there are
  double dropout = 0.0;        ///< probability of dropping a weight in training
  /// Models that are trained together, their heads side by side: member m has the heads
  /// [m H / members, (m + 1) H / members). No parameter may serve two members: what heads share in
  /// a single model, each member has for itself, the members' one after the other along the first
  /// dimension. More in docs/ensembles.md.
  std::int64_t members = 1;
  /// Channels of what queries, keys and values are projected from (AttentionInput::query_source,
  /// ...); 0: the model does not give it. An attention with the trait `sources` can then not be
  /// built.
  std::int64_t query_width = 0, key_width = 0, value_width = 0;
  /// The first layer of the stack that has this mechanism, where a stack has several.
  std::int64_t first_layer = 0;

  std::int64_t values() const { return value_dim == 0 ? head_dim : value_dim; }
};

/// Who may see whom. All rules hold together (logical and).
struct Visibility {
  /// Query i sees keys j <= i + Lk - Lq: the last query is aligned with the last key, so that
  /// cached keys of earlier tokens come first.
  bool causal = false;
  /// 0: no limit. w: query i sees keys with |i + Lk - Lq - j| < w.
  std::int64_t window = 0;
  /// [B, Lk] bool, true = a real key, false = padding.
  Tensor key_valid;
  /// [B, Lq] bool, true = a real query, false = padding. A query of padding gives zeros and has no
  /// part in what other queries give (it matters where rows are coupled, as in Sinkhorn's).
  Tensor query_valid;
  /// bool, broadcastable to [B, H, Lq, Lk], true = may see.
  Tensor pairs;
  /// Ragged batches: B is 1, sequences lie end to end, and query s of sequence t sees keys of
  /// sequence t alone. [T + 1] int64 on the CPU, rising from 0 to Lq (to Lk). Both or neither.
  Tensor query_offsets, key_offsets;

  bool ragged() const { return query_offsets.defined(); }
};

/// Relative positions as in Transformer-XL: the logits are
///   ((q_i + u) . k_j + (q_i + w) . r_{i-j}) * scale,
/// with the attention's maps applied to q + u, q + w, k and r alike.
struct RelativePositions {
  /// [H, Lq + Lk - 1, D]: r for distance i + Lk - Lq - j, from Lk - 1 down to 1 - Lq.
  Tensor keys;
  Tensor content_bias;   ///< u, [H, D]; undefined = 0
  Tensor position_bias;  ///< w, [H, D]; undefined = 0

  bool defined() const { return keys.defined(); }
};

/// The input of one attention layer.
struct AttentionInput {
  Tensor queries;  ///< [B, H, Lq, D] floating point; in `Attention::attend` float32 or float64
  Tensor keys;     ///< [B, H, Lk, D]
  Tensor values;   ///< [B, H, Lk, Dv]
  /// True where values come from another sequence than keys (indirect attention): slot j of the
  /// keys and slot j of the values then belong to different tokens.
  bool values_from_elsewhere = false;
  Visibility visible;
  /// Added to the scaled logits: broadcastable to [B, H, Lq, Lk], finite (hide keys with
  /// `visible`, not with -inf).
  Tensor bias;
  /// The same by distance, without a tensor of all pairs: [B or 1, H, Lq + Lk - 1], entry
  /// Lq - 1 - i + j for query i and key j, as `RelativePositions::keys` has its columns. Not of a
  /// ragged batch. `Attention::attend` gets it where `Attention::reads_distance_bias` says so, else
  /// in `bias`.
  Tensor distance_bias;
  RelativePositions relative;
  /// [B or 1, Lq, P] and [B or 1, Lk, P], P coordinates a token, in the model's own units;
  /// undefined: tokens stand at 0, 1, 2, ... Models that know places give them to attentions with
  /// the trait `places`; a model may give them to others, too.
  Tensor query_positions, key_positions;
  /// What queries, keys and values were projected from, for attentions with the trait `sources`
  /// alone: [members * B, Lq, query_width], [members * B, Lk, key_width] and
  /// [members * B, Lk, value_width]. Member m's examples are rows [m B, (m + 1) B).
  Tensor query_source, key_source, value_source;

  std::int64_t batch() const { return queries.size(0); }
  std::int64_t heads() const { return queries.size(1); }
  std::int64_t query_count() const { return queries.size(2); }
  std::int64_t key_count() const { return keys.size(2); }
};

/// What one layer's attention looked like; recorded only where asked for, and detached unless
/// `AttentionTrace::attached`.
struct LayerTrace {
  std::int64_t layer = 0;
  Tensor weights;      ///< [B, H, Lq, Lk] after the normaliser, before dropout
  Tensor logits;       ///< [B, H, Lq, Lk] scaled and biased; hidden pairs are -inf
  Tensor query_norms;  ///< [B, H, Lq] L2 norms of the queries before any map
  Tensor key_norms;    ///< [B, H, Lk] L2 norms of the keys before any map
  Tensor entropy;      ///< [B, H, Lq] of the weights (their absolute values), in nats
  /// [B or 1, H, Lq, Lk]: what the mechanism itself adds to the scaled logits, without
  /// AttentionInput::bias; undefined: nothing.
  Tensor bias;
};

/// Asks layers to record. A null pointer in the context means "off" and costs nothing.
struct AttentionTrace {
  bool weights = false;
  bool logits = false;
  bool norms = false;
  bool entropy = false;
  bool bias = false;
  /// Records keep the graph, so that gradients by weights and logits can be asked for.
  bool attached = false;
  std::vector<LayerTrace> layers;
  /// Takes each layer's record as it comes, so that a deep model's logits need not all be held at
  /// once; empty: records gather in `layers`.
  std::function<void(const LayerTrace&)> on_layer;

  /// Gives it a layer's record.
  void take(LayerTrace layer) { on_layer ? on_layer(layer) : layers.push_back(std::move(layer)); }
};

/// State that the layers of one forward pass share, keyed by type: a plugin keeps what it needs
/// under a struct of its own (Elliptical attention: the previous layer's values). A model makes one
/// for each stack of layers and each forward pass, so nothing outlives the pass. Layers can be
/// computed again (recompute.h) where the struct names its tensors by a member function
/// `void each(const TensorVisit& visit)`, which calls `visit` with every one of them.
class ForwardState {
 public:
  using TensorVisit = std::function<void(Tensor&)>;

  template <class T>
  T& of() {
    Slot& slot = slots_[typeid(T).name()];
    if (!slot.value.has_value()) {
      slot.value = T{};
      if constexpr (requires(T & state, const TensorVisit& visit) { state.each(visit); }) {
        slot.each = [](std::any& value, const TensorVisit& visit) {
          std::any_cast<T>(&value)->each(visit);
        };
      }
    }
    return *std::any_cast<T>(&slot.value);
  }

  /// Calls `visit` with every tensor, in an order that depends on the types alone.
  /// @throws ConfigError for a struct that does not name its tensors.
  void each(const TensorVisit& visit);

 private:
  struct Slot {
    std::any value;
    void (*each)(std::any& value, const TensorVisit& visit) = nullptr;
  };
  std::map<std::string, Slot> slots_;
};
using TensorVisit = ForwardState::TensorVisit;

/// What attentions add to a training step's loss, by name: scalars that the trainer weighs
/// (`train.attention_losses`).
class AttentionLosses {
 public:
  /// @param name   as YAML weighs it: "entropy"
  /// @param value  a scalar with a graph; what several layers add under one name is averaged
  /// @throws ShapeError for more than one number.
  void add(const std::string& name, const Tensor& value);
  const std::map<std::string, std::vector<Tensor>>& all() const { return all_; }

 private:
  std::map<std::string, std::vector<Tensor>> all_;
};

/// The surroundings of one call of one layer.
struct AttentionContext {
  std::int64_t layer = 0;
  ForwardState* state = nullptr;      ///< null: the layer stands alone
  AttentionTrace* trace = nullptr;    ///< null: nothing is recorded
  AttentionLosses* losses = nullptr;  ///< null: compute none
};

/// What an attention keeps of earlier tokens when text is written token by token; only the
/// attention knows what it means. Without a graph.
struct AttentionMemory {
  std::vector<Tensor> parts;  ///< empty: no token yet

  std::int64_t bytes() const;
};

/// What is known after a step of the optimiser.
struct StepFacts {
  std::int64_t step = 0;     ///< of the run, from 0
  double learning_rate = 0;  ///< of this step
};

/// How a layer makes keys and values, where a composition asks for other than the usual way
/// (`attention.projection`). It is the model's part: the attention gets keys and values of every
/// head as ever.
struct Projection {
  /// Heads of keys and values; each serves equally many heads of queries. 1: multi-query attention
  /// (Shazeer 2019), more: grouped-query attention (Ainslie et al. 2023). 0: as many as of queries.
  std::int64_t key_heads = 0;
  /// Keys and values are made of so many channels that they share, as in multi-head latent
  /// attention (DeepSeek-V2, 2024), without its norm and its rotated part. 0: of the layer's input.
  std::int64_t rank = 0;

  bool plain() const { return key_heads == 0 && rank == 0; }
};

/// Where tokens stand as the layer that projects tells it an attention, where a composition asks
/// for it (`attention.positions`). It is the model's part: whatever the mechanism, its queries and
/// keys are turned before it maps them, or its logits get a bias (trait `bias`).
struct Positions {
  enum class Kind {
    none,
    rotary,  ///< queries and keys turned: Su et al. 2021
    alibi,   ///< a bias that falls with the distance: Press et al. 2022
    t5,      ///< a bias learned for each head and bucket of distances: Raffel et al. 2020
  };
  Kind kind = Kind::none;
  double base = 10000;              ///< of rotary: see framework/nn/modules/rotary.h
  std::int64_t buckets = 32;        ///< of t5
  std::int64_t max_distance = 128;  ///< of t5: farther tokens share the last bucket

  bool plain() const { return kind == Kind::none; }
};

/// An attention mechanism of one layer. Learnable parts are registered as in any torch module.
class Attention : public torch::nn::Module {
 public:
  /// @throws ConfigError for the trait `sources` where the shape has none.
  Attention(const AttentionShape& shape, const AttentionTraits& traits);

  /// Checks the input against the contract and the traits, then attends.
  /// A query that sees no key, or is padding, gives zeros.
  /// Numbers of 16 bits (float16, bfloat16) are widened before, and the output is rounded once:
  /// `attend` computes in float32 or float64, whatever the processor and its libraries add up in.
  /// A trace then has float32.
  /// @returns [B, H, Lq, Dv], dtype and device of the values.
  /// @throws ShapeError, TraitError.
  Tensor forward(const AttentionInput& input, AttentionContext& context);

  /// Whether it has a memory of its own for text that is written token by token. Others are given
  /// the keys and values of all earlier tokens.
  virtual bool remembers() const { return false; }
  /// As `forward`, for tokens that come behind those in `memory`; for attentions that remember.
  /// @param input   the new tokens alone, as many keys as queries, with the causal rule, and
  ///                without window, pairs, padding, ragged sequences, bias and relative positions
  /// @param memory  of the same attention and batch; takes the new tokens in
  /// @returns [B, H, L, Dv]: the last L rows of what `forward` gives for all tokens.
  /// @throws as `forward`; ShapeError for another input, or the memory of something else.
  Tensor extend(const AttentionInput& input, AttentionMemory& memory, AttentionContext& context);

  /// As of any module, but that parameters and buffers rounded to 16 bits are kept in float32,
  /// which `attend` computes in.
  using torch::nn::Module::to;
  void to(at::Device device, at::ScalarType dtype, bool non_blocking = false) override;
  void to(at::ScalarType dtype, bool non_blocking = false) override;

  const AttentionShape& shape() const { return shape_; }
  const AttentionTraits& traits() const { return traits_; }
  /// What the composition asks of the layer that projects for it. That layer reads it when it is
  /// built; where none has, `forward` throws a ConfigError, unless it is plain.
  const Projection& projection() {
    projection_read_ = true;
    return projection_;
  }
  void set_projection(const Projection& projection) { projection_ = projection; }
  /// The same of where tokens stand. The layer then reads places: `traits` says so, and models that
  /// know places give them.
  const Positions& positions() {
    positions_read_ = true;
    return positions_;
  }
  void set_positions(const Positions& positions) {
    positions_ = positions;
    if (!positions.plain() && !traits_.places) traits_.places = places_for_layer_ = true;
  }
  /// Whether the mechanism itself reads places.
  bool reads_places() const { return traits_.places && !places_for_layer_; }
  /// Where losses are added from now on (`AttentionContext::losses`), whatever the model hands on;
  /// null: nowhere.
  void add_losses_to(AttentionLosses* losses) { losses_ = losses; }
  AttentionLosses* losses() const { return losses_; }
  /// Whether what a query gives depends on which other queries there are (Sinkhorn's does, whose
  /// columns sum over queries). Then a model that reads some tokens alone must ask with all.
  virtual bool couples_queries() const { return false; }
  /// Whether `attend` reads AttentionInput::distance_bias itself.
  virtual bool reads_distance_bias() const { return false; }
  /// Whether the order of tokens changes what is given even without the causal rule and without
  /// positions: a sequence is read in its order, or query i belongs with key i, so that keys alone
  /// cannot change places.
  virtual bool reads_order() const { return false; }
  /// Called after each step of the optimiser, without gradients, and before weight averages see
  /// the parameters: for norms of weights, clipping and the like.
  virtual void after_step(const StepFacts&) {}

 protected:
  /// The mechanism itself; the input is checked, and of float32 or float64.
  virtual Tensor attend(const AttentionInput& input, AttentionContext& context) = 0;
  /// The same behind earlier tokens, for attentions that remember: see `extend`.
  /// @param memory  has the parts that this left before, or none.
  virtual Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                               AttentionContext& context);
  /// The part of a memory that holds one; undefined before the first token.
  /// @throws ShapeError where it has other sizes or parts: it is of another attention or batch.
  Tensor only_part(const AttentionMemory& memory, at::IntArrayRef sizes) const;

 private:
  AttentionShape shape_;
  AttentionTraits traits_;
  Projection projection_;
  bool projection_read_ = false;
  Positions positions_;
  bool positions_read_ = false, places_for_layer_ = false;
  AttentionLosses* losses_ = nullptr;
};

/// Makes the attention of one layer: what a model is given to build its layers with.
using AttentionBuilder = std::function<std::shared_ptr<Attention>(const AttentionShape&)>;

}  // namespace attnlab
