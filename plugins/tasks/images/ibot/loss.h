// Cross entropies between what a teacher says of some views and a student of others.
//
//   class token   mean over examples and over pairs (q, v) of views, q != v, of -p_q log s_v, q a
//                 global crop that the teacher sees, v any crop
//   patches       mean over examples and global crops of the mean over their hidden patches of
//                 -p log s; a crop without hidden patches counts as 0
//
// Source: Zhou et al., iBOT, ICLR 2022, and its public code; the first alone is DINO's.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// -sum_k p_k log softmax_k(s): [R]. @param target  p, [R, K]   @param logits  s, [R, K]
Tensor soft_cross_entropies(const Tensor& target, const Tensor& logits);

/// @param target  [B, G, K], of the teacher
/// @param logits  [B, V, K], of the student; the first G views are those of the teacher
/// @returns a scalar.
Tensor class_token_loss(const Tensor& target, const Tensor& logits);

/// The hidden patches of crops.
struct HiddenPatches {
  Tensor rows;     ///< [M] int64: which of all patches, counted over crops
  Tensor weights;  ///< [M]: 1 / (crops * hidden patches of the crop)
};

/// @param masked  [crops, N] bool, true = hidden
HiddenPatches hidden_patches(const Tensor& masked, const at::TensorOptions& options);

}  // namespace attnlab
