// Label maps as pictures.
#pragma once

#include <string>
#include <vector>

#include "framework/data/segmentation/label_map.h"
#include "framework/data/segmentation/palette.h"

namespace attnlab {

/// A class that a label map shows.
struct ShownClass {
  std::int64_t label = 0;
  double share = 0;  ///< of all pixels
};
/// The most frequent first; of equally frequent ones the first. Without what has no label.
std::vector<ShownClass> classes_in(const LabelMap& labels, std::int64_t classes);

/// Each pixel in its class's colour; white where there is none.
Pixels painted_labels(const LabelMap& labels, const std::vector<ClassColour>& colours);

/// The picture with half of each pixel's class's colour.
/// @param labels  of the picture's size
Pixels painted_over(const Pixels& picture, const LabelMap& labels,
                    const std::vector<ClassColour>& colours);

/// One word of a legend.
struct LegendEntry {
  ClassColour colour{};
  std::string text;
};
/// The picture with squares of colours and their words below it, letters as capitals. The result is
/// as wide as the longest entry at least.
Pixels with_legend(const Pixels& picture, const std::vector<LegendEntry>& entries);

/// The picture, no side longer than `most`; smaller ones as they are.
Pixels at_most(const Pixels& picture, std::int64_t most);

}  // namespace attnlab
