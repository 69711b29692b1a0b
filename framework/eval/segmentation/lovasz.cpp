#include "framework/eval/segmentation/lovasz.h"

#include <vector>

namespace attnlab {
namespace {

/// J_i - J_{i-1}. @param there  [N]: 1 where the label is the class, in order of the errors
Tensor jaccard_steps(const Tensor& there) {
  const Tensor seen = there.cumsum(0), total = there.sum();
  const Tensor jaccard = 1 - (total - seen) / (total + (1 - there).cumsum(0));
  return at::cat({jaccard.narrow(0, 0, 1), jaccard.slice(0, 1) - jaccard.slice(0, 0, -1)});
}

}  // namespace

Tensor lovasz_softmax(const Tensor& probabilities, const Tensor& labels) {
  std::vector<Tensor> losses;
  for (std::int64_t c = 0; c < probabilities.size(1); ++c) {
    // Counts of many points: float32 holds whole numbers to 16 million.
    const Tensor there = labels.eq(c).to(probabilities.scalar_type());
    if (there.sum().item<double>() == 0) continue;
    const Tensor errors = (there - probabilities.select(1, c)).abs();
    const auto [sorted, order] = errors.sort(/*stable=*/true, 0, /*descending=*/true);
    losses.push_back(sorted.dot(jaccard_steps(there.index_select(0, order))));
  }
  return losses.empty() ? probabilities.sum() * 0 : at::stack(losses).mean();
}

}  // namespace attnlab
