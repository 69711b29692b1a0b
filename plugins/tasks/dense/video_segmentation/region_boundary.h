// How well a mask is answered: its region J and its boundary F, as DAVIS measures them.
//
//   J        intersection over union of the two masks, 1 where both are empty
//   boundary pixels of a mask that differ from their right, lower or lower right neighbour; in the
//            last row the right one counts alone, in the last column the lower one, and the corner
//            is none
//   F        2 P R / (P + R), P the share of the answer's boundary that lies within r pixels of the
//            true one, R the reverse; r = ceil(0.008 sqrt(H^2 + W^2)). 0 where P + R is 0 or one
//            boundary is empty, 1 where both are
//
//   over the frames of an object: the mean, the recall (share of frames above 0.5), and the decay,
//   the mean of the first quarter minus that of the last; quarters begin and end at the frames
//   round(linspace(1, n, 5)), which both quarters have
//
// Source: Perazzi et al., CVPR 2016; Pont-Tuset et al., arXiv:1704.00675; the public code
// davis2017-evaluation, which widens boundaries with a disk. Cost: a pass over the pixels, and 2 r
// rows of 2 r for each pixel of a boundary.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param truth, answer  [H, W] bool, on the CPU
/// @throws ShapeError where they are not of one size.
double region_similarity(const Tensor& truth, const Tensor& answer);
double boundary_accuracy(const Tensor& truth, const Tensor& answer);

/// Of one object in the frames of a video.
struct FrameScores {
  double mean = 0, recall = 0, decay = 0;
};

/// @param values  of each frame that counts, at least one
FrameScores over_frames(const std::vector<double>& values);

}  // namespace attnlab
