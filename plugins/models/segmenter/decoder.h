// Segmenter's decoders: from tokens of patches to logits of classes for each of them.
//
//   linear  logits = W x + b
//   mask    [x; c] = layers([W x + b; class embeddings]),  LayerNorm of both
//           logits = LayerNorm over classes of  unit(x P) unit(c C)^T
//
// P and C start as N(0, 1) / sqrt(dim). Source: Strudel et al., Segmenter, ICCV 2021, section 3.2,
// and its public code (MaskTransformer, DecoderLinear).
#pragma once

#include "plugins/models/segmenter/encoder.h"

namespace attnlab {

class SegmenterDecoder : public torch::nn::Module {
 public:
  /// @returns [B, K, rows, columns].
  virtual Tensor forward(const PatchTokens& patches, AttentionTrace* trace) const = 0;
};

class LinearDecoder final : public SegmenterDecoder {
 public:
  LinearDecoder(std::int64_t dim, std::int64_t classes);
  Tensor forward(const PatchTokens& patches, AttentionTrace* trace) const override;

 private:
  std::shared_ptr<Linear> head_;
};

class MaskDecoder final : public SegmenterDecoder {
 public:
  /// @param source  channels of the encoder's tokens
  MaskDecoder(std::int64_t source, std::int64_t classes, const StackOptions& layers,
              const AttentionBuilder& attention);
  Tensor forward(const PatchTokens& patches, AttentionTrace* trace) const override;

 private:
  std::int64_t classes_;
  std::shared_ptr<Linear> input_;
  Tensor class_embeddings_;                     ///< [1, K, dim]
  Tensor patch_projection_, class_projection_;  ///< P, C, [dim, dim]
  std::shared_ptr<LayerStack> layers_;
  std::shared_ptr<LayerNorm> norm_, mask_norm_;
};

}  // namespace attnlab
