// What the numbers, or the colours, of a dataset's label maps mean.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "framework/data/segmentation/label_png.h"

namespace attnlab {

struct LabelRule {
  /// What a number has that no label map may hold.
  static constexpr std::int16_t kRefused = -2;

  std::vector<std::string> class_names;
  /// By number: a class, `kUnlabelled` or `kRefused`.
  std::array<std::int16_t, 256> classes{};
  std::string numbers;  ///< the numbers that are known, for people: "0 to 10, 11 unlabelled"
  /// The dataset's own colours, red << 16 | green << 8 | blue, for label maps that were saved as
  /// colours; empty: such are refused.
  std::map<std::uint32_t, std::int16_t> colours;

  /// A rule without names and colours that refuses every number.
  static LabelRule refusing() {
    LabelRule rule;
    rule.classes.fill(kRefused);
    return rule;
  }
};

/// The classes of a label map. Of an indexed file the numbers count; where its palette gives a
/// number the colour of another class, a program has numbered its colours anew, and it is refused.
/// @param path  for messages
/// @throws DataError naming the file, the pixel and what it holds.
LabelMap labels_of(const LabelPixels& pixels, const LabelRule& rule, const std::string& path);

}  // namespace attnlab
