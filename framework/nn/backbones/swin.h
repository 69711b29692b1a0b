// Swin Transformer V2: attention in windows over maps that grow coarser from stage to stage.
//
//   x = x + LayerNorm(WindowAttention(x)),   x = x + LayerNorm(Mlp(x))      each block
//   x = LayerNorm(W [four neighbours])                                      between stages
//   bias_h(dy, dx) = 16 sigmoid(MLP_h(g(dy), g(dx))),   g(d) = sign(d) log2(1 + |8 d / (w - 1)|) /
//   3
//
// Every second block shifts its windows by half a window. Keys have no bias, queries and values do.
// Published logits are cosines times a learned number of each head, capped: `swin_attention`; any
// attention that honours bias and pair masks may stand in its place. Layers regroup the cells, so
// none shares a state with another.
// Source: Liu et al., Swin Transformer V2, CVPR 2022, arXiv:2111.09883; sizes and the continuous
// bias as torchvision has them. Cost: O(cells w^2 dim) a block.
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/attention.h"
#include "framework/nn/backbones/image_features.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

struct SwinSizes {
  std::int64_t dim = 96;
  std::vector<std::int64_t> depths = {2, 2, 6, 2}, heads = {3, 6, 12, 24};  ///< by stage
  std::int64_t window = 8;
  double mlp_ratio = 4;
  double drop_path = 0;  ///< of the last block; 0 of the first, linear between
  std::int64_t channels = 3;

  std::int64_t blocks() const;
};

/// "T", "S" and "B" as published, and "nano": 32 channels, depths 2 2 2 2, for small machines.
/// @throws OptionError (of `preset`) for another name.
SwinSizes swin_sizes(const std::string& preset);

/// The published attention: C_h cos(q, k), C_h = exp(min(p_h, log 100)), 10 at the start.
AttentionBuilder swin_attention();

class Swin : public torch::nn::Module {
 public:
  /// @param sizes  with as many stages as there are depths; 3 end at stride 16
  Swin(const SwinSizes& sizes, const AttentionBuilder& attention);

  /// The map of the last stage, after a LayerNorm. @param x  images [B, channels, H, W] of any
  /// size, zeros where they are padded.
  ImageFeatures forward(const ImageFeatures& x, AttentionTrace* trace = nullptr);

  std::int64_t out_channels() const { return out_channels_; }
  std::int64_t stride() const { return stride_; }
  /// Where a parameter of this module lies (Trainable::depth): 0 the embedding, then a number a
  /// block; what merges cells counts to the block behind it.
  std::int64_t depth_of(const std::string& name) const;
  /// A saved tensor in the shape that it has here (Trainable::adapt): published scales of heads are
  /// [H, 1, 1].
  static Tensor adapted(const std::string& name, const Tensor& saved);

 private:
  class Embedding;
  class Merging;
  class Block;

  struct Stage {
    std::shared_ptr<Merging> merging;  ///< null in the first
    std::vector<std::shared_ptr<Block>> blocks;
  };

  std::int64_t out_channels_, stride_;
  std::shared_ptr<Embedding> embedding_;
  std::vector<Stage> stages_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace attnlab
