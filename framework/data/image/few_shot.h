// Few training images per class: so many of each, or a share of each, drawn by a seed of their own.
//
// Images of a class are put into a random order that depends on seed and class alone, and the first
// are taken: the one image of `per_class: 1` is among the two of `per_class: 2`. Published
// protocols: 1, 2 and 5 images per class, and 1 % of ImageNet (Assran et al., Masked Siamese
// networks, ECCV 2022; Chen et al., SimCLR, ICML 2020, whose lists of files these draws are not).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/config/options.h"
#include "framework/contracts/dataset.h"

namespace attnlab {

struct FewShotOptions {
  std::int64_t per_class = 0;
  double share = 0;
  std::int64_t seed = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("per_class", per_class, at_least(0), "training images of each class; 0: all");
    v("share", share, range(0, 1),
      "share of each class's training images, rounded, at least one; 0: all");
    v("seed", seed, range(0, 9e15), "seed of the choice, the same for all runs");
  }
  bool any() const { return per_class > 0 || share > 0; }
};

/// The indices that are trained on, in their order; all of them where nothing is asked for.
/// @param indices  of training images, validation's left out
/// @param labels   of the images that these count, each 0 <= label < info.classes
/// @throws OptionError (of few_shot) where both are asked for, a class has no image, or fewer than
///         `per_class`.
std::vector<std::int64_t> few_of_each_class(const std::vector<std::int64_t>& indices,
                                            const std::vector<std::int64_t>& labels,
                                            const DatasetInfo& info, const FewShotOptions& options);

}  // namespace attnlab
