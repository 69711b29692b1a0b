#include "framework/data/segmentation/label_framing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attnlab {
namespace {

constexpr int kTries = 10;

/// Whether at least two classes are there, and none has too much of what is labelled.
bool is_mixed(const LabelMap& labels, double share) {
  std::vector<std::int64_t> counts;
  for (const std::int16_t label : labels.classes) {
    if (label < 0) continue;
    const auto at = static_cast<std::size_t>(label);
    if (at >= counts.size()) counts.resize(at + 1, 0);
    ++counts[at];
  }
  const auto there =
      std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  if (there < 2) return false;
  const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  return static_cast<double>(most) < share * static_cast<double>(all);
}

}  // namespace

void check(const LabelFramingOptions& options) {
  if (options.ratio.size() != 2 || options.ratio[0] > options.ratio[1]) {
    throw OptionError("ratio", "needs two numbers, the smaller one first");
  }
  if (options.long_side > 0 && options.long_side < options.short_side) {
    throw OptionError("long_side", "is below short_side; raise it, or set it to 0: no limit");
  }
  if (options.crop == 0 && options.ratio[0] != options.ratio[1]) {
    throw OptionError("crop", "is 0, and `ratio` makes pictures of a batch differ in size; set it");
  }
}

PictureSize shown_size(const PictureSize& picture, const LabelFramingOptions& options,
                       double ratio) {
  const auto height = static_cast<double>(picture.height), width = double(picture.width);
  double factor = ratio;
  if (options.short_side > 0) {
    factor = std::floor(double(options.short_side) * ratio) / std::min(height, width);
  }
  if (options.long_side > 0) {
    factor =
        std::min(factor, std::floor(double(options.long_side) * ratio) / std::max(height, width));
  }
  const auto rounded = [factor](double side) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(side * factor + 0.5));
  };
  return {rounded(height), rounded(width)};
}

LabelFraming drawn_framing(const LabelMap& labels, const LabelFramingOptions& options,
                           Random& random) {
  const double low = options.ratio[0], high = options.ratio[1];
  LabelFraming framing;
  framing.whole = shown_size({labels.height, labels.width}, options,
                             low == high ? low : random.uniform(low, high));
  const PictureSize& whole = framing.whole;
  const std::int64_t height =
      options.crop == 0 ? whole.height : std::min(whole.height, options.crop);
  const std::int64_t width = options.crop == 0 ? whole.width : std::min(whole.width, options.crop);
  const bool has_choice = height < whole.height || width < whole.width;
  for (int attempt = 0;; ++attempt) {
    framing.part = {random.below(whole.height - height + 1), random.below(whole.width - width + 1),
                    height, width};
    framing.labels = resized_labels(labels, whole, framing.part);
    const bool any = !has_choice || options.class_share == 1 || attempt == kTries;
    if (any || is_mixed(framing.labels, options.class_share)) break;
  }
  framing.flip = options.flip && random.uniform() < 0.5;
  return framing;
}

}  // namespace attnlab
