// Pictures for tests of corruptions, and what a corruption makes of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "framework/data/image/corruption.h"

namespace attnlab::testing {

inline constexpr std::int64_t kPictureSide = 32;

/// A picture with edges, and with levels that pass from 255 to 0.
inline Pixels picture(std::int64_t size = kPictureSide) {
  Pixels image(size, size, 3);
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < size; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<std::uint8_t>(
            9 * y + 5 * x + 60 * c + x * y * (c + 1) / 3 + 40 * ((x / 4 + y / 5) % 2));
      }
    }
  }
  return image;
}

/// A picture of one level.
inline Pixels plain(std::uint8_t level, std::int64_t size = 64) {
  Pixels image(size, size, 3);
  std::fill(image.bytes.begin(), image.bytes.end(), level);
  return image;
}

/// A corruption at a severity, for `Corruption`.
inline CorruptionOptions corruption_options(const std::string& kind, std::int64_t severity,
                                            const std::string& constants) {
  CorruptionOptions options;
  options.corruption = kind;
  options.severity = severity;
  options.constants = constants;
  return options;
}

/// What it makes of an image.
inline Pixels corrupted(Pixels image, const std::string& kind, std::int64_t severity,
                        const std::string& constants = "auto") {
  Corruption(corruption_options(kind, severity, constants), image.height, image.width).apply(image);
  return image;
}

}  // namespace attnlab::testing
