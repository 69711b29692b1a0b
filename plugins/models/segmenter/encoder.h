// Segmenter's encoder: a vision transformer that gives its patches' tokens.
#pragma once

#include "plugins/models/segmenter/layers.h"

namespace attnlab {

/// Tokens of a grid of patches.
struct PatchTokens {
  Tensor tokens;  ///< [B, rows columns, dim], row by row
  std::int64_t rows = 0, columns = 0;
};

class SegmenterEncoder : public torch::nn::Module {
 public:
  /// @param patches  of the images that positions are learned for
  SegmenterEncoder(const PatchOptions& patches, const StackOptions& layers,
                   const AttentionBuilder& attention);

  /// @param images  [B, C, H, W], H and W multiples of the patches' side; where their grid is
  ///                another one than that of the positions, these are resized
  /// @throws ShapeError.
  PatchTokens forward(const Tensor& images, AttentionTrace* trace) const;

  /// Saved positions of another grid, a square one, resized to this one's.
  Tensor resized_from_square(const Tensor& saved) const;

 private:
  /// Positions [1, 1 + n m, dim] of n x m patches as those of rows x columns.
  Tensor positions_for(const Tensor& positions, std::int64_t n, std::int64_t m, std::int64_t rows,
                       std::int64_t columns) const;

  PatchOptions options_;
  double dropout_;
  std::shared_ptr<PatchEmbedding> patches_;
  Tensor class_token_;  ///< [1, 1, dim]
  Tensor positions_;    ///< [1, 1 + N, dim]
  std::shared_ptr<LayerStack> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace attnlab
