#include "framework/data/image/jpeg_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "framework/data/image/float_image.h"

namespace attnlab {
namespace {

using Steps = std::array<int, 64>;

// Annex K.1 and K.2, row by row.
constexpr Steps kLuminance = {16,  11,  10,  16,  24, 40, 51,  61,  12,  12,  14,  19,  26,
                              58,  60,  55,  14,  13, 16, 24,  40,  57,  69,  56,  14,  17,
                              22,  29,  51,  87,  80, 62, 18,  22,  37,  56,  68,  109, 103,
                              77,  24,  35,  55,  64, 81, 104, 113, 92,  49,  64,  78,  87,
                              103, 121, 120, 101, 72, 92, 95,  98,  112, 100, 103, 99};
constexpr Steps kChrominance = {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
                                24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
                                99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
                                99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

Steps scaled(Steps steps, int quality) {
  const int percent = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  for (int& step : steps) step = std::clamp((step * percent + 50) / 100, 1, 255);
  return steps;
}

/// Row u holds the u-th cosine, of unit length.
const std::array<double, 64>& cosines() {
  static const std::array<double, 64> table = [] {
    std::array<double, 64> all{};
    for (std::size_t u = 0; u < 8; ++u) {
      for (std::size_t x = 0; x < 8; ++x) {
        all[8 * u + x] = (u == 0 ? std::sqrt(0.125) : 0.5) *
                         std::cos((2 * double(x) + 1) * double(u) * std::numbers::pi / 16);
      }
    }
    return all;
  }();
  return table;
}

/// out = C in C^T, or C^T in C.
void transform(const double* in, bool back, double* out) {
  const std::array<double, 64>& c = cosines();
  const auto factor = [&](std::size_t i, std::size_t k) {
    return back ? c[8 * k + i] : c[8 * i + k];
  };
  std::array<double, 64> half{};
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t k = 0; k < 8; ++k) {
      for (std::size_t j = 0; j < 8; ++j) half[8 * i + j] += factor(i, k) * in[8 * k + j];
    }
  }
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 8; ++k) sum += half[8 * i + k] * factor(j, k);
      out[8 * i + j] = sum;
    }
  }
}

/// One channel, its levels 0 to 255, through the blocks.
void quantise(FloatImage& plane, const Steps& steps) {
  std::array<double, 64> block{}, coefficients{};
  const FloatImage before = plane;
  for (std::int64_t top = 0; top < plane.height; top += 8) {
    for (std::int64_t left = 0; left < plane.width; left += 8) {
      for (std::int64_t i = 0; i < 64; ++i) {  // beyond the edges they are repeated
        block[static_cast<std::size_t>(i)] = before.at(std::min(top + i / 8, plane.height - 1),
                                                       std::min(left + i % 8, plane.width - 1)) -
                                             128;
      }
      transform(block.data(), false, coefficients.data());
      for (std::size_t i = 0; i < 64; ++i) {
        coefficients[i] = std::round(coefficients[i] / steps[i]) * steps[i];
      }
      transform(coefficients.data(), true, block.data());
      for (std::int64_t i = 0; i < 64; ++i) {
        if (top + i / 8 >= plane.height || left + i % 8 >= plane.width) continue;
        plane.at(top + i / 8, left + i % 8) =
            std::clamp(std::round(block[static_cast<std::size_t>(i)] + 128), 0.0, 255.0);
      }
    }
  }
}

/// Means over 2 x 2, rounded up and down in turns as libjpeg does.
FloatImage halved(const FloatImage& plane) {
  FloatImage out((plane.height + 1) / 2, (plane.width + 1) / 2, 1);
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t below = std::min(2 * y + 1, plane.height - 1);
      const std::int64_t beside = std::min(2 * x + 1, plane.width - 1);
      const double sum = plane.at(2 * y, 2 * x) + plane.at(2 * y, beside) + plane.at(below, 2 * x) +
                         plane.at(below, beside);
      out.at(y, x) = std::floor((sum + (x % 2 == 0 ? 1 : 2)) / 4);
    }
  }
  return out;
}

/// To twice the size by weights 3/4 and 1/4 in each direction.
FloatImage doubled(const FloatImage& plane, std::int64_t height, std::int64_t width) {
  FloatImage out(height, width, 1);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t near = y / 2;
    const std::int64_t far =
        std::clamp<std::int64_t>(near + (y % 2 == 0 ? -1 : 1), 0, plane.height - 1);
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t column = x / 2;
      const std::int64_t other =
          std::clamp<std::int64_t>(column + (x % 2 == 0 ? -1 : 1), 0, plane.width - 1);
      const auto down = [&](std::int64_t at) { return 3 * plane.at(near, at) + plane.at(far, at); };
      const double sum = 3 * down(column) + down(other);
      out.at(y, x) = std::floor((sum + (x % 2 == 0 ? 8 : 7)) / 16);
    }
  }
  return out;
}

}  // namespace

Pixels jpeg_loss(const Pixels& image, int quality) {
  const std::int64_t height = image.height, width = image.width, channels = image.channels;
  FloatImage luminance(height, width, 1), blue(height, width, 1), red(height, width, 1);
  for (std::int64_t i = 0; i < height * width; ++i) {
    const std::uint8_t* pixel = image.bytes.data() + i * channels;
    const auto at = static_cast<std::size_t>(i);
    if (channels != 3) {
      luminance.values[at] = pixel[0];
      continue;
    }
    const double r = pixel[0], g = pixel[1], b = pixel[2];
    luminance.values[at] = std::round(0.299 * r + 0.587 * g + 0.114 * b);
    blue.values[at] = std::round(-0.168735892 * r - 0.331264108 * g + 0.5 * b + 128);
    red.values[at] = std::round(0.5 * r - 0.418687589 * g - 0.081312411 * b + 128);
  }
  quantise(luminance, scaled(kLuminance, quality));
  Pixels out(height, width, channels);
  const auto byte = [](double value) {
    return static_cast<std::uint8_t>(std::clamp(std::round(value), 0.0, 255.0));
  };
  if (channels != 3) {
    std::transform(luminance.values.begin(), luminance.values.end(), out.bytes.begin(), byte);
    return out;
  }
  for (FloatImage* plane : {&blue, &red}) {
    FloatImage small = halved(*plane);
    quantise(small, scaled(kChrominance, quality));
    *plane = doubled(small, height, width);
  }
  for (std::int64_t i = 0; i < height * width; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double y = luminance.values[at], b = blue.values[at] - 128, r = red.values[at] - 128;
    std::uint8_t* pixel = out.bytes.data() + 3 * i;
    pixel[0] = byte(y + 1.402 * r);
    pixel[1] = byte(y - 0.344136286 * b - 0.714136286 * r);
    pixel[2] = byte(y + 1.772 * b);
  }
  return out;
}

}  // namespace attnlab
