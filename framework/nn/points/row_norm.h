// Batch normalisation of rows: voxels, points, nodes.
//
//   y = (x - mean) / sqrt(var + eps) * w + b,   over the rows, for each channel
//   running = (1 - momentum) running + momentum * (of this batch);   var there with n - 1
//
// Sums are taken by blocks of rows in double precision, and the blocks' one after the other: the
// same bits whatever the number of threads. In evaluation, and for one row alone, mean and var are
// the running ones (framework/nn/kernels/batch_statistics.h); no row gives none.
// Source: Ioffe and Szegedy, ICML 2015 (arXiv:1502.03167).
// Cost: two passes forward, two backward.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

class RowNorm : public torch::nn::Module {
 public:
  explicit RowNorm(std::int64_t channels, double eps = 1e-5, double momentum = 0.1);
  /// [N, C] floating point to the same; in training by the batch's own mean and variance.
  Tensor forward(const Tensor& x);

  Tensor weight, bias;               ///< [C]: 1 and 0 at the start
  Tensor running_mean, running_var;  ///< [C], buffers: 0 and 1 at the start

 private:
  double eps_, momentum_;
};

}  // namespace attnlab
