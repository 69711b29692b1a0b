#include "framework/nn/points/voxels.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "framework/nn/points/curves.h"

namespace attnlab {
namespace {

constexpr std::int64_t kMostExamples = 1 << 15;
constexpr std::int64_t kGrain = 8192;

std::int64_t key_of(std::int64_t example, std::int64_t x, std::int64_t y, std::int64_t z) {
  return example << 48 | x << 32 | y << 16 | z;
}

/// [N, 3]: floor(coordinates / size), as whole numbers.
template <class T>
std::vector<double> floored(const Tensor& coordinates, double size) {
  std::vector<double> cells(static_cast<std::size_t>(coordinates.numel()));
  const T* from = coordinates.data_ptr<T>();
  at::parallel_for(0, coordinates.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      cells[static_cast<std::size_t>(i)] = std::floor(static_cast<double>(from[i]) / size);
    }
  });
  return cells;
}

/// The least cell of each axis. @throws DataError
std::array<double, 3> least_corner(const std::vector<double>& cells, double size,
                                   const std::string& place) {
  std::array<double, 3> least, most;
  least.fill(std::numeric_limits<double>::infinity());
  most.fill(-std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!std::isfinite(cells[i])) {
      throw DataError(
          fmt::format("{}: point {} has a coordinate that is not a finite number; "
                      "remove such points",
                      place, i / 3));
    }
    least[i % 3] = std::min(least[i % 3], cells[i]);
    most[i % 3] = std::max(most[i % 3], cells[i]);
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (most[axis] - least[axis] < kGridSide) continue;
    throw DataError(fmt::format(
        "{}: is {:.0f} voxels of {} wide along {}, and curves count to {}; take a larger grid, or "
        "remove points far away",
        place, most[axis] - least[axis] + 1, size, "xyz"[axis], kGridSide));
  }
  return least;
}

}  // namespace

Voxels voxelise(const Tensor& coordinates, double size, const std::string& place) {
  if (coordinates.dim() != 2 || coordinates.size(1) != 3 || !(size > 0)) {
    throw ShapeError(
        fmt::format("voxelise: expected coordinates [N, 3] and a size above 0, found {} and {}",
                    describe(coordinates), size));
  }
  const Tensor dense = coordinates.contiguous();
  const std::vector<double> cells = dense.scalar_type() == at::kDouble
                                        ? floored<double>(dense, size)
                                        : floored<float>(dense.to(at::kFloat), size);
  const std::array<double, 3> least = least_corner(cells, size, place);
  const std::int64_t n = coordinates.size(0);
  const Tensor keys = at::empty({n}, at::kLong);
  auto* key = keys.data_ptr<std::int64_t>();
  at::parallel_for(0, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double* cell = cells.data() + 3 * i;
      key[i] = key_of(0, static_cast<std::int64_t>(cell[0] - least[0]),
                      static_cast<std::int64_t>(cell[1] - least[1]),
                      static_cast<std::int64_t>(cell[2] - least[2]));
    }
  });
  const UniqueKeys unique = unique_keys(keys);
  return {voxel_places(unique.keys), unique.rows};
}

Tensor voxel_keys(const Tensor& grid, const Tensor& offsets) {
  const std::int64_t examples = offsets.size(0) - 1;
  if (grid.dim() != 2 || grid.size(1) != 3 || grid.scalar_type() != at::kLong) {
    throw ShapeError("grid: expected [N, 3] int64, found " + describe(grid));
  }
  if (examples > kMostExamples) {
    throw DataError(
        fmt::format("a batch of {} clouds: keys of voxels count to {}; take a smaller "
                    "batch",
                    examples, kMostExamples));
  }
  const Tensor here = grid.to(at::kCPU).contiguous();
  Tensor keys = at::empty({grid.size(0)}, at::kLong);
  const std::int64_t* place = here.data_ptr<std::int64_t>();
  const std::int64_t* starts = offsets.data_ptr<std::int64_t>();
  auto* key = keys.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < examples; ++b) {
    for (std::int64_t i = starts[b]; i < starts[b + 1]; ++i, place += 3) {
      for (int axis = 0; axis < 3; ++axis) {
        if (place[axis] >= 0 && place[axis] < kGridSide) continue;
        throw DataError(fmt::format("grid: voxel {} has the coordinate {}; expected 0 to {}", i,
                                    place[axis], kGridSide - 1));
      }
      key[i] = key_of(b, place[0], place[1], place[2]);
    }
  }
  return keys;
}

Tensor voxel_places(const Tensor& keys) {
  Tensor places = at::empty({keys.size(0), 3}, at::kLong);
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  auto* place = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < keys.size(0); ++i) {
    for (int shift = 32; shift >= 0; shift -= 16) *place++ = key[i] >> shift & (kGridSide - 1);
  }
  return places;
}

UniqueKeys unique_keys(const Tensor& keys) {
  const std::int64_t n = keys.size(0);
  const Tensor order = sorting_order(keys), unique = at::empty({n}, at::kLong);
  const Tensor rows = at::empty({n}, at::kLong);
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  const std::int64_t* at = order.data_ptr<std::int64_t>();
  auto* to = unique.data_ptr<std::int64_t>();
  auto* row = rows.data_ptr<std::int64_t>();
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (count == 0 || key[at[i]] != to[count - 1]) to[count++] = key[at[i]];
    row[at[i]] = count - 1;
  }
  return {unique.narrow(0, 0, count).clone(), rows};
}

UniqueKeys parent_keys(const Tensor& keys) {
  // Each axis loses its last bit; the batch stays.
  const Tensor parents = at::empty_like(keys);
  constexpr std::int64_t kHalves = 0x7fff'7fff'7fff;
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  auto* parent = parents.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < keys.size(0); ++i) {
    parent[i] = key[i] >> 48 << 48 | (key[i] >> 1 & kHalves);
  }
  return unique_keys(parents);
}

}  // namespace attnlab
