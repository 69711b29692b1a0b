#pragma once

#include <cstdint>

namespace attnlab {

/// Whether it is 1, 2, 4, 8, ...
constexpr bool is_power_of_two(std::int64_t number) {
  return number > 0 && (number & (number - 1)) == 0;
}

}  // namespace attnlab
