#include "framework/data/image/plasma.h"

#include <algorithm>

namespace attnlab {
namespace {

constexpr std::int64_t kApart = 64;  ///< maps from one kept state to the next

}  // namespace

FloatImage plasma(std::int64_t size, double decay, const std::function<double()>& uniform) {
  FloatImage map(size, size, 1);
  const auto at = [&](std::int64_t y, std::int64_t x) -> double& {
    return map.at((y + size) % size, (x + size) % size);
  };
  double wibble = 100;
  for (std::int64_t step = size; step >= 2; step /= 2, wibble /= decay) {
    const std::int64_t half = step / 2;
    const auto fill = [&](std::int64_t top, std::int64_t left, bool square) {
      for (std::int64_t y = top; y < size; y += step) {
        for (std::int64_t x = left; x < size; x += step) {
          const double sum =
              square ? at(y - half, x - half) + at(y + half, x - half) + at(y - half, x + half) +
                           at(y + half, x + half)
                     : at(y - half, x) + at(y + half, x) + at(y, x - half) + at(y, x + half);
          at(y, x) = sum / 4 + wibble * (-wibble + 2 * wibble * uniform());
        }
      }
    };
    fill(half, half, true);
    fill(0, half, false);
    fill(half, 0, false);
  }
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  const double least = *low, spread = *high - *low;
  for (double& value : map.values) value = (value - least) / spread;
  return map;
}

std::uint64_t plasma_draws(std::int64_t size) {
  return static_cast<std::uint64_t>(size * size - 1);
}

std::int64_t plasma_size(std::int64_t pixels) {
  std::int64_t size = 2;
  while (size < pixels) size *= 2;
  return size;
}

NumpyPlasmas::NumpyPlasmas(std::uint32_t seed, std::int64_t size, double decay, std::int64_t maps)
    : size_(size), decay_(decay) {
  std::mt19937 engine(seed);
  for (std::int64_t map = 0; map < maps; map += kApart) {
    states_.push_back(engine);
    engine.discard(2 * plasma_draws(size) * kApart);
  }
}

FloatImage NumpyPlasmas::map(std::int64_t map) const {
  std::mt19937 engine = states_.at(static_cast<std::size_t>(map / kApart));
  engine.discard(2 * plasma_draws(size_) * static_cast<std::uint64_t>(map % kApart));
  return plasma(size_, decay_, [&engine] {
    const auto upper = static_cast<double>(engine() >> 5),
               lower = static_cast<double>(engine() >> 6);
    return (upper * 67108864 + lower) / 9007199254740992.0;
  });
}

}  // namespace attnlab
