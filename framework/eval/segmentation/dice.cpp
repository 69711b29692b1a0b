#include "framework/eval/segmentation/dice.h"

namespace attnlab {

Tensor dice_loss(const Tensor& probabilities, const Tensor& labels) {
  if (labels.numel() == 0) return probabilities.sum() * 0;
  const std::int64_t classes = probabilities.size(1);
  const Tensor own = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1);
  const Tensor none = at::zeros({classes}, probabilities.options());
  const Tensor both = none.index_add(0, labels, own);  // sum_i p y
  const Tensor there = none.index_add(0, labels, at::ones_like(own.detach()));
  const Tensor absent = there.eq(0);  // of these no part counts, and none divides by 0
  const Tensor overlap = 2 * both / (probabilities.sum(0) + there + absent);
  return (1 - overlap).masked_fill(absent, 0).sum() / (classes - absent.sum());
}

}  // namespace attnlab
