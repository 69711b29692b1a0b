#include "framework/nn/boxes/best_answers.h"

#include <algorithm>

#include "framework/nn/boxes/boxes.h"

namespace attnlab {

BestAnswers best_answers(const Tensor& logits, const Tensor& boxes, std::int64_t most) {
  if (logits.dim() != 3 || boxes.dim() != 3 || boxes.size(2) != 4 ||
      logits.size(0) != boxes.size(0) || logits.size(1) != boxes.size(1)) {
    throw ShapeError("best_answers: expected logits [B, Q, K] and boxes [B, Q, 4], found " +
                     describe(logits) + " and " + describe(boxes));
  }
  const std::int64_t classes = logits.size(2);
  // A score that is not a number would stand before all others.
  const Tensor all = at::nan_to_num(logits.flatten(1).sigmoid(), kNoScore);
  const auto sorted = all.sort(/*stable=*/true, 1, /*descending=*/true);
  const std::int64_t count = std::min(most, all.size(1));
  const Tensor chosen = std::get<1>(sorted).narrow(1, 0, count);
  const Tensor queries = at::div(chosen, classes, "floor");
  return {std::get<0>(sorted).narrow(1, 0, count), chosen.remainder(classes),
          corners_of(boxes.gather(1, queries.unsqueeze(-1).expand({-1, -1, 4})))};
}

}  // namespace attnlab
