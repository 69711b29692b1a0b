// Resizing images with a filter that grows with the reduction, as Pillow and torchvision do it
// (what they call "antialias"); OpenCV's bicubic does not, and gives other pictures.
//
//   out[y, x] = sum_i sum_j w_y[i] w_x[j] in[i, j]
//   w_y[i] ~ f((i + 1/2 - (y + 1/2) s) / max(s, 1)),   s = rows in / rows out, sum_i w_y[i] = 1
//   bilinear: f(t) = 1 - |t| for |t| < 1
//   bicubic:  Keys's cubic with a = -1/2, of support 2
//   box:      f(t) = 1 for -1/2 < t <= 1/2
//
// Source: Keys, Cubic convolution interpolation, 1981; Pillow's Resample.c. Pillow rounds to bytes
// between the two directions, this does not: results differ from Pillow's by 1 at most. Cost: some
// 6 (bicubic) times max(s, 1) products a byte and direction.
#pragma once

#include <string>

#include "framework/data/image/pixels.h"

namespace attnlab {

enum class Filter { box, bilinear, bicubic };

/// @throws OptionError (of `interpolation`) for another name than "bilinear" and "bicubic".
Filter filter_named(const std::string& name);

/// A part of an image resized to height x width; pixels outside the part do not count.
/// @param box     inside the image, at least 1 x 1
/// @param window  the part of the result that is wanted; empty (0 x 0): all of it
/// @returns [window.height, window.width, channels].
Pixels resized(const Pixels& image, const Box& box, std::int64_t height, std::int64_t width,
               Filter filter, const Box& window = {});

}  // namespace attnlab
