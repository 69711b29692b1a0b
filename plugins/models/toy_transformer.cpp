// Toy transformer: QUEST's one layer and one head for the spurious retrieval task.
//
//   X = [token; series] + P
//   as_printed:  Y = LN₁(X) + Attention(X W_Q, X W_K, X W_V)     queries, keys, values from X
//                Y = X + LN₂(Y);   Y = X + MLP(Y);   logits = W_c Y₀ + b
//   pre_norm:    Y = X + Attention(LN₁(X) ...);   Z = Y + MLP(LN₂(Y));   logits = W_c LN(Z)₀ + b
//
// There is no map before the first layer, so the layer is as wide as a token of the data. As
// printed, keys come from tokens that were not normalised: their norms, the easiest true cue of the
// task, reach the attention. Both residuals go back to X, and nothing is normalised at the end.
// The paper gives no activation, biases, initial values or depth of the MLP: options, or as usual
// (biases, two maps in the MLP). Algorithm A2 writes Q, K and V without biases: `qkv_bias`. Which
// parameters decay is an option, too.
// Of the layer's output the class token's is read alone, so attention asks with that token only,
// and what comes after it is computed for that token: the same numbers, at a fraction of the work.
// A trace therefore has one query a layer. An attention whose queries depend on each other
// (Attention::couples_queries) is asked with all tokens.
// Source: QUEST, ICLR 2026, algorithm A2 and appendix A.3. Cost: O(N D²), N tokens of D.
#include <fmt/format.h>

#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ToyTransformerOptions {
  std::string block = "as_printed";
  std::int64_t hidden = 20;
  std::string activation = "gelu", start = "uniform", decay = "all";
  double token_std = 0.02, position_std = 0.02;
  bool qkv_bias = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("block", block, one_of("as_printed", "pre_norm"),
      "exactly algorithm A2 of the paper, or the usual pre-norm layer");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("qkv_bias", qkv_bias,
      "biases of queries, keys and values; with a bias, even the direction of a key depends on its "
      "token's norm");
    v("activation", activation, one_of("gelu", "relu"), "activation of the MLP");
    v("start", start, one_of("uniform", "truncated_normal"),
      "initial linear maps: PyTorch's (uniform within 1/sqrt of the inputs), or normal (std 0.02) "
      "with biases 0");
    v("token_std", token_std, range(1e-6, 1), "initial standard deviation of the class token");
    v("position_std", position_std, range(1e-6, 1), "initial standard deviation of positions");
    v("decay", decay, one_of("all", "matrices"),
      "weight decay of all parameters, as in PyTorch's AdamW, or only of the maps' matrices");
  }
};

