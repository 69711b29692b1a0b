// Which voxels meet in a kernel, by walks along the sorted keys.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/nn/points/sparse_convolution.h"
#include "framework/nn/points/voxels.h"

namespace attnlab {
namespace {

/// Pairs of one block of rows.
struct BlockPairs {
  std::vector<std::int32_t> inputs, outputs;
  std::vector<std::int64_t> ends;  ///< of each place's pairs
};

/// Pairs of one column of the kernel (one step along x and y, all along z), by step along z.
using Column = std::vector<std::vector<std::array<std::int32_t, 2>>>;

struct Walk {
  const std::int64_t* key;
  std::int64_t count, reach;  ///< reach: (size - 1) / 2
};

void walk_column(const Walk& walk, std::int64_t begin, std::int64_t end, std::int64_t dx,
                 std::int64_t dy, Column& column) {
  for (auto& pairs : column) pairs.clear();
  const std::int64_t step = dx * (std::int64_t{1} << 32) + dy * kGridSide;
  const std::int64_t* next =
      std::lower_bound(walk.key, walk.key + walk.count, walk.key[begin] + step - walk.reach);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t key = walk.key[row], wanted = key + step;
    const std::int64_t x = (key >> 32 & (kGridSide - 1)) + dx,
                       y = (key >> 16 & (kGridSide - 1)) + dy;
    if (x < 0 || x >= kGridSide || y < 0 || y >= kGridSide) continue;
    const std::int64_t z =
        key & (kGridSide - 1);  // steps beyond an end of the axis are another column
    const std::int64_t low = wanted - std::min(walk.reach, z);
    const std::int64_t high = wanted + std::min(walk.reach, kGridSide - 1 - z);
    while (next != walk.key + walk.count && *next < low) ++next;
    for (const std::int64_t* at = next; at != walk.key + walk.count && *at <= high; ++at) {
      column[static_cast<std::size_t>(*at - wanted + walk.reach)].push_back(
          {static_cast<std::int32_t>(at - walk.key), static_cast<std::int32_t>(row)});
    }
  }
}

BlockPairs pairs_of_block(const Walk& walk, std::int64_t begin, std::int64_t end) {
  BlockPairs block;
  Column column(static_cast<std::size_t>(2 * walk.reach + 1));
  for (std::int64_t dx = -walk.reach; dx <= walk.reach; ++dx) {
    for (std::int64_t dy = -walk.reach; dy <= walk.reach; ++dy) {
      walk_column(walk, begin, end, dx, dy, column);
      for (const auto& pairs : column) {
        for (const auto& [input, output] : pairs) {
          block.inputs.push_back(input);
          block.outputs.push_back(output);
        }
        block.ends.push_back(static_cast<std::int64_t>(block.inputs.size()));
      }
    }
  }
  return block;
}

}  // namespace

KernelMap kernel_map(const Tensor& keys, std::int64_t size) {
  const std::int64_t n = keys.size(0);
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  if (size < 1 || size % 2 == 0 || n > std::numeric_limits<std::int32_t>::max()) {
    throw ShapeError(fmt::format(
        "kernel_map: expected an odd size and fewer than 2^31 voxels, found {} and {}", size, n));
  }
  if (std::adjacent_find(key, key + n, std::greater_equal<>()) != key + n) {
    throw ShapeError("kernel_map: keys must rise, and none may stand there twice");
  }
  KernelMap map{size, n, {}, {}, {}};
  const std::int64_t places = map.places(), blocks = map.blocks();
  std::vector<BlockPairs> found(static_cast<std::size_t>(blocks));
  const Walk walk{key, n, (size - 1) / 2};
  at::parallel_for(0, blocks, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      found[static_cast<std::size_t>(b)] =
          pairs_of_block(walk, b * KernelMap::kBlock, std::min(n, (b + 1) * KernelMap::kBlock));
    }
  });
  map.starts = at::zeros({blocks * places + 1}, at::kLong);
  auto* starts = map.starts.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t before = starts[b * places];
    for (std::int64_t d = 0; d < places; ++d) {
      starts[b * places + d + 1] =
          before + found[static_cast<std::size_t>(b)].ends[static_cast<std::size_t>(d)];
    }
  }
  map.inputs = at::empty({starts[blocks * places]}, at::kInt);
  map.outputs = at::empty_like(map.inputs);
  at::parallel_for(0, blocks, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const BlockPairs& block = found[static_cast<std::size_t>(b)];
      const std::int64_t to = starts[b * places];
      std::copy(block.inputs.begin(), block.inputs.end(), map.inputs.data_ptr<std::int32_t>() + to);
      std::copy(block.outputs.begin(), block.outputs.end(),
                map.outputs.data_ptr<std::int32_t>() + to);
    }
  });
  return map;
}

}  // namespace attnlab
