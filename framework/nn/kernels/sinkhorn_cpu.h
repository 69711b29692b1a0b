// Sinkhorn's half-steps by scalings, on the CPU.
//
//   P = diag(a) K diag(b),   rows: a_i = 1 / (K b)_i,   columns: b_j = c_j / (Kᵀ a)_j
//
// K is the softmax of the logits, the first half-step. Rows in parallel; a row step
// and the column sums after it read K once, as do the two steps' gradients. The gradient of all
// half-steps is an elementwise product with a matrix of rank T, the number of half-steps:
//   dL = P ∘ (G - sum_t x^t y^tᵀ),
// where x^t and y^t come from the adjoint recursion, itself matrix-vector products with P.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// What one run of half-steps is asked for.
struct ScalingGoal {
  Tensor rows;                ///< [N, R]: what rows sum to: 1, or 0 where they see nothing
  Tensor columns;             ///< [N, C]: what columns are to sum to; 0 where unseen
  std::int64_t max_iter = 2;  ///< half-steps: 2 or more
  /// Stop after a row step that moves the logarithms of its scalings by less, summed over rows,
  /// mean over the N matrices. The first moves log-scalings of exp(logits) from 0, with rows that
  /// sum to one over the number of rows.
  double tolerance = 0;
};

/// @param logits  [N, R, C] contiguous float32 or float64 on the CPU; hidden ones so low that their
///                softmax is 0.
/// @param plan    as the logits: P is written here.
/// @returns for each half-step what it set: a [N, R] for even ones (the first: goal.rows), b [N, C]
/// for odd ones. Empty, and the plan of no use, where a number left the range in which products of
/// scalings are exact, or where the first half-step is the only one.
std::vector<Tensor> scale_rows_and_columns(const Tensor& logits, const Tensor& plan,
                                           const ScalingGoal& goal);

/// The gradient for the logits of K.
/// @param plan   P [N, R, C] contiguous
/// @param steps  as returned by `scale_rows_and_columns`
/// @param grad   [N, R, C] contiguous, of P
/// @returns [N, R, C]
Tensor scaling_gradient(const Tensor& plan, const std::vector<Tensor>& steps, const Tensor& columns,
                        const Tensor& grad);

}  // namespace attnlab
