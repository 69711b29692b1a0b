// Labels of a video's first frame, carried on to the next ones by what patches look like.
//
//   a_ij = exp(f_i . f_j / temperature),   f of length 1, i a patch of the new frame, j one of the
//          first frame and the last `frames` before the new one, at most `radius` rows and columns
//          beside i
//   s_i  = sum_j a_ij s_j / sum_j a_ij     over the `neighbours` largest a_ij (and equals of the
//                                          last of them); s of a patch: a share for each label
//
// Source: Jabri et al., NeurIPS 2020, in the form of Caron et al., DINO, ICCV 2021, and its public
// code. Cost: a frame with R x M patches of C channels takes R M (frames + 1) (2 radius + 1) M C
// products.
#pragma once

#include <deque>

#include "framework/tensor/tensor.h"

namespace attnlab {

struct PropagationRule {
  std::int64_t frames = 7, neighbours = 5;
  std::int64_t radius = 12;  ///< 0: the whole frame
  double temperature = 0.1;
};

class LabelPropagation {
 public:
  /// @param features  of the first frame's patches, [R, M, C] floating point
  /// @param shares    of its labels, [K, R, M], of the same device
  LabelPropagation(const PropagationRule& rule, const Tensor& features, const Tensor& shares);

  /// The next frame. @param features  [R, M, C]   @returns [K, R, M].
  /// @throws ShapeError for features of another shape than the first frame's.
  Tensor next(const Tensor& features);

 private:
  struct Frame {
    Tensor features;  ///< [R, M, C], of length 1
    Tensor shares;    ///< [R, M, K]
  };

  PropagationRule rule_;
  Frame first_;
  std::deque<Frame> last_;  ///< the newest at the end
  Tensor far_;              ///< [M, M] bool: columns that do not see each other; undefined: all do
};

/// Answers for a frame: shares resized to its size as shown (bilinear), each label's stretched to
/// lie between 0 and 1, the largest taken, and resized to its own size by the nearest pixel.
/// @param shares  [K, R, M]
/// @returns [height, width] int64.
Tensor answers_of_shares(const Tensor& shares, std::int64_t shown_height, std::int64_t shown_width,
                         std::int64_t height, std::int64_t width);

/// A map at another size by the nearest pixel: the one in which the middle lies, as Pillow's.
/// @param map  [H, W]
Tensor nearest_pixels(const Tensor& map, std::int64_t height, std::int64_t width);

}  // namespace attnlab
