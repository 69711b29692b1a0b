// The logistic function in loops that the compiler turns into vectors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace attnlab {

/// e^x to about one unit in the last place, for x from -87 to 88; beyond them e^-87 and e^88.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kRounder = 12582912.F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.F ? -87.F : x;
  x = x > 88.F ? 88.F : x;
  const float shifted = x * 1.44269504088896341F + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float y = 1.9875691500e-4F * r + 1.3981999507e-3F;  // Cephes' expf
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * (r * r) + r + 1.F;
  // 2^n: the integer lies in the low bits of the shifted number.
  const std::int32_t power = (std::bit_cast<std::int32_t>(shifted) - 0x4b400000 + 127) << 23;
  return y * std::bit_cast<float>(power);
}

[[gnu::always_inline]] inline double exponential(double x) { return std::exp(x); }

/// 1 / (1 + e^-x)
template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

}  // namespace attnlab
