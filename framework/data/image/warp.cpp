#include "framework/data/image/warp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace attnlab {
namespace {

/// Weights of the four neighbours of a point that lies `t` behind the second.
std::array<float, 4> cubic_weights(float t) {
  const float s = 1 - t;
  return {-t * s * s, 1 - 2 * t * t + t * t * t, 1 - 2 * s * s + s * s * s, -s * t * t};
}

/// @param x, y  a place in the image, pixel centres at halves
void sample_cubic(const Pixels& image, double x, double y, std::uint8_t* out) {
  x -= 0.5;
  y -= 0.5;
  const auto left = static_cast<std::int64_t>(std::floor(x));
  const auto top = static_cast<std::int64_t>(std::floor(y));
  const auto across = cubic_weights(static_cast<float>(x - static_cast<double>(left)));
  const auto down = cubic_weights(static_cast<float>(y - static_cast<double>(top)));
  std::array<std::int64_t, 4> columns{};
  for (std::int64_t j = 0; j < 4; ++j) {
    columns[static_cast<std::size_t>(j)] =
        std::clamp<std::int64_t>(left - 1 + j, 0, image.width - 1) * image.channels;
  }
  for (std::int64_t c = 0; c < image.channels; ++c) {
    float sum = 0;  // Pillow drops the fraction
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::uint8_t* row =
          image.row(std::clamp<std::int64_t>(top - 1 + i, 0, image.height - 1)) + c;
      float line = 0;
      for (std::size_t j = 0; j < 4; ++j) line += across[j] * row[columns[j]];
      sum += down[static_cast<std::size_t>(i)] * line;
    }
    out[c] = static_cast<std::uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }
}

}  // namespace

AffineMap rotation(double degrees, std::int64_t height, std::int64_t width) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
  return {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y};
}

Pixels warped(const Pixels& image, const AffineMap& map, Sampling sampling,
              const std::vector<std::uint8_t>& fill) {
  const std::int64_t channels = image.channels;
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  Pixels out(image.height, image.width, channels);
  for (std::int64_t row = 0; row < image.height; ++row) {
    std::uint8_t* to = out.row(row);
    const double v = static_cast<double>(row) + 0.5;
    for (std::int64_t column = 0; column < image.width; ++column, to += channels) {
      const double u = static_cast<double>(column) + 0.5;
      const double x = map.a * u + map.b * v + map.c, y = map.d * u + map.e * v + map.f;
      if (!(x >= 0 && x < width && y >= 0 && y < height)) {
        std::copy_n(fill.begin(), channels, to);
      } else if (sampling == Sampling::bicubic) {
        sample_cubic(image, x, y, to);
      } else {
        std::copy_n(
            image.row(static_cast<std::int64_t>(y)) + static_cast<std::int64_t>(x) * channels,
            channels, to);
      }
    }
  }
  return out;
}

}  // namespace attnlab
