#include "framework/eval/segmentation/windows.h"

namespace attnlab {

std::vector<std::int64_t> window_places(std::int64_t length, std::int64_t window,
                                        std::int64_t stride) {
  std::vector<std::int64_t> places;
  for (std::int64_t at = 0; at < length - window; at += stride) places.push_back(at);
  places.push_back(length - window);
  return places;
}

Tensor windowed_scores(const Tensor& picture, std::int64_t window, std::int64_t stride,
                       const std::function<Tensor(const Tensor& windows)>& scores) {
  const std::int64_t height = picture.size(1), width = picture.size(2);
  const std::vector<std::int64_t> rows = window_places(height, window, stride);
  const std::vector<std::int64_t> columns = window_places(width, window, stride);
  std::vector<Tensor> windows;
  for (const std::int64_t top : rows) {
    for (const std::int64_t left : columns) {
      windows.push_back(picture.narrow(1, top, window).narrow(2, left, window));
    }
  }
  const Tensor said = scores(at::stack(windows));
  if (windows.size() == 1) return said[0];
  Tensor sum = at::zeros({said.size(1), height, width}, said.options());
  Tensor shown = at::zeros({height, width}, said.options());
  std::int64_t number = 0;
  for (const std::int64_t top : rows) {
    for (const std::int64_t left : columns) {
      sum.narrow(1, top, window).narrow(2, left, window).add_(said[number++]);
      shown.narrow(0, top, window).narrow(1, left, window).add_(1);
    }
  }
  return sum.div_(shown);
}

Tensor at_size(const Tensor& x, std::int64_t height, std::int64_t width) {
  if (x.size(2) == height && x.size(3) == width) return x;
  return at::upsample_bilinear2d(x, {height, width}, /*align_corners=*/false);
}

}  // namespace attnlab
