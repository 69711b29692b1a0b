// What a detector of the DETR family says of an image: its best scored boxes. Nothing is
// suppressed: queries were trained to answer each object once.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// What stands for a score that is not a number; below all others.
inline constexpr double kNoScore = -1;

struct BestAnswers {
  Tensor scores;  ///< [B, k], falling; of equal ones the lower query, then class, comes first
  Tensor labels;  ///< [B, k] int64
  Tensor boxes;   ///< [B, k, 4] corners
};

/// The k best pairs of query and class of each example, k = min(most, Q K).
/// @param logits  [B, Q, K]: the score of class j is sigmoid(logits[..., j])
/// @param boxes   [B, Q, 4] centred
BestAnswers best_answers(const Tensor& logits, const Tensor& boxes, std::int64_t most);

}  // namespace attnlab
