#include "plugins/tasks/dense/video_segmentation/region_boundary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// A mask, one byte a pixel.
struct Mask {
  explicit Mask(const Tensor& mask)
      : tensor(mask.contiguous()),
        height(mask.size(0)),
        width(mask.size(1)),
        pixels(tensor.data_ptr<bool>()) {}

  bool at(std::int64_t y, std::int64_t x) const { return pixels[y * width + x]; }

  Tensor tensor;
  std::int64_t height, width;
  const bool* pixels;
};

void check(const Tensor& truth, const Tensor& answer) {
  const bool masks = truth.dim() == 2 && truth.numel() > 0 && truth.scalar_type() == at::kBool &&
                     answer.scalar_type() == at::kBool;
  if (masks && truth.sizes() == answer.sizes()) return;
  throw ShapeError(fmt::format("expected two masks [H, W] bool of one size, found {} and {}",
                               describe(truth), describe(answer)));
}

/// Places of the pixels of a mask's boundary, row by row.
std::vector<std::int64_t> boundary_of(const Mask& mask) {
  std::vector<std::int64_t> places;
  const std::int64_t last_row = mask.height - 1, last_column = mask.width - 1;
  for (std::int64_t y = 0; y <= last_row; ++y) {
    for (std::int64_t x = 0; x <= last_column; ++x) {
      const bool own = mask.at(y, x);
      const bool right = x < last_column && own != mask.at(y, x + 1);
      const bool below = y < last_row && own != mask.at(y + 1, x);
      const bool corner = x < last_column && y < last_row && own != mask.at(y + 1, x + 1);
      if (right || below || corner) places.push_back(y * mask.width + x);
    }
  }
  return places;
}

/// What lies within `radius` pixels of some places, one byte a pixel.
std::vector<char> widened(const std::vector<std::int64_t>& places, const Mask& mask,
                          std::int64_t radius) {
  std::vector<std::int64_t> reach;  // of the disk, by rows from its middle on
  for (std::int64_t dy = 0; dy <= radius; ++dy) {
    reach.push_back(
        static_cast<std::int64_t>(std::sqrt(static_cast<double>(radius * radius - dy * dy))));
  }
  std::vector<char> wide(static_cast<std::size_t>(mask.height * mask.width), 0);
  for (const std::int64_t place : places) {
    const std::int64_t y = place / mask.width, x = place % mask.width;
    const std::int64_t top = std::max<std::int64_t>(0, y - radius);
    const std::int64_t bottom = std::min(mask.height - 1, y + radius);
    for (std::int64_t row = top; row <= bottom; ++row) {
      const std::int64_t far = reach[static_cast<std::size_t>(std::abs(row - y))];
      const std::int64_t from = std::max<std::int64_t>(0, x - far);
      const std::int64_t to = std::min(mask.width - 1, x + far);
      std::fill_n(wide.begin() + row * mask.width + from, to - from + 1, 1);
    }
  }
  return wide;
}

/// The share of some places that lie in what is wide.
double share_within(const std::vector<std::int64_t>& places, const std::vector<char>& wide) {
  const auto within = std::count_if(places.begin(), places.end(), [&](std::int64_t place) {
    return wide[static_cast<std::size_t>(place)] != 0;
  });
  return static_cast<double>(within) / static_cast<double>(places.size());
}

}  // namespace

double region_similarity(const Tensor& truth, const Tensor& answer) {
  check(truth, answer);
  const auto either = truth.logical_or(answer).sum().item<double>();
  return either == 0 ? 1 : truth.logical_and(answer).sum().item<double>() / either;
}

double boundary_accuracy(const Tensor& truth, const Tensor& answer) {
  check(truth, answer);
  const Mask of_truth(truth), of_answer(answer);
  const std::vector<std::int64_t> real = boundary_of(of_truth), found = boundary_of(of_answer);
  if (real.empty() || found.empty()) return real.empty() && found.empty() ? 1 : 0;
  constexpr double kTolerance = 0.008;  // of the diagonal
  const auto height = static_cast<double>(of_truth.height);
  const auto width = static_cast<double>(of_truth.width);
  const auto radius =
      static_cast<std::int64_t>(std::ceil(kTolerance * std::sqrt(height * height + width * width)));
  const double precision = share_within(found, widened(real, of_truth, radius));
  const double recall = share_within(real, widened(found, of_answer, radius));
  return precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall);
}

FrameScores over_frames(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  FrameScores scores;
  for (const double value : values) {
    scores.mean += value / count;
    scores.recall += (value > 0.5 ? 1 : 0) / count;
  }
  /// Mean of a quarter, of which both borders are part.
  const auto quarter = [&](int number) {
    const auto border = [&](int k) {
      return static_cast<std::size_t>(std::nearbyint(1 + k * (count - 1) / 4 + 1e-10)) - 1;
    };
    double sum = 0;
    for (std::size_t i = border(number); i <= border(number + 1); ++i) sum += values[i];
    return sum / static_cast<double>(border(number + 1) - border(number) + 1);
  };
  scores.decay = quarter(0) - quarter(3);
  return scores;
}

}  // namespace attnlab
