#include "framework/data/segmentation/photometric.h"

#include <algorithm>
#include <array>

namespace attnlab {
namespace {

/// factor x + addition, cut, the fraction dropped.
void scale_bytes(Pixels& image, double factor, double addition) {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(
        std::clamp(factor * static_cast<double>(i) + addition, 0.0, 255.0));
  }
  for (std::uint8_t& byte : image.bytes) byte = table[byte];
}

std::uint8_t rounded_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

}  // namespace

void scale_saturation(Pixels& image, double factor) {
  const auto scale = static_cast<float>(factor);
  for (std::size_t i = 0; i + 2 < image.bytes.size(); i += 3) {
    std::uint8_t* pixel = image.bytes.data() + i;
    const float most = std::max({pixel[0], pixel[1], pixel[2]});
    const float least = std::min({pixel[0], pixel[1], pixel[2]});
    if (most == least) continue;  // grey
    // S = (most - least) / most; it becomes at most 1, where the least channel is 0.
    const float share = std::min(scale, most / (most - least));
    for (int c = 0; c < 3; ++c) {
      pixel[c] = rounded_byte(most - (most - static_cast<float>(pixel[c])) * share);
    }
  }
}

void distort_colours(Pixels& image, Random& random) {
  const auto maybe = [&] { return random.uniform() < 0.5; };
  const auto factor = [&] { return random.uniform(0.5, 1.5); };
  if (maybe()) scale_bytes(image, 1, random.uniform(-32, 32));
  const bool contrast_first = maybe();
  if (contrast_first && maybe()) scale_bytes(image, factor(), 0);
  if (maybe()) scale_saturation(image, factor());
  if (maybe()) turn_hue(image, 2 * static_cast<double>(random.below(36) - 18));
  if (!contrast_first && maybe()) scale_bytes(image, factor(), 0);
}

}  // namespace attnlab
