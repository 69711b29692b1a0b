#include "plugins/datasets/images/image_folder/subsets.h"

#include <algorithm>

namespace attnlab {

std::vector<std::int64_t> take(std::vector<std::int64_t>& indices, std::int64_t count,
                               Random random) {
  const auto all = static_cast<std::int64_t>(indices.size());
  std::vector<std::int64_t> order = permutation(all, random), taken, left;
  std::sort(order.begin(), order.begin() + count);
  std::sort(order.begin() + count, order.end());
  for (std::int64_t i = 0; i < all; ++i) {
    (i < count ? taken : left)
        .push_back(indices[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
  }
  indices = std::move(left);
  return taken;
}

}  // namespace attnlab
