// Images as numbers in [0, 1], and the filters that corruptions are made of. Each is defined as in
// the library that ImageNet-C's code calls for it, down to what lies beyond the edges.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab {

/// [height, width, channels], 0 to 1 where it is a picture.
struct FloatImage {
  std::int64_t height = 0, width = 0, channels = 1;
  std::vector<double> values;

  FloatImage() = default;
  FloatImage(std::int64_t h, std::int64_t w, std::int64_t c)
      : height(h), width(w), channels(c), values(static_cast<std::size_t>(h * w * c), 0.0) {}

  double& at(std::int64_t y, std::int64_t x, std::int64_t c = 0) {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
  double at(std::int64_t y, std::int64_t x, std::int64_t c = 0) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

/// byte / 255.
FloatImage numbers_of(const Pixels& image);
/// 255 x, cut to 0..255, the fraction dropped as NumPy's uint8 does.
Pixels bytes_of(const FloatImage& image);

/// What lies beyond an edge of a b c d:  clamp a a|a b c d|d d,  mirror c b|a b c d|c b (the edge
/// is not repeated),  half_mirror b a|a b c d|d c.
enum class BorderRule { clamp, mirror, half_mirror };

/// Where index i beyond the edges of `count` pixels is read. @param count  at least 1
std::int64_t inside(std::int64_t i, std::int64_t count, BorderRule beyond);

/// Gaussian blur of each channel, taps up to round(truncate * sigma); sigma 0 changes nothing.
/// scipy.ndimage.gaussian_filter, which skimage.filters.gaussian calls with clamp and truncate 4.
FloatImage gaussian(const FloatImage& image, double sigma, BorderRule beyond = BorderRule::clamp,
                    double truncate = 4);

/// sum_{i,j} kernel[i][j] in[y + i - r, x + j - r], mirrored at the edges (cv2.filter2D).
/// @param kernel  one channel, of odd size
FloatImage correlated(const FloatImage& image, const FloatImage& kernel);

/// out[y, x] = sum_i w_i in[y + dy_i, x + dx_i] with i from 0 to 2 radius, w_i ~ exp(-i^2 / 2
/// sigma^2), (dy_i, dx_i) = i (sin, cos)(angle) rounded: what ImageMagick's MotionBlur does. The
/// result is rounded to bytes.
/// @param angle  in degrees
FloatImage motion_blurred(const FloatImage& image, double radius, double sigma, double angle);

/// The value at a place between pixels, of the four around it.
double sampled(const FloatImage& image, double y, double x, std::int64_t channel,
               BorderRule beyond);

/// The middle of an image enlarged `factor` times, in the image's own size: scipy.ndimage.zoom of
/// order 1 on the middle ceil(size / factor) pixels, cut to size.
/// @param factor  at least 1
FloatImage zoomed(const FloatImage& image, double factor);

}  // namespace attnlab
