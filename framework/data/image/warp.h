// Affine maps of images: shears, shifts, rotations, as Pillow's Image.transform defines them.
//
//   out[y, x] = in at (a (x + 1/2) + b (y + 1/2) + c, d (x + 1/2) + e (y + 1/2) + f)
//
// and the fill where that lies outside the image. Bicubic is Pillow's own of geometric maps: Keys's
// cubic with a = -1 (of resizing it has -1/2); neighbours beyond the edge are the edge's pixels.
// Cost: 1, 4 or 16 reads a byte.
#pragma once

#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab {

struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

enum class Sampling { nearest, bicubic };

/// The map of a rotation about the middle. @param degrees  counter-clockwise
AffineMap rotation(double degrees, std::int64_t height, std::int64_t width);

/// @param fill  one byte for each channel
Pixels warped(const Pixels& image, const AffineMap& map, Sampling sampling,
              const std::vector<std::uint8_t>& fill);

}  // namespace attnlab
