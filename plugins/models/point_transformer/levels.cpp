#include "plugins/models/point_transformer/levels.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {
namespace {

/// Where each cloud begins among sorted keys: [B + 1].
Tensor offsets_of(const Tensor& keys, std::int64_t clouds) {
  const Tensor offsets = at::empty({clouds + 1}, at::kLong);
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b <= clouds; ++b) {
    offsets.data_ptr<std::int64_t>()[b] = std::lower_bound(key, key + keys.size(0), b << 48) - key;
  }
  return offsets;
}

}  // namespace

PointLevel::PointLevel(Tensor keys, Tensor offsets, std::vector<Curve> curves,
                       const at::Device& device, std::int64_t number)
    : keys_(std::move(keys)),
      offsets_(std::move(offsets)),
      curves_(std::move(curves)),
      device_(device),
      number_(number) {}

const Patches& PointLevel::patches(std::int64_t block, std::int64_t size) {
  const Curve curve = curves_[static_cast<std::size_t>(block) % curves_.size()];
  const auto [found, is_new] = patches_.try_emplace({curve, size});
  if (is_new) {
    const Tensor order = sorting_order(curve_codes(keys_, curve, number_));
    found->second = patches_of(order, offsets_, size).to(device_);
  }
  return found->second;
}

const KernelMap& PointLevel::neighbours(std::int64_t size) {
  const auto [found, is_new] = neighbours_.try_emplace(size);
  if (is_new) found->second = kernel_map(keys_, size);
  return found->second;
}

const Tensor& PointLevel::places() {
  if (!places_.defined()) places_ = voxel_places(keys_).to(device_, at::kFloat);
  return places_;
}

PointLevel::Pooled PointLevel::pooled(std::vector<Curve> curves) const {
  const UniqueKeys parents = parent_keys(keys_);
  return {std::make_shared<PointLevel>(parents.keys, offsets_of(parents.keys, offsets_.size(0) - 1),
                                       std::move(curves), device_, number_ + 1),
          row_map(parents.rows, parents.keys.size(0)).to(device_)};
}

SortedVoxels sorted_voxels(const Tensor& grid, const Tensor& offsets, std::vector<Curve> curves) {
  const Tensor keys = voxel_keys(grid, offsets), order = sorting_order(keys);
  const Tensor sorted = keys.index_select(0, order);
  const std::int64_t* key = sorted.data_ptr<std::int64_t>();
  const std::int64_t* twice = std::adjacent_find(key, key + sorted.size(0));
  if (twice != key + sorted.size(0)) {
    const auto row = order[twice - key + 1].item<std::int64_t>();
    throw DataError(
        fmt::format("grid@voxel: row {} of the batch stands where another voxel of its cloud does; "
                    "a voxel may be there once",
                    row));
  }
  SortedVoxels voxels;
  voxels.level = std::make_shared<PointLevel>(sorted, offsets, std::move(curves), grid.device());
  const Tensor identity = at::arange(sorted.size(0));
  voxels.in_order = order.equal(identity);
  if (!voxels.in_order) {
    voxels.rows = row_map(order, sorted.size(0)).to(grid.device());
    voxels.back = row_map(at::empty_like(order).index_copy_(0, order, identity), sorted.size(0))
                      .to(grid.device());
  }
  return voxels;
}

}  // namespace attnlab