class ToyTransformer final : public Model {
 public:
  ToyTransformer(const ToyTransformerOptions& options, const ModelSetup& setup)
      : options_(options), members_(setup.members) {
    const Shape shape = checked_series(setup.data);
    tokens_ = shape.tokens;
    const std::int64_t dim = shape.dim, hidden = options.hidden;
    class_token_ = started("class_token", {members_, dim}, options.token_std);
    positions_ = started("positions", {members_ * (tokens_ + 1), dim}, options.position_std);
    MultiHeadOptions heads;
    heads.dim = dim;
    heads.members = members_;
    heads.qkv_bias = options.qkv_bias;
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, setup.attention));
    const auto linear = [this](const char* name, std::int64_t in, std::int64_t out) {
      return register_module(name, std::make_shared<Linear>(in, out, true, members_));
    };
    const auto norm = [this, dim](const char* name) {
      return register_module(name, std::make_shared<LayerNorm>(dim, 1e-5, members_));
    };
    mlp_in_ = linear("mlp_in", dim, hidden);
    mlp_out_ = linear("mlp_out", hidden, dim);
    norm1_ = norm("norm1");
    norm2_ = norm("norm2");
    if (pre_norm()) norm_ = norm("norm");
    head_ = linear("head", dim, setup.data.classes);
    if (options.start == "truncated_normal") return;
    start_uniform(*attention_);
    start_uniform(*this);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor series = batch.fields.at("series").to(head_->weight.scalar_type());
    check_shape(series);
    const Tensor start = starts();
    // The class token is the same for every example, and its row of the series is empty.
    const Tokens tokens{at::constant_pad_nd(series, {0, 0, 1, 0}), start.flatten(0, 1)};
    const Tensor first =
        by_member(start.select(1, 0).contiguous(), members_, batch_of_member(series, members_));
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    const Tensor y = pre_norm() ? norm_->forward(pre_norm_block(tokens, first, context))
                                : printed_block(tokens, first, context);
    return {{"logits", head_->forward(y).squeeze(1)}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    if (options_.decay == "all") return true;
    return name != "class_token" && name != "positions" && Model::decays(name, parameter);
  }

 private:
  bool pre_norm() const { return options_.block == "pre_norm"; }

  /// Of the dataset's series.
  struct Shape {
    std::int64_t tokens, dim;
  };
  static Shape checked_series(const DatasetInfo& data) {
    const std::vector<std::int64_t>& series = data.field("series").shape;
    if (series.size() != 2 || series[0] <= 0 || series[1] <= 0) {
      throw DataError(
          fmt::format("toy_transformer learns a position for each token and needs series [N, D] of "
                      "one length; those of dataset '{}' differ in length or are not [N, D]",
                      data.name));
    }
    for (const FieldInfo& field : data.fields) {
      if (field.name != "valid") continue;
      throw DataError(
          fmt::format("dataset '{}' marks padding (`valid`), which toy_transformer cannot hide; "
                      "take series without padding, or model timeseries_transformer",
                      data.name));
    }
    if (data.classes <= 0) {
      throw DataError(
          fmt::format("toy_transformer classifies, and dataset '{}' has no classes", data.name));
    }
    return {series[0], series[1]};
  }

  Tensor started(const std::string& name, at::IntArrayRef sizes, double std) {
    Tensor values = at::empty(sizes);
    fill_truncated_normal(values, std);
    return register_parameter(name, values);
  }

  void check_shape(const Tensor& series) const {
    const std::int64_t dim = positions_.size(1);
    if (series.dim() == 3 && series.size(1) == tokens_ && series.size(2) == dim) return;
    throw ShapeError(fmt::format("toy_transformer: series must be [B, {}, {}], found {}", tokens_,
                                 dim, describe(series)));
  }

  /// What each token starts from before the data: its position, and the class token before them.
  /// @returns [members, N + 1, D].
  Tensor starts() const {
    const Tensor places = positions_.view({members_, tokens_ + 1, -1});
    return at::cat(
        {places.narrow(1, 0, 1) + class_token_.unsqueeze(1), places.narrow(1, 1, tokens_)}, 1);
  }

  /// What the layer starts from: data and what is learned of each token, to be added.
  struct Tokens {
    Tensor data;    ///< [B, N + 1, D]
    Tensor places;  ///< [members * (N + 1), D]
  };
  Tensor sum(const Tokens& tokens) const {
    return add_by_member(tokens.data, tokens.places, members_);
  }

  /// Whether the class token can ask alone.
  bool asks_alone() const {
    const Attention& attention = attention_->attention();
    return !attention.couples_queries() && attention.traits().different_lengths;
  }

  /// @returns the class token's row, [B, 1, D].
  Tensor printed_block(const Tokens& tokens, const Tensor& first, AttentionContext& context) {
    const Tensor attended =
        asks_alone() ? attention_->forward_placed(first, tokens.data, tokens.places, context)
                     : attention_->forward(sum(tokens), context).narrow(1, 0, 1);
    const Tensor y = first + norm2_->forward(norm1_->forward(first) + attended);
    return first + mlp(y);
  }

  Tensor pre_norm_block(const Tokens& tokens, const Tensor& first, AttentionContext& context) {
    const Tensor x = norm1_->forward(sum(tokens));
    const Tensor attended = asks_alone()
                                ? attention_->forward(norm1_->forward(first), x, x, context)
                                : attention_->forward(x, context).narrow(1, 0, 1);
    const Tensor y = first + attended;
    return y + mlp(norm2_->forward(y));
  }

  Tensor mlp(const Tensor& x) const {
    const Tensor hidden = mlp_in_->forward(x);
    return mlp_out_->forward(options_.activation == "gelu" ? at::gelu(hidden) : at::relu(hidden));
  }

  ToyTransformerOptions options_;
  std::int64_t members_ = 1, tokens_ = 0;
  Tensor class_token_;  ///< [members, D]
  Tensor positions_;    ///< P, [members * (N + 1), D]
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Linear> mlp_in_, mlp_out_, head_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<LayerNorm> norm_;  ///< null as printed
};

}  // namespace

ATTNLAB_PLUGIN(model, ToyTransformer, ToyTransformerOptions,
               {.id = "attnlab/toy_transformer",
                .version = "1.1.0",
                .summary = "QUEST's toy model: one layer, one head, a class token",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026, algorithm A2",
                .licence = "Apache-2.0",
                .takes = {"series"},
                .gives = {"logits"},
                .needs = {},
                .ensemble = true})

}  // namespace attnlab
