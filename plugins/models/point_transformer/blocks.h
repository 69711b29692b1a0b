// The layers of a point transformer.
#pragma once

#include "framework/contracts/attention.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "framework/nn/points/row_norm.h"
#include "plugins/models/point_transformer/levels.h"

namespace attnlab {

/// Batch norms as published.
inline std::shared_ptr<RowNorm> point_norm(std::int64_t channels) {
  return std::make_shared<RowNorm>(channels, /*eps=*/1e-3, /*momentum=*/0.01);
}

/// x = GELU(RowNorm(SubMConv5(x)))
class PointStem : public torch::nn::Module {
 public:
  PointStem(std::int64_t in, std::int64_t out);
  Tensor forward(const Tensor& x, PointLevel& level);

 private:
  std::shared_ptr<SparseConvolution> convolution_;
  std::shared_ptr<RowNorm> norm_;
};

struct PointBlockOptions {
  MultiHeadOptions heads;
  double mlp_ratio = 4, drop_path = 0;
  std::int64_t patch_size = 0;
  std::int64_t number = 0;  ///< in its stage: which curve it goes along
};

/// x = x + LayerNorm(Linear(SubMConv3(x)))               what stands in for positions
/// x = x + DropPath(Attention(LayerNorm(x)) in patches)
/// x = x + DropPath(Mlp(LayerNorm(x)))
///
/// An attention that reads places is told those of the level's voxels (PointLevel::places).
class PointBlock : public torch::nn::Module {
 public:
  PointBlock(const PointBlockOptions& options, const AttentionBuilder& attention);
  /// [N, dim] to the same. Its input alone is kept where layers are computed again (recompute.h).
  Tensor forward(const Tensor& x, const std::shared_ptr<PointLevel>& level,
                 AttentionContext& context);
  const AttentionTraits& traits() const { return attention_->attention().traits(); }
  /// The groups that it attends in.
  const Patches& groups(PointLevel& level) const { return level.patches(number_, patch_size_); }

 private:
  Tensor pass(const Tensor& x, PointLevel& level, AttentionContext& context);
  Tensor attend(const Tensor& x, PointLevel& level, AttentionContext& context);

  std::int64_t number_, patch_size_;
  std::shared_ptr<SparseConvolution> place_convolution_;
  std::shared_ptr<Linear> place_linear_;
  std::shared_ptr<LayerNorm> place_norm_, attention_norm_, mlp_norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<DropPath> drop_;
};

/// GELU(RowNorm(max over a voxel's eight of Linear(x)))
class PointPooling : public torch::nn::Module {
 public:
  PointPooling(std::int64_t in, std::int64_t out);
  Tensor forward(const Tensor& x, const RowMap& parents);

 private:
  std::shared_ptr<Linear> linear_;
  std::shared_ptr<RowNorm> norm_;
};

/// GELU(RowNorm(Linear(skip))) + GELU(RowNorm(Linear(x))) of the voxel's parent
class PointUnpooling : public torch::nn::Module {
 public:
  PointUnpooling(std::int64_t in, std::int64_t skip, std::int64_t out);
  /// @param x  of the coarse voxels @param skip  of the fine ones
  Tensor forward(const Tensor& x, const Tensor& skip, const RowMap& parents);

 private:
  std::shared_ptr<Linear> linear_, skip_linear_;
  std::shared_ptr<RowNorm> norm_, skip_norm_;
};

}  // namespace attnlab
