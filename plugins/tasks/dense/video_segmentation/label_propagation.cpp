#include "plugins/tasks/dense/video_segmentation/label_propagation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/windows.h"
#include "framework/nn/kernels/unit.h"

namespace attnlab {
namespace {

constexpr double kEps = 1e-12;  // of lengths

/// For each place of a new side the place of the old one in which its middle lies.
Tensor places_of(std::int64_t length, std::int64_t old, const at::Device& device) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < length; ++i) places.push_back((2 * i + 1) * old / (2 * length));
  return at::tensor(places, at::kLong).to(device);
}

}  // namespace

LabelPropagation::LabelPropagation(const PropagationRule& rule, const Tensor& features,
                                   const Tensor& shares)
    : rule_(rule),
      first_{unit(features, kEps),
             shares.permute({1, 2, 0}).to(features.scalar_type()).contiguous()} {
  const std::int64_t columns = features.size(1);
  if (rule_.radius == 0 || rule_.radius >= columns - 1) return;
  const Tensor places = at::arange(columns, features.options().dtype(at::kLong));
  far_ = (places.unsqueeze(0) - places.unsqueeze(1)).abs().gt(rule_.radius);
}

Tensor LabelPropagation::next(const Tensor& features) {
  if (features.sizes() != first_.features.sizes()) {
    throw ShapeError(
        fmt::format("the features of a frame are {}, and of its video's first frame {}",
                    describe(features), describe(first_.features)));
  }
  Frame now{unit(features, kEps), {}};
  const std::int64_t rows = features.size(0), columns = features.size(1);
  std::vector<Tensor> all_features = {first_.features}, all_shares = {first_.shares};
  for (const Frame& frame : last_) {
    all_features.push_back(frame.features);
    all_shares.push_back(frame.shares);
  }
  const Tensor seen = at::stack(all_features), shares = at::stack(all_shares);  // [T, R, M, C or K]
  std::vector<Tensor> carried;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t radius = rule_.radius == 0 ? rows : rule_.radius;
    const std::int64_t top = std::max<std::int64_t>(0, row - radius);
    const std::int64_t count = std::min(rows, row + radius + 1) - top;
    const Tensor keys = seen.narrow(1, top, count).flatten(0, 2);      // [T count M, C]
    const Tensor labels = shares.narrow(1, top, count).flatten(0, 2);  // [T count M, K]
    Tensor scores = now.features[row].matmul(keys.t()) / rule_.temperature;
    if (far_.defined()) {
      const Tensor by_column = scores.view({columns, -1, columns});
      scores = by_column.masked_fill(far_.unsqueeze(1), -INFINITY).flatten(1);
    }
    const std::int64_t kept = std::min(rule_.neighbours, scores.size(1));
    const Tensor least = std::get<0>(scores.topk(kept, 1)).narrow(1, kept - 1, 1);
    scores = scores.masked_fill(scores.lt(least), -INFINITY);
    carried.push_back(scores.softmax(1).matmul(labels));
  }
  now.shares = at::stack(carried);
  const Tensor out = now.shares.permute({2, 0, 1});
  if (rule_.frames > 0) {
    if (std::ssize(last_) == rule_.frames) last_.pop_front();
    last_.push_back(std::move(now));
  }
  return out;
}

Tensor answers_of_shares(const Tensor& shares, std::int64_t shown_height, std::int64_t shown_width,
                         std::int64_t height, std::int64_t width) {
  const Tensor large = at_size(shares.contiguous().unsqueeze(0), shown_height, shown_width)[0];
  const Tensor least = large.amin({1, 2}, /*keepdim=*/true);
  const Tensor most = large.amax({1, 2}, /*keepdim=*/true);
  const Tensor range = (most - least).masked_fill(most.eq(least), 1);
  const Tensor stretched = at::where(most.gt(0), (large - least) / range, large);
  return nearest_pixels(answers_of(stretched, 0), height, width);
}

Tensor nearest_pixels(const Tensor& map, std::int64_t height, std::int64_t width) {
  return map.index_select(0, places_of(height, map.size(0), map.device()))
      .index_select(1, places_of(width, map.size(1), map.device()));
}

}  // namespace attnlab
