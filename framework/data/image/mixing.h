// Mixup and CutMix: a batch of images mixed with itself in reverse order, and their targets alike.
//
//   mixup:  x' = l x + (1 - l) flip(x),  y' = l y + (1 - l) flip(y),  l ~ Beta(a, a)
//   CutMix: a box of a share 1 - l of the area is taken from flip(x); l becomes the share that is
//   left y = (1 - eps) onehot + eps / K
//
// One l a batch. Sources: Zhang et al., ICLR 2018 (arXiv:1710.09412); Yun et al., ICCV 2019
// (arXiv:1905.04899); the reversed batch and the order of draws as timm's Mixup, mode "batch".
// Cost: one pass over the images.
#pragma once

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

struct MixingOptions {
  double mixup = 0;
  double cutmix = 0;
  double probability = 1;
  double switching = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("mixup", mixup, range(0, 100), "a of mixup's Beta(a, a); 0: no mixup");
    v("cutmix", cutmix, range(0, 100), "a of CutMix's Beta(a, a); 0: no CutMix");
    v("mix_probability", probability, range(0, 1), "probability that a batch is mixed");
    v("switch_probability", switching, range(0, 1),
      "probability of CutMix, if mixup and CutMix are both on");
  }

  bool mixes() const { return (mixup > 0 || cutmix > 0) && probability > 0; }
};

/// A draw of Beta(a, a), a > 0.
double draw_beta(double a, Random& random);

/// Images and the share of each class in them.
struct MixedBatch {
  Tensor images;   ///< [B, C, H, W]
  Tensor targets;  ///< [B, K] float32
};

/// [B, K] float32: what an unmixed image is trained towards.
/// @param classes  [B] int64, 0 <= class < count
/// @throws DataError for a class out of range (of classes on the CPU)
Tensor class_targets(const Tensor& classes, std::int64_t count, double label_smoothing);

/// @param images   [B, C, H, W] floating point
/// @param targets  [B, K], of `class_targets`
MixedBatch mixed(const Tensor& images, const Tensor& targets, const MixingOptions& options,
                 Random& random);

}  // namespace attnlab
