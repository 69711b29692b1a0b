#include "framework/eval/detection/coco_precision.h"

#include <algorithm>

namespace attnlab {
namespace {

constexpr int kRecalls = 101;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

double area_of(const Corners& box) {
  return std::max(box[2] - box[0], 0.0) * std::max(box[3] - box[1], 0.0);
}

double overlap(const Corners& found, const KnownBox& known) {
  const Corners& other = known.box;
  const double common = area_of({std::max(found[0], other[0]), std::max(found[1], other[1]),
                                 std::min(found[2], other[2]), std::min(found[3], other[3])});
  const double together = known.crowd ? area_of(found) : area_of(found) + area_of(other) - common;
  return together > 0 ? common / together : 0;
}

bool outside(double area, const AreaRange& range) { return area < range.low || area > range.high; }

/// A detection, once it is judged.
struct Judged {
  double score = 0;
  bool right = false, ignored = false;
};

/// One image: its best detections from the highest score down, and its boxes, ignored ones last.
class Image {
 public:
  Image(const ClassInImage& image, const AreaRange& range, std::size_t most) : range_(range) {
    for (const FoundBox& found : image.found) found_.push_back(&found);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const FoundBox* a, const FoundBox* b) { return a->score > b->score; });
    if (found_.size() > most) found_.resize(most);
    const auto ignores = [&](const KnownBox& known) {
      return known.ignored || known.crowd || outside(known.area, range);
    };
    for (const bool ignored : {false, true}) {
      for (const KnownBox& known : image.known) {
        if (ignores(known) == ignored) known_.push_back(&known);
      }
      if (!ignored) counted_ = known_.size();
    }
    for (const FoundBox* found : found_) {
      for (const KnownBox* known : known_) overlaps_.push_back(overlap(found->box, *known));
    }
  }

  std::size_t counted() const { return counted_; }

  void judge(double threshold, std::vector<Judged>& all) const {
    std::vector<char> taken(known_.size(), 0);
    for (std::size_t d = 0; d < found_.size(); ++d) {
      const std::size_t match = match_of(d, threshold, taken);
      Judged judged{found_[d]->score};
      if (match == kNone) {
        judged.ignored = outside(area_of(found_[d]->box), range_);
      } else {
        taken[match] = 1;
        judged.ignored = match >= counted_;
        judged.right = !judged.ignored;
      }
      all.push_back(judged);
    }
  }

 private:
  /// The box that a detection overlaps most, an ignored one only where no other is met.
  std::size_t match_of(std::size_t detection, double threshold,
                       const std::vector<char>& taken) const {
    double best = std::min(threshold, 1 - 1e-10);
    std::size_t match = kNone;
    for (std::size_t g = 0; g < known_.size(); ++g) {
      if (taken[g] != 0 && !known_[g]->crowd) continue;
      if (match < counted_ && g >= counted_) break;
      const double overlap = overlaps_[detection * known_.size() + g];
      if (overlap < best) continue;
      best = overlap;
      match = g;
    }
    return match;
  }

  AreaRange range_;
  std::vector<const FoundBox*> found_;
  std::vector<const KnownBox*> known_;
  std::size_t counted_ = 0;  ///< boxes that count; those behind them are ignored
  std::vector<double> overlaps_;
};

/// @param boxes  that count, above 0
double precision_of(std::vector<Judged> all, double boxes) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Judged& a, const Judged& b) { return a.score > b.score; });
  std::vector<double> recalls, precisions;
  double right = 0, wrong = 0;
  for (const Judged& one : all) {
    if (!one.ignored) (one.right ? right : wrong) += 1;
    recalls.push_back(right / boxes);
    precisions.push_back(right / (right + wrong + std::numeric_limits<double>::epsilon()));
  }
  for (std::size_t i = precisions.size(); i-- > 1;) {
    precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  }
  double sum = 0;
  for (int step = 0; step < kRecalls; ++step) {
    const double recall = step * 0.01;  // as numpy's linspace rounds it: 0.57 is above 57 / 100
    const auto first = std::lower_bound(recalls.begin(), recalls.end(), recall);
    if (first != recalls.end()) sum += precisions[std::size_t(first - recalls.begin())];
  }
  return sum / kRecalls;
}

}  // namespace

std::vector<double> coco_thresholds() {
  std::vector<double> thresholds;
  for (int i = 0; i < 10; ++i) thresholds.push_back((50 + 5 * i) / 100.0);
  return thresholds;
}

std::vector<double> coco_precision(const std::vector<ClassInImage>& images,
                                   const std::vector<double>& thresholds, const AreaRange& range,
                                   std::size_t most) {
  std::vector<Image> sorted;
  std::size_t boxes = 0;
  for (const ClassInImage& image : images) {
    boxes += sorted.emplace_back(image, range, most).counted();
  }
  std::vector<double> precisions;
  if (boxes == 0) return precisions;
  for (const double threshold : thresholds) {
    std::vector<Judged> all;
    for (const Image& image : sorted) image.judge(threshold, all);
    precisions.push_back(precision_of(std::move(all), static_cast<double>(boxes)));
  }
  return precisions;
}

}  // namespace attnlab
