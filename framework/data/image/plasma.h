// Plasma: the cloud that fog is made of, by the diamond-square algorithm on a torus.
//
//   m[0, 0] = 0; for steps s = n, n/2, ..., 2 with w = 100, 100/decay, 100/decay^2, ...:
//     squares    m[s/2 + .., s/2 + ..] = mean of its four corners + w U(-w, w)
//     diamonds   m[.., s/2 + ..], then m[s/2 + .., ..] = mean of the four around + w U(-w, w)
//   m = (m - min) / (max - min)
//
// The noise is w U(-w, w), of squared width, as in the code of ImageNet-C (Hendrycks & Dietterich,
// ICLR 2019), whose order of draws this has. Cost: n^2.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "framework/data/image/float_image.h"

namespace attnlab {

/// @param size     a power of two
/// @param uniform  gives the next number of [0, 1)
FloatImage plasma(std::int64_t size, double decay, const std::function<double()>& uniform);

/// Numbers that one map of this size draws: n^2 - 1.
std::uint64_t plasma_draws(std::int64_t size);

/// The smallest power of two that covers `pixels`.
std::int64_t plasma_size(std::int64_t pixels);

/// The maps that a NumPy program draws one after the other behind numpy.random.seed(seed), by
/// number: MT19937, 53 bits of two outputs. The state is kept for every 64th map, so that any map
/// is near one.
class NumpyPlasmas {
 public:
  /// Cost: some 3 ns a number that the maps draw, and 80 bytes a map.
  NumpyPlasmas(std::uint32_t seed, std::int64_t size, double decay, std::int64_t maps);

  /// @param map  0 to maps - 1. Thread-safe.
  FloatImage map(std::int64_t map) const;

 private:
  std::int64_t size_;
  double decay_;
  std::vector<std::mt19937> states_;
};

}  // namespace attnlab
