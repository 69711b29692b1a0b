// Average precision of detections by COCO's rules.
//
//   AP(t) = mean over r = 0, 0.01, ..., 1 of max over recalls >= r of precision,  at IoU >= t
//
// Detections of a class are taken from the highest score down. Each matches the known box of its
// image that it overlaps most, among those that no better one took; a match makes it right, none
// makes it wrong. What matches an ignored box counts as neither: crowds, boxes that are marked
// difficult, and boxes whose area is outside the range that is asked for (then detections outside
// it that match nothing are ignored, too). A crowd may be matched any number of times, and overlap
// with it is the share of the detection that lies in it.
// Source: Lin et al., Microsoft COCO, ECCV 2014; the rules as pycocotools computes them.
// Cost: O(n log n) for n detections, and boxes x detections of each image.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace attnlab {

/// x0, y0, x1, y1 in pixels.
using Corners = std::array<double, 4>;

struct FoundBox {
  double score = 0;
  Corners box{};
};

struct KnownBox {
  Corners box{};
  double area = 0;  ///< in pixels, what ranges of area ask for; COCO's own is that of the mask
  bool ignored = false;
  bool crowd = false;  ///< ignored, too
};

/// What an image has of one class.
struct ClassInImage {
  std::vector<FoundBox> found;
  std::vector<KnownBox> known;
};

struct AreaRange {
  double low = 0, high = std::numeric_limits<double>::infinity();  ///< both included
};
inline constexpr AreaRange kSmallArea{0, 32.0 * 32}, kMediumArea{32.0 * 32, 96.0 * 96},
    kLargeArea{96.0 * 96};

/// 0.5, 0.55, ..., 0.95.
std::vector<double> coco_thresholds();

/// @param images  of one class; those without either kind of box change nothing
/// @param most    detections of an image that count, the best
/// @returns AP at each threshold; empty where no known box counts.
std::vector<double> coco_precision(const std::vector<ClassInImage>& images,
                                   const std::vector<double>& thresholds,
                                   const AreaRange& range = {}, std::size_t most = 100);

}  // namespace attnlab
