#include "framework/nn/points/patches.h"

#include <algorithm>
#include <vector>

namespace attnlab {

Patches Patches::to(const at::Device& device) const {
  return {count, size, slots.to(device), places.to(device),
          valid.defined() ? valid.to(device) : valid};
}

Patches patches_of(const Tensor& order, const Tensor& offsets, std::int64_t size) {
  const std::int64_t n = order.size(0), clouds = offsets.size(0) - 1;
  const std::int64_t* row = order.data_ptr<std::int64_t>();
  const std::int64_t* start = offsets.data_ptr<std::int64_t>();
  Patches patches;
  for (std::int64_t b = 0; b < clouds; ++b) {
    patches.size = std::max(patches.size, start[b + 1] - start[b]);
  }
  patches.size = std::min(patches.size, size);
  const std::int64_t k = patches.size;
  std::vector<std::int64_t> slots;
  slots.reserve(static_cast<std::size_t>(n + clouds * k));
  const Tensor places = at::empty({n}, at::kLong);
  auto* place = places.data_ptr<std::int64_t>();
  bool padded = false;
  for (std::int64_t b = 0; b < clouds; ++b) {
    for (std::int64_t i = start[b]; i < start[b + 1]; ++i) {
      place[row[i]] = static_cast<std::int64_t>(slots.size());
      slots.push_back(row[i]);
    }
    const bool has_previous = start[b + 1] - start[b] > k;
    while (k > 0 && slots.size() % static_cast<std::size_t>(k) != 0) {
      slots.push_back(has_previous ? slots[slots.size() - static_cast<std::size_t>(k)] : -1);
      padded = padded || !has_previous;
    }
  }
  const Tensor source = at::tensor(slots, at::kLong);
  patches.count = k == 0 ? 0 : source.size(0) / k;
  patches.slots = row_map(source, n);
  patches.places = row_map(places, source.size(0));
  if (padded) patches.valid = source.ge(0).view({patches.count, k});
  return patches;
}

}  // namespace attnlab
