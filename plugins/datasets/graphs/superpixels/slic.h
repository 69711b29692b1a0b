// SLIC superpixels, step by step as scikit-image computes them, by which the published sets were
// made; without the stretching of an image to the whole range that version 0.19 begins with.
//
//   centres on a grid; ten times: each pixel to the nearest centre of those whose window of
//   2 grid steps each way holds it, by  |place - c|^2 / step^2 + |colour - c|^2 / compactness^2,
//   then each centre to the mean of its pixels; then regions that are too small join a neighbour
//
// Colours are CIELAB for three channels, the grey value for one.
// Source: Achanta et al. 2012 (TPAMI 34); scikit-image 0.15 to 0.19, segmentation.slic.
#pragma once

#include <cstdint>
#include <vector>

namespace attnlab {

/// ImageValues of one image, each channel's values one after the other, in [0, 1].
struct ImageValues {
  std::int64_t channels = 1, height = 0, width = 0;
  std::vector<double> values;  ///< [C, H, W]
};

/// Where the centres of about `count` segments lie: first, first + step, ... in both directions.
struct SlicGrid {
  std::int64_t first = 0, step = 1;
  bool operator==(const SlicGrid&) const = default;
};
SlicGrid slic_grid(std::int64_t height, std::int64_t width, std::int64_t count);

/// The segment of each pixel, [H, W]: 0, 1, ... in the order of their first pixel.
std::vector<std::int32_t> slic(const ImageValues& image, const SlicGrid& grid, double compactness);

/// Segments of an image, at most `most`: of the largest number asked for, from `most + beyond`
/// down, that gives no more.
std::vector<std::int32_t> at_most_segments(const ImageValues& image, std::int64_t most,
                                           std::int64_t beyond, double compactness);

}  // namespace attnlab
