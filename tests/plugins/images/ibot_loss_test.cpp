// iBOT's losses of class tokens and of hidden patches.
#include "plugins/tasks/images/ibot/loss.h"

#include <gtest/gtest.h>

#include "tests/plugins/images/ibot_loops.h"
#include "tests/support/naive_attention.h"

namespace attnlab::ibot_loss_test {
namespace {

using ibot_loops::cross_entropy;
using ibot_loops::rows_of;
using testing::largest_difference;

TEST(ClassTokenLoss, IsTheMeanOverPairsOfDifferentViews) {
  at::manual_seed(1);
  const Tensor target = at::randn({3, 2, 6}, at::kDouble).softmax(-1);
  const Tensor logits = at::randn({3, 5, 6}, at::kDouble) * 3;
  double sum = 0;
  int pairs = 0;
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t q = 0; q < 2; ++q) {
      for (std::int64_t v = 0; v < 5; ++v) {
        if (v == q) continue;
        sum += cross_entropy(rows_of(target[b][q])[0], rows_of(logits[b][v])[0]);
        ++pairs;
      }
    }
  }
  EXPECT_NEAR(class_token_loss(target, logits).item<double>(), sum / pairs, 1e-10);
}

TEST(HiddenPatches, WeighEachCropAlike) {
  const Tensor masked = at::zeros({3, 4}, at::kBool);
  masked[0][1] = true;
  masked[2][0] = masked[2][2] = masked[2][3] = true;
  const HiddenPatches hidden = hidden_patches(masked, at::kDouble);
  EXPECT_TRUE(hidden.rows.equal(at::tensor({1, 8, 10, 11}, at::kLong)));
  const Tensor expected = at::tensor({1.0 / 3, 1.0 / 9, 1.0 / 9, 1.0 / 9}, at::kDouble);
  EXPECT_LT(largest_difference(hidden.weights, expected), 1e-12);
  EXPECT_EQ(hidden_patches(at::zeros({3, 4}, at::kBool), at::kDouble).rows.size(0), 0);
}

}  // namespace
}  // namespace attnlab::ibot_loss_test
