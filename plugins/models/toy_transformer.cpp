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
// (biases everywhere, two maps in the MLP). Which parameters decay is an option, too.
// Source: QUEST, ICLR 2026, algorithm A2 and appendix A.3. Cost: O(N² D + N D²), N tokens of D.
#include <cmath>

#include "framework/nn/layers.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ToyTransformerOptions {
  std::string block = "as_printed";
  std::int64_t hidden = 20;
  std::string activation = "gelu", start = "uniform", decay = "all";
  double token_std = 0.02, position_std = 0.02;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("block", block, one_of("as_printed", "pre_norm"),
      "algorithm A2 to the letter, or the usual pre-norm layer");
    v("hidden", hidden, at_least(1), "hidden channels of the MLP");
    v("activation", activation, one_of("gelu", "relu"), "of the MLP");
    v("start", start, one_of("uniform", "truncated_normal"),
      "maps start as PyTorch's (uniform in 1/sqrt of the inputs), or normal (std 0.02), biases 0");
    v("token_std", token_std, range(1e-6, 1), "deviation of the class token at the start");
    v("position_std", position_std, range(1e-6, 1), "deviation of positions at the start");
    v("decay", decay, one_of("all", "matrices"),
      "weight decay of all parameters, as PyTorch's AdamW, or of the maps' matrices alone");
  }
};

class ToyTransformer final : public Model {
 public:
  ToyTransformer(const ToyTransformerOptions& options, const ModelSetup& setup)
      : options_(options) {
    const auto [tokens, dim] = checked_series(setup.data);
    class_token_ = started("class_token", {1, dim}, options.token_std);
    positions_ = started("positions", {tokens + 1, dim}, options.position_std);
    MultiHeadOptions heads;
    heads.dim = dim;
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, setup.attention));
    mlp_in_ = register_module("mlp_in", std::make_shared<Linear>(dim, options.hidden));
    mlp_out_ = register_module("mlp_out", std::make_shared<Linear>(options.hidden, dim));
    norm1_ = register_module("norm1", std::make_shared<LayerNorm>(dim, 1e-5));
    norm2_ = register_module("norm2", std::make_shared<LayerNorm>(dim, 1e-5));
    if (pre_norm()) norm_ = register_module("norm", std::make_shared<LayerNorm>(dim, 1e-5));
    head_ = register_module("head", std::make_shared<Linear>(dim, setup.data.classes));
    if (options.start == "truncated_normal") return;
    start_uniform(*attention_);
    start_uniform(*this);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor series = batch.fields.at("series").to(head_->weight.scalar_type());
    check_shape(series);
    std::vector<std::int64_t> sizes = series.sizes().vec();
    sizes[sizes.size() - 2] = 1;
    const Tensor x = at::cat({class_token_.expand(sizes), series}, -2) + positions_;
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    const Tensor y = pre_norm() ? norm_->forward(pre_norm_block(x, context).select(-2, 0))
                                : printed_block(x, context).select(-2, 0);
    return {{"logits", head_->forward(y)}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    if (options_.decay == "all") return true;
    return name != "class_token" && name != "positions" && Model::decays(name, parameter);
  }

 private:
  bool pre_norm() const { return options_.block == "pre_norm"; }

  /// Tokens and channels of the dataset's series.
  static std::pair<std::int64_t, std::int64_t> checked_series(const DatasetInfo& data) {
    const std::vector<std::int64_t>& series = data.field("series").shape;
    if (series.size() != 2 || series[0] <= 0 || series[1] <= 0) {
      throw DataError(
          "toy_transformer learns a position for each token and needs series [N, D] of "
          "one length; those of dataset '" +
          data.name + "' differ in length, or are no [N, D]");
    }
    for (const FieldInfo& field : data.fields) {
      if (field.name != "valid") continue;
      throw DataError("dataset '" + data.name +
                      "' marks padding (`valid`), which toy_transformer cannot hide; take series "
                      "without padding, or model timeseries_transformer");
    }
    if (data.classes <= 0) {
      throw DataError("toy_transformer classifies, and dataset '" + data.name + "' has no classes");
    }
    return {series[0], series[1]};
  }

  Tensor started(const std::string& name, at::IntArrayRef sizes, double std) {
    Tensor values = at::empty(sizes);
    fill_truncated_normal(values, std);
    return register_parameter(name, values);
  }

  void check_shape(const Tensor& series) const {
    if (series.dim() == 3 && series.size(1) + 1 == positions_.size(0) &&
        series.size(2) == positions_.size(1)) {
      return;
    }
    throw ShapeError("toy_transformer: series must be [B, " +
                     std::to_string(positions_.size(0) - 1) + ", " +
                     std::to_string(positions_.size(1)) + "], found " + describe(series));
  }

  Tensor printed_block(const Tensor& x, AttentionContext& context) {
    Tensor y = norm1_->forward(x) + attention_->forward(x, context);
    y = x + norm2_->forward(y);
    return x + mlp(y);
  }

  Tensor pre_norm_block(const Tensor& x, AttentionContext& context) {
    const Tensor y = x + attention_->forward(norm1_->forward(x), context);
    return y + mlp(norm2_->forward(y));
  }

  Tensor mlp(const Tensor& x) const {
    const Tensor hidden = mlp_in_->forward(x);
    return mlp_out_->forward(options_.activation == "gelu" ? at::gelu(hidden) : at::relu(hidden));
  }

  ToyTransformerOptions options_;
  Tensor class_token_;  ///< [1, D]
  Tensor positions_;    ///< P, [N + 1, D]
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Linear> mlp_in_, mlp_out_, head_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<LayerNorm> norm_;  ///< null as printed
};

}  // namespace

ATTNLAB_PLUGIN(model, ToyTransformer, ToyTransformerOptions,
               {.id = "attnlab/toy_transformer",
                .version = "1.0.0",
                .summary = "QUEST's toy model: one layer, one head, a class token",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026, algorithm A2",
                .licence = "Apache-2.0",
                .takes = {"series"},
                .gives = {"logits"},
                .needs = {}})

}  // namespace attnlab
