#include "plugins/datasets/images/image_folder/subsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/base/error.h"
#include "framework/base/text.h"

namespace attnlab {

std::int64_t wanted_of(const char* option, double wanted, std::size_t count) {
  const auto all = static_cast<double>(count);
  const double number = wanted < 1 ? std::round(wanted * all) : wanted;
  if (number != std::floor(number)) {
    throw OptionError(option, shortest(wanted) + " is neither a share below 1 nor a whole number");
  }
  if (number > all) {
    throw OptionError(option, fmt::format("{} is more than the {} images that there are",
                                          shortest(wanted), count));
  }
  return static_cast<std::int64_t>(number);
}

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
