#include "framework/data/image/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace attnlab {
namespace {

using Table = std::array<std::uint8_t, 256>;

std::uint8_t cut(double value) {  // Pillow drops the fraction
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

/// The byte at `factor` of the way from one to the other; beyond 1 it goes on, in single precision
/// as Pillow does.
std::uint8_t blended(int from, int to, float factor) {
  return cut(static_cast<float>(from) + factor * static_cast<float>(to - from));
}

template <class Function>
Table table_of(const Function& function) {
  Table table{};
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = static_cast<std::uint8_t>(function(value));
  }
  return table;
}

template <class Function>
void map_all(Pixels& image, const Function& function) {
  const Table table = table_of(function);
  for (std::uint8_t& byte : image.bytes) byte = table[byte];
}

/// Maps each channel by a table made of its histogram.
template <class Function>
void map_channels(Pixels& image, const Function& table_for) {
  const auto step = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < step; ++c) {
    std::array<std::int64_t, 256> histogram{};
    for (std::size_t i = c; i < image.bytes.size(); i += step) ++histogram[image.bytes[i]];
    const Table table = table_for(histogram);
    for (std::size_t i = c; i < image.bytes.size(); i += step) {
      image.bytes[i] = table[image.bytes[i]];
    }
  }
}

std::uint8_t grey_of(const std::uint8_t* pixel, std::int64_t channels) {
  if (channels < 3) return pixel[0];
  return static_cast<std::uint8_t>(
      (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

/// Blends every pixel with its grey.
void blend_grey(Pixels& image, float factor) {
  const std::int64_t channels = image.channels;
  for (auto* pixel = image.bytes.data(); pixel < image.bytes.data() + image.bytes.size();
       pixel += channels) {
    const int grey = grey_of(pixel, channels);
    for (std::int64_t c = 0; c < channels; ++c) pixel[c] = blended(grey, pixel[c], factor);
  }
}

/// One row or column, blurred. @param step  from one pixel to the next
void blur_line(std::uint8_t* line, std::int64_t count, std::int64_t step,
               const std::vector<float>& weights, std::vector<float>& padded) {
  const auto reach = static_cast<std::int64_t>(weights.size() / 2);
  padded.resize(static_cast<std::size_t>(count + 2 * reach));
  for (std::int64_t i = -reach; i < count + reach; ++i) {
    padded[static_cast<std::size_t>(i + reach)] =
        line[std::clamp<std::int64_t>(i, 0, count - 1) * step];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0.5f;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      sum += weights[t] * padded[static_cast<std::size_t>(i) + t];
    }
    line[i * step] = cut(sum);
  }
}

}  // namespace

void change_brightness(Pixels& image, double factor) {
  map_all(image, [&](int value) { return blended(0, value, static_cast<float>(factor)); });
}

void change_contrast(Pixels& image, double factor) {
  double sum = 0;
  for (std::size_t i = 0; i < image.bytes.size(); i += static_cast<std::size_t>(image.channels)) {
    sum += grey_of(image.bytes.data() + i, image.channels);
  }
  const int mean = static_cast<int>(sum / static_cast<double>(image.height * image.width) + 0.5);
  map_all(image, [&](int value) { return blended(mean, value, static_cast<float>(factor)); });
}

void change_saturation(Pixels& image, double factor) {
  if (image.channels == 3) blend_grey(image, static_cast<float>(factor));
}

void turn_hue(Pixels& image, double degrees) {
  if (image.channels != 3) return;
  const auto turn = static_cast<float>(degrees / 60);
  for (std::size_t i = 0; i + 2 < image.bytes.size(); i += 3) {
    std::uint8_t* pixel = image.bytes.data() + i;
    const float red = pixel[0], green = pixel[1], blue = pixel[2];
    const float most = std::max({red, green, blue});
    const float chroma = most - std::min({red, green, blue});
    if (chroma == 0) continue;
    const float sixth = most == red     ? (green - blue) / chroma
                        : most == green ? (blue - red) / chroma + 2
                                        : (red - green) / chroma + 4;
    const float hue = sixth + turn;
    // Channel n of 5, 3, 1: most - chroma max(0, min(k, 4 - k, 1)), k = n + hue modulo 6.
    for (int c = 0; c < 3; ++c) {
      float k = std::fmod(static_cast<float>(5 - 2 * c) + hue, 6.0f);
      if (k < 0) k += 6;
      const float away = std::max(0.0f, std::min({k, 4 - k, 1.0f}));
      pixel[c] = cut(most - chroma * away + 0.5f);
    }
  }
}

void change_sharpness(Pixels& image, double factor) {
  const Pixels original = image;
  const std::int64_t channels = image.channels, step = image.width * channels;
  for (std::int64_t y = 1; y + 1 < image.height; ++y) {
    const std::uint8_t* above = original.row(y - 1);
    std::uint8_t* out = image.row(y);
    for (std::int64_t i = channels; i + channels < step; ++i) {
      int sum = 4 * above[i + step];
      for (int row = 0; row < 3; ++row) {
        const std::uint8_t* at = above + row * step + i;
        sum += at[-channels] + at[0] + at[channels];
      }
      const int smooth = static_cast<int>(static_cast<float>(sum) / 13.0f + 0.5f);
      out[i] = blended(smooth, above[i + step], static_cast<float>(factor));
    }
  }
}

void invert(Pixels& image) {
  map_all(image, [](int value) { return 255 - value; });
}

void posterise(Pixels& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  map_all(image, [&](int value) { return value & mask; });
}

void solarise(Pixels& image, int threshold) {
  map_all(image, [&](int value) { return value < threshold ? value : 255 - value; });
}

void solarise_add(Pixels& image, int addition) {
  map_all(image, [&](int value) { return value < 128 ? std::min(255, value + addition) : value; });
}

void equalise(Pixels& image) {
  map_channels(image, [](const std::array<std::int64_t, 256>& histogram) {
    std::int64_t last = 0, sum = 0;
    for (const std::int64_t count : histogram) {
      sum += count;
      if (count > 0) last = count;
    }
    const std::int64_t step = (sum - last) / 255;
    std::int64_t below = step / 2;
    return table_of([&](int value) {
      if (step == 0) return std::int64_t{value};
      const std::int64_t level = std::min<std::int64_t>(below / step, 255);
      below += histogram[static_cast<std::size_t>(value)];
      return level;
    });
  });
}

void autocontrast(Pixels& image) {
  map_channels(image, [](const std::array<std::int64_t, 256>& histogram) {
    int low = 0, high = 255;
    while (low < 255 && histogram[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && histogram[static_cast<std::size_t>(high)] == 0) --high;
    const double scale = 255.0 / (high - low);
    return table_of(
        [&](int value) { return high <= low ? value : int{cut(value * scale - low * scale)}; });
  });
}

void make_grey(Pixels& image) { change_saturation(image, 0); }

void blur(Pixels& image, double radius) {
  const auto reach = static_cast<std::int64_t>(std::ceil(3 * radius));
  std::vector<float> weights, padded;
  double sum = 0;
  for (std::int64_t t = -reach; t <= reach; ++t) {
    const double z = static_cast<double>(t) / radius;
    weights.push_back(static_cast<float>(std::exp(-z * z / 2)));
    sum += weights.back();
  }
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
  const std::int64_t channels = image.channels;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t c = 0; c < channels; ++c) {
      blur_line(image.row(y) + c, image.width, channels, weights, padded);
    }
  }
  for (std::int64_t i = 0; i < image.width * channels; ++i) {
    blur_line(image.bytes.data() + i, image.height, image.width * channels, weights, padded);
  }
}

}  // namespace attnlab
