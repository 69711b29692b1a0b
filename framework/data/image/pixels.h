// One image as bytes, and how it becomes the numbers that a model reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

struct ImageShape {
  std::int64_t channels = 1, height = 0, width = 0;

  std::int64_t pixels() const { return channels * height * width; }
};

/// An image [height, width, channels] of bytes: 3 channels are red, green, blue, 1 is grey.
struct Pixels {
  std::int64_t height = 0, width = 0, channels = 3;
  std::vector<std::uint8_t> bytes;

  Pixels() = default;
  Pixels(std::int64_t h, std::int64_t w, std::int64_t c)
      : height(h), width(w), channels(c), bytes(static_cast<std::size_t>(h * w * c)) {}

  std::uint8_t* row(std::int64_t y) { return bytes.data() + y * width * channels; }
  const std::uint8_t* row(std::int64_t y) const { return bytes.data() + y * width * channels; }
};

/// A part of an image, in whole pixels.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Box&) const = default;
};

/// Where a crop of an image's own size begins relative to it, and whether it is mirrored
/// afterwards.
struct ImageMove {
  std::int64_t down = 0, right = 0;
  bool flip = false;

  bool moves() const { return down != 0 || right != 0 || flip; }
};

/// byte -> byte * scale + shift, for each channel.
struct PixelMap {
  std::vector<float> scale, shift;

  /// The map that normalises by mean and standard deviation of pixels in [0, 1].
  PixelMap(const std::vector<double>& mean, const std::vector<double>& deviation);
  /// The same by options `mean` and `std`, of red, green and blue.
  /// @throws OptionError where one has not three numbers.
  static PixelMap of_options(const std::vector<double>& mean, const std::vector<double>& deviation);

  /// The bytes that come out nearest to 0: the mean's, what empty pixels are filled with.
  std::vector<std::uint8_t> mean_bytes() const;
};

/// out[c, y, x] = map_c(pixels[c, y + down, x' + right]), where x' is x, or its mirror image when
/// flipped, and pixels outside the image are 0.
/// @param pixels  [C, H, W] bytes   @param out  [C, H, W] floats
void write_image(const std::uint8_t* pixels, const ImageShape& shape, const PixelMap& map,
                 const ImageMove& move, float* out);
/// The same for [H, W, C] bytes, mirrored or not.
void write_image(const Pixels& pixels, const PixelMap& map, bool flip, float* out);

/// [C, H, W] bytes as an image.
Pixels interleaved(const std::uint8_t* planes, const ImageShape& shape);

/// The image moved and mirrored; pixels from outside are 0 (black).
Pixels moved(const Pixels& image, const ImageMove& move);

}  // namespace attnlab
