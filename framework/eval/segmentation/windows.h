// Sliding windows over a picture, and what a model says of each put together again.
//
//   windows begin at 0, stride, 2 stride, ... and, last, where they end with the picture
//   score of a pixel = mean over the windows that show it
//
// Source: the inference of mmsegmentation and of Strudel et al., Segmenter, ICCV 2021.
#pragma once

#include <functional>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Where windows begin along a side of `length` pixels. @param window  at most the length
std::vector<std::int64_t> window_places(std::int64_t length, std::int64_t window,
                                        std::int64_t stride);

/// @param picture  [C, H, W], neither side shorter than the window
/// @param scores   of windows [N, C, window, window]: [N, K, window, window]; called once
/// @returns [K, H, W].
Tensor windowed_scores(const Tensor& picture, std::int64_t window, std::int64_t stride,
                       const std::function<Tensor(const Tensor& windows)>& scores);

/// Resized as PyTorch's interpolate does it: bilinear, corners not aligned, no antialias.
/// @param x  [N, K, h, w]; itself where it has the size already
Tensor at_size(const Tensor& x, std::int64_t height, std::int64_t width);

}  // namespace attnlab
