#include "framework/data/image/pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "framework/base/vector_clones.h"

namespace attnlab {
namespace {

/// One row of `width` pixels that begins `right` pixels into the source row.
void write_row(const std::uint8_t* row, std::int64_t width, std::int64_t right, float scale,
               float shift, float* out) {
  const std::int64_t first = std::clamp<std::int64_t>(-right, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(width - right, first, width);
  std::fill(out, out + first, shift);
  for (std::int64_t x = first; x < last; ++x) {
    out[x] = static_cast<float>(row[x + right]) * scale + shift;
  }
  std::fill(out + last, out + width, shift);
}

/// One row of three channels beside each other to a row of each.
ATTNLAB_VECTOR_CLONES
void write_colours(const std::uint8_t* row, std::int64_t width, const PixelMap& map,
                   float* __restrict__ red, float* __restrict__ green, float* __restrict__ blue) {
  const float scale[3] = {map.scale[0], map.scale[1], map.scale[2]};
  const float shift[3] = {map.shift[0], map.shift[1], map.shift[2]};
  for (std::int64_t x = 0; x < width; ++x) {
    red[x] = static_cast<float>(row[3 * x]) * scale[0] + shift[0];
    green[x] = static_cast<float>(row[3 * x + 1]) * scale[1] + shift[1];
    blue[x] = static_cast<float>(row[3 * x + 2]) * scale[2] + shift[2];
  }
}

}  // namespace

PixelMap::PixelMap(const std::vector<double>& mean, const std::vector<double>& deviation) {
  for (std::size_t c = 0; c < mean.size(); ++c) {
    scale.push_back(static_cast<float>(1.0 / (255.0 * deviation[c])));
    shift.push_back(static_cast<float>(-mean[c] / deviation[c]));
  }
}

PixelMap PixelMap::of_options(const std::vector<double>& mean,
                              const std::vector<double>& deviation) {
  if (mean.size() != 3) throw OptionError("mean", "needs three numbers");
  if (deviation.size() != 3) throw OptionError("std", "needs three numbers");
  return {mean, deviation};
}

std::vector<std::uint8_t> PixelMap::mean_bytes() const {
  std::vector<std::uint8_t> bytes;
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const float level = std::round(-shift[c] / scale[c]);
    bytes.push_back(static_cast<std::uint8_t>(std::min(std::max(0.0f, level), 255.0f)));
  }
  return bytes;
}

void write_image(const std::uint8_t* pixels, const ImageShape& shape, const PixelMap& map,
                 const ImageMove& move, float* out) {
  const std::int64_t height = shape.height, width = shape.width;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const float scale = map.scale[static_cast<std::size_t>(c)];
    const float shift = map.shift[static_cast<std::size_t>(c)];
    if (!move.moves()) {  // the plane as one long row
      write_row(pixels + c * height * width, height * width, 0, scale, shift,
                out + c * height * width);
      continue;
    }
    for (std::int64_t y = 0; y < height; ++y) {
      float* row = out + (c * height + y) * width;
      const std::int64_t source = y + move.down;
      if (source < 0 || source >= height) {
        std::fill(row, row + width, shift);
        continue;
      }
      write_row(pixels + (c * height + source) * width, width, move.right, scale, shift, row);
      if (move.flip) std::reverse(row, row + width);
    }
  }
}

void write_image(const Pixels& pixels, const PixelMap& map, bool flip, float* out) {
  const std::int64_t width = pixels.width, plane = pixels.height * width;
  for (std::int64_t y = 0; y < pixels.height; ++y) {
    float* row = out + y * width;
    if (pixels.channels == 3) {
      write_colours(pixels.row(y), width, map, row, row + plane, row + 2 * plane);
    } else {
      for (std::int64_t c = 0; c < pixels.channels; ++c) {
        for (std::int64_t x = 0; x < width; ++x) {
          row[c * plane + x] = static_cast<float>(pixels.row(y)[x * pixels.channels + c]) *
                                   map.scale[static_cast<std::size_t>(c)] +
                               map.shift[static_cast<std::size_t>(c)];
        }
      }
    }
    if (!flip) continue;
    for (std::int64_t c = 0; c < pixels.channels; ++c) {
      std::reverse(row + c * plane, row + c * plane + width);
    }
  }
}

Pixels interleaved(const std::uint8_t* planes, const ImageShape& shape) {
  Pixels image(shape.height, shape.width, shape.channels);
  const std::int64_t plane = shape.height * shape.width;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    for (std::int64_t i = 0; i < plane; ++i) {
      image.bytes[static_cast<std::size_t>(i * shape.channels + c)] = planes[c * plane + i];
    }
  }
  return image;
}

Pixels moved(const Pixels& image, const ImageMove& move) {
  if (!move.moves()) return image;
  const std::int64_t width = image.width, channels = image.channels;
  Pixels out(image.height, width, channels);
  const std::int64_t first = std::clamp<std::int64_t>(-move.right, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(width - move.right, first, width);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::int64_t source = y + move.down;
    if (source < 0 || source >= image.height) continue;
    std::uint8_t* row = out.row(y);
    std::memcpy(row + first * channels, image.row(source) + (first + move.right) * channels,
                static_cast<std::size_t>((last - first) * channels));
    if (!move.flip) continue;
    for (std::int64_t a = 0, b = width - 1; a < b; ++a, --b) {
      std::swap_ranges(row + a * channels, row + (a + 1) * channels, row + b * channels);
    }
  }
  return out;
}

}  // namespace attnlab
