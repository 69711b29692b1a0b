// Submanifold sparse convolution: outputs stand where inputs do, and only occupied voxels count.
//
//   y_i = sum over d of W_d x_{j(i, d)},   j(i, d) the voxel at place(i) + d, where there is one
//
// d runs over the kernel's places, -1 to 1 or -2 to 2 along each axis. As torch's conv3d on a dense
// grid, read where voxels are occupied. Pairs (i, j) are found by walking along the sorted keys,
// and kept by blocks of output rows: a block gathers what it reads, multiplies and adds up in the
// cache, alone. So no sum depends on threads, and nothing grows but with the pairs.
// The gradient of x is the same convolution with the mirrored, transposed kernel; that of W is a
// sum over the pairs of each d, in order.
// Source: Graham et al., 3D semantic segmentation with submanifold sparse convolutional networks,
// CVPR 2018 (arXiv:1711.10275); the layout of W is spconv's from version 2 on.
// Cost: pairs * in * out multiply-adds; memory O(pairs + N (in + out)).
#pragma once

#include <array>

#include "framework/tensor/saved_layout.h"

namespace attnlab {

/// Which voxels meet in a kernel.
struct KernelMap {
  std::int64_t size = 0;  ///< side of the kernel: 3 or 5
  std::int64_t rows = 0;  ///< N
  /// [blocks * size^3 + 1] int64 on the CPU: pairs of block b (rows from b * kBlock on) and place d
  /// are those from starts[b * size^3 + d] on, in order of their outputs.
  Tensor starts;
  Tensor inputs, outputs;  ///< [pairs] int32: rows

  static constexpr std::int64_t kBlock = 128;
  std::int64_t places() const { return size * size * size; }
  std::int64_t blocks() const { return (rows + kBlock - 1) / kBlock; }
  std::int64_t pairs() const { return inputs.size(0); }
};

/// @param keys  [N] int64 on the CPU, rising, none twice (framework/nn/points/voxels.h)
/// @param size  an odd number
/// @throws ShapeError for keys that do not rise, an even size, or more than 2^31 rows.
KernelMap kernel_map(const Tensor& keys, std::int64_t size);

/// @param x       [N, in] floating point
/// @param weight  [out, size, size, size, in] of the same dtype and device; places in order x, y, z
/// @returns [N, out], differentiable twice.
/// @throws ShapeError
/// float32 and float64 on the CPU have loops of their own; else a product for each place.
Tensor sparse_convolution(const Tensor& x, const Tensor& weight, const KernelMap& map);

/// The layer: weight and bias start as spconv's and PyTorch's do, uniform in
/// +-1/sqrt(in * size^3); without bias `bias` is undefined.
/// In files' metadata `sparse_convolution` is "out,x,y,z,in" where kernels lie as `weight` does,
/// and "x,y,z,in,out" where they are spconv 1's. Without the entry the shape tells, but for a
/// kernel of five equal sizes, which is refused.
class SparseConvolution : public torch::nn::Module, public SavedLayout {
 public:
  SparseConvolution(std::int64_t in, std::int64_t out, std::int64_t size, bool has_bias = true);
  Tensor forward(const Tensor& x, const KernelMap& map) const;

  std::pair<std::string, std::string> layout_entry() const override;
  NamedTensors in_layout(const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const std::string& path) const override;

  Tensor weight, bias;
};

}  // namespace attnlab
