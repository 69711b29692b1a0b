// Batch normalisation of rows that lie end to end: nodes, edges, points.
//
//   y = (x - m) / sqrt(v + eps) * weight + bias,   m and v over the N rows, channel by channel
//
// In training m and v are those of the batch (v divided by N), and the running ones follow:
//   r <- (1 - momentum) r + momentum (m, v N / (N - 1))
// In evaluation, and for one row alone (framework/nn/kernels/batch_statistics.h), they are the
// running ones, so that a row gives the same in every batch.
// Source: Ioffe and Szegedy 2015; numbers as PyTorch's BatchNorm1d.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// What is done to y in the same pass over memory.
struct AfterNorm {
  bool relu = false;
  Tensor residual = {};  ///< [N, C], added last; undefined: nothing
};

class BatchNorm : public torch::nn::Module {
 public:
  explicit BatchNorm(std::int64_t dim, double eps = 1e-5, double momentum = 0.1);

  /// @param x  [N, C] floating point. One row alone, and none, leave the running statistics as they
  ///           are.
  /// @returns [N, C], differentiable twice. Sums run in double precision in an order that does not
  /// depend on threads: for float32 and float64 on the CPU two passes forward, two backward, and
  /// nothing is kept beside x. Elsewhere composed operations.
  /// @throws ShapeError for another number of channels.
  Tensor forward(const Tensor& x, const AfterNorm& after = {});

  Tensor weight, bias;                    ///< [C], 1 and 0 at the start
  Tensor running_mean, running_variance;  ///< [C] buffers, 0 and 1 at the start

 private:
  void follow(const Tensor& mean, const Tensor& variance, std::int64_t rows);

  double eps_, momentum_;
};

}  // namespace attnlab
