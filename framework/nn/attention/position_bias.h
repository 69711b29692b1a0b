// A bias on attention's logits from where tokens stand: a small MLP of each pair's offset.
//
//   f(P_ij),   P_ij = key position j − query position i,   f(x) = W₂ relu(W₁ x + b₁), R^P to R^H
//
// W₂ has no bias: it would move all logits of a row alike, which softmax does not see.
// Source: the bias of Indirect Attention (eq. 3); the box-relative bias of Plain-DETR and the
// continuous bias of Swin V2 are of this form.
// Cost: O(Lq Lk hidden) time; O(Lq + Lk) evaluations where tokens stand at 0, 1, 2, ... Memory for
// the hidden layer is bounded: where it would be large it is computed in parts, and again for the
// gradient.
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

/// Weights and b₁ start as PyTorch's linear maps do, uniform in ±1/√(inputs): the kinks of the
/// hidden layer then lie at different offsets, where zero b₁ would put all of them at 0.
class PositionBias : public torch::nn::Module {
 public:
  /// @param heads    H; in an ensemble, of all members together
  /// @param members  of an ensemble, each with an MLP of its own (AttentionShape::members)
  PositionBias(std::int64_t coordinates, std::int64_t hidden, std::int64_t heads,
               std::int64_t members = 1);

  /// @param queries  [B or 1, Lq, P] floating point; in an ensemble [members * B or 1, Lq, P]
  /// @param keys     likewise [.., Lk, P]
  /// @returns [B or 1, H, Lq, Lk] in the parameters' dtype; differentiable twice, positions too.
  Tensor forward(const Tensor& queries, const Tensor& keys) const;

  /// The same for one coordinate and tokens at 0, 1, 2, ...: [1, H, Lq, Lk], from the Lq + Lk − 1
  /// offsets that occur. Lq and Lk must be positive.
  Tensor of_sequences(std::int64_t queries, std::int64_t keys) const;

  /// What positions are to be computed in: float64 if the parameters are, else float32 (bfloat16
  /// cannot count beyond 256).
  at::TensorOptions position_options() const;

  Tensor in_weight;   ///< W₁, [members * hidden, P]
  Tensor in_bias;     ///< b₁, [members * hidden]
  Tensor out_weight;  ///< W₂, [H, hidden]

 private:
  std::int64_t members_;
};

}  // namespace attnlab
