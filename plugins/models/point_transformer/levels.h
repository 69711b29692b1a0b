// The voxels of a batch at one size after the other, and what layers ask of them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "framework/nn/points/curves.h"
#include "framework/nn/points/patches.h"
#include "framework/nn/points/sparse_convolution.h"
#include "framework/nn/points/voxels.h"

namespace attnlab {

/// Voxels of one size. Maps are made when a layer first asks for them.
class PointLevel {
 public:
  /// @param keys     [N] int64 on the CPU, rising
  /// @param offsets  [B + 1] int64 on the CPU
  /// @param curves   of the blocks, one after the other
  /// @param number   0 for the voxels of the data, 1 for those of twice the size, ...
  PointLevel(Tensor keys, Tensor offsets, std::vector<Curve> curves, const at::Device& device,
             std::int64_t number = 0);

  std::int64_t rows() const { return keys_.size(0); }
  const Tensor& offsets() const { return offsets_; }
  /// The groups of a stage's block: along the curve of its number, groups of `size`.
  const Patches& patches(std::int64_t block, std::int64_t size);
  const KernelMap& neighbours(std::int64_t size);
  /// x, y and z of each voxel, in voxels of this size: [N, 3] float32.
  const Tensor& places();

  /// Voxels of twice the size, and which of them holds each of these.
  struct Pooled {
    std::shared_ptr<PointLevel> level;
    RowMap parents;
  };
  Pooled pooled(std::vector<Curve> curves) const;

 private:
  Tensor keys_, offsets_;
  std::vector<Curve> curves_;
  at::Device device_;
  std::int64_t number_;
  std::map<std::pair<Curve, std::int64_t>, Patches> patches_;
  std::map<std::int64_t, KernelMap> neighbours_;
  Tensor places_;  ///< undefined until they are asked for
};

/// The voxels as the data give them, in order of their keys.
struct SortedVoxels {
  std::shared_ptr<PointLevel> level;
  RowMap rows;           ///< the batch's row of each voxel, by key
  RowMap back;           ///< and back
  bool in_order = true;  ///< both are the identity, and not set
};

/// @param grid  [N, 3] int64
/// @throws DataError where two voxels of a cloud stand at one place.
SortedVoxels sorted_voxels(const Tensor& grid, const Tensor& offsets, std::vector<Curve> curves);

}  // namespace attnlab
