// Losses of models trained together against each one's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "framework/eval/classification.h"
#include "tests/support/data_files.h"

namespace attnlab {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kMembers = 3, kBatch = 5, kClasses = 4;

DatasetInfo data() {
  DatasetInfo info;
  info.name = "made up";
  info.classes = kClasses;
  return info;
}

TEST(ClassificationLosses, AreEachMembersMeanLoss) {
  at::manual_seed(1);
  const DatasetInfo info = data();
  for (const double smoothing : {0.0, 0.2}) {
    const ClassificationTask task({.label_smoothing = smoothing}, TaskSetup{info});
    const Tensor logits = at::randn({kMembers * kBatch, kClasses}, at::kDouble).requires_grad_();
    const Tensor classes = at::randint(kClasses, {kMembers * kBatch}, at::kLong);
    const Tensor found =
        task.losses({{"logits", logits}}, {{{"class", classes}}, kMembers * kBatch}, kMembers);
    std::vector<Tensor> alone;
    for (std::int64_t m = 0; m < kMembers; ++m) {
      alone.push_back(task.loss({{"logits", logits.narrow(0, m * kBatch, kBatch)}},
                                {{{"class", classes.narrow(0, m * kBatch, kBatch)}}, kBatch}));
    }
    const Tensor expected = at::stack(alone);
    EXPECT_TRUE(at::allclose(found, expected, 0, 1e-12));
    const auto gradient = torch::autograd::grad({found.sum()}, {logits});
    const auto wanted = torch::autograd::grad({expected.sum()}, {logits});
    EXPECT_TRUE(at::allclose(gradient[0], wanted[0], 0, 1e-12));
  }
}

TEST(ClassificationLosses, KeepNotANumberToItsMember) {
  Tensor logits = at::randn({kMembers * kBatch, kClasses});
  logits.narrow(0, kBatch, 1).fill_(NAN);
  const Tensor classes = at::zeros({kMembers * kBatch}, at::kLong);
  const Tensor losses = classification_losses(logits, classes, 0, kMembers);
  EXPECT_EQ(losses.sizes(), at::IntArrayRef({kMembers}));
  EXPECT_TRUE(losses[0].isfinite().item<bool>());
  EXPECT_FALSE(losses[1].isfinite().item<bool>());
  EXPECT_TRUE(losses[2].isfinite().item<bool>());
}

TEST(ClassificationLosses, RefuseRowsThatDoNotDivide) {
  const auto refusal = [](std::int64_t rows) {
    return message_of<ShapeError>([&] {
      classification_losses(at::zeros({rows, kClasses}), at::zeros({rows}, at::kLong), 0, kMembers);
    });
  };
  EXPECT_THAT(refusal(7), HasSubstr("logits: 3 members must have as many rows each"));
  const DatasetInfo info = data();
  const ClassificationTask task({}, TaskSetup{info});
  EXPECT_THAT(message_of<ShapeError>([&] {
                task.losses({{"logits", at::zeros({6, 9})}},
                            {{{"class", at::zeros({6}, at::kLong)}}, 6}, kMembers);
              }),
              HasSubstr("the dataset has 4 classes"));
}

}  // namespace
}  // namespace attnlab
