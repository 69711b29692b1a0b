// What IA-DETR says of a query: logits, a change of its box, and features.
#pragma once

#include "plugins/models/ia_detr/layers.h"

namespace attnlab {

/// Heads of one layer.
class Heads : public torch::nn::Module {
 public:
  /// Logits start at a score of 0.01 (focal loss), boxes at no change.
  /// @param features  channels of features; 0: none
  Heads(std::int64_t dim, std::int64_t classes, std::int64_t features);

  /// Boxes start at another change of width and height, in terms of the inverse sigmoid.
  void start_sides(double change);

  Tensor logits(const Tensor& x) const { return classes_->forward(x); }
  /// What is added to the inverse sigmoid of a box [.., 4] centred.
  Tensor change(const Tensor& x) const { return box_->forward(x); }
  Tensor features(const Tensor& x) const { return features_->forward(x); }

 private:
  std::shared_ptr<Linear> classes_;
  std::shared_ptr<DeepHead> box_, features_;  ///< features null: none
};

/// The places of an image as proposals: each token's box and whether an object is there.
struct Proposals {
  Tensor logits;  ///< [B, N, 1]
  Tensor boxes;   ///< [B, N, 4] centred, in shares
  Tensor valid;   ///< [B, N] bool
};

/// The best `count` proposals of each example, falling; where fewer places are real they come again
/// from the first on. @returns [B, count, 4], without gradient.
Tensor best_boxes(const Proposals& proposals, std::int64_t count);

class ProposalHead : public torch::nn::Module {
 public:
  explicit ProposalHead(std::int64_t dim);
  /// Boxes begin in the middle of each token, 0.05 of the image wide and high.
  /// @param tokens  [B, h w, dim]   @param valid  [B, h, w] bool
  /// @param places  [B, h w, 2] the tokens' middles, (y, x) in shares of the image
  Proposals forward(const Tensor& tokens, const Tensor& places, const Tensor& valid) const;

 private:
  std::shared_ptr<Linear> map_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Heads> heads_;
};

}  // namespace attnlab
