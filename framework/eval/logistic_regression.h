// Multinomial logistic regression with an L2 penalty, to convergence: L-BFGS in float64.
//
//   f(W, b) = mean_i -log softmax(W x_i + b)[y_i] + penalty / 2 |W|^2
//
// The penalty does not touch b. f is convex, so where W ends does not depend on where it begins.
// Steps: two-loop recursion over the last 10, a step that meets the weak Wolfe conditions found by
// bisection (near the end Hager and Zhang's approximate ones, 2005). Source: Nocedal and Wright,
// Numerical optimization, 2006, algorithms 7.4 and 7.5; Lewis and Overton, 2013, for the bisection.
// Cost: O(N C K) an iteration.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

struct LogisticOptions {
  double penalty = 0;  ///< above 0
  bool bias = true;
  std::int64_t iterations = 1000;  ///< at most
  double tolerance = 1e-6;         ///< of the largest number of the gradient
};

struct LogisticFit {
  Tensor weight;        ///< [K, C] float64
  Tensor bias;          ///< [K] float64; zeros without bias
  double loss = 0;      ///< f
  double gradient = 0;  ///< its largest number, of f's
  std::int64_t iterations = 0;

  /// [B, K] float64. @param features  [B, C]
  Tensor logits(const Tensor& features) const;
};

/// @param features  [N, C] floating point on the CPU, N at least 1
/// @param classes   [N] int64, 0 <= class < count
/// @param start     to begin from: of another penalty; null: zeros
/// @throws ShapeError.
LogisticFit fit_logistic(const Tensor& features, const Tensor& classes, std::int64_t count,
                         const LogisticOptions& options, const LogisticFit* start = nullptr);

}  // namespace attnlab
