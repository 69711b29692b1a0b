// Layers of IA-DETR's encoder and decoder, norm first. Blocks keep their inputs alone where layers
// are computed again (framework/contracts/recompute.h).
#pragma once

#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab {

struct LayerSizes {
  std::int64_t dim = 256, heads = 8, hidden = 2048;
  double dropout = 0;
  std::int64_t layer = 0, layers = 1;  ///< for AttentionShape
};

/// An attention with a norm before it: x + Attention(LN(x) + places, keys, values).
class ReadingBlock : public torch::nn::Module {
 public:
  ReadingBlock(const LayerSizes& sizes, const AttentionBuilder& attention);

  /// Of what the queries themselves are.
  Tensor read_self(const Tensor& x, const Tensor& places, ForwardState* state,
                   AttentionTrace* trace, const AttentionExtras& extras) const;
  /// Of keys and values from elsewhere.
  Tensor read(const Tensor& x, const Tensor& places, const Tensor& keys, const Tensor& values,
              ForwardState* state, AttentionTrace* trace, const AttentionExtras& extras) const;

  /// Whether the attention asks where tokens stand (AttentionTraits::places).
  bool asks_for_places() const { return attention_->attention().traits().places; }

 private:
  std::int64_t layer_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
};

/// x + Mlp(LN(x)).
class MlpBlock : public torch::nn::Module {
 public:
  explicit MlpBlock(const LayerSizes& sizes);
  Tensor forward(const Tensor& x) const;

 private:
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Mlp> mlp_;
};

/// Linear, ReLU, linear, ReLU, linear: heads of boxes and of features.
class DeepHead : public torch::nn::Module {
 public:
  DeepHead(std::int64_t dim, std::int64_t out, bool start_at_zero);
  Tensor forward(const Tensor& x) const;
  /// Sets the bias of the last map, one number for each of `out`.
  void start_at(const std::vector<double>& bias);

 private:
  std::shared_ptr<Linear> first_, second_, last_;
};

}  // namespace attnlab
