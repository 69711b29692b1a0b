// SLIC superpixels, step by step as scikit-image computes them, by which the published sets were
// made; without the stretching of an image to the whole range that version 0.19 begins with.
//
//   centres on a grid; ten times: each pixel to the nearest centre of those whose window of
//   2 grid steps each way holds it, by  |place - c|^2 / step^2 + |colour - c|^2 / compactness^2,
//   then each centre to the mean of its pixels; then connected regions of fewer than half a
//   segment's size join a neighbour, and larger ones are cut at three times that size
//
// A segment's size is pixels / segments asked for to scikit-image 0.16, pixels / centres on the
// grid from 0.17 on. A grid has one centre every few pixels each way, so many numbers asked for
// share one (256 centres for 164 to 256 segments of 32 x 32 pixels), and the two rules differ.
// Colours are CIELAB for three channels, the grey value for one.
// Source: Achanta et al. 2012 (TPAMI 34); scikit-image 0.12 to 0.19, segmentation.slic
// (segmentation/slic_superpixels.py and _slic.pyx).
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

/// By what a region is too small or too large.
enum class SegmentSize {
  of_asked,    ///< pixels / segments asked for: scikit-image to 0.16
  of_centres,  ///< pixels / centres on the grid: from 0.17 on
};

/// The segment of each pixel, [H, W]: 0, 1, ... in the order of their first pixel.
/// @param count  segments asked for; there may be more or fewer
std::vector<std::int32_t> slic(const ImageValues& image, std::int64_t count, double compactness,
                               SegmentSize size = SegmentSize::of_asked);

/// Segments of an image, at most `most`: of the largest number asked for, from `most + beyond`
/// down, that gives no more.
std::vector<std::int32_t> at_most_segments(const ImageValues& image, std::int64_t most,
                                           std::int64_t beyond, double compactness,
                                           SegmentSize size = SegmentSize::of_asked);

}  // namespace attnlab
