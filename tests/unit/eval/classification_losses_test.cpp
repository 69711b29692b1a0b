// Losses of models trained together against each one's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "framework/eval/classification.h"
#include "tests/support/data_files.h"

namespace attnlab::classification_losses_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kMembers = 3, kBatch = 5, kClasses = 4;

DatasetInfo data() {
  DatasetInfo info;
  info.name = "made up";
  info.classes = kClasses;
  return info;
}

/// The losses, their gradient and the gradient of that.
std::vector<Tensor> derivatives(const Tensor& losses, const Tensor& logits) {
  const Tensor weights = at::arange(1, kMembers + 1, losses.options());
  const Tensor first = torch::autograd::grad({(losses * weights).sum()}, {logits}, {}, true,
                                             /*create_graph=*/true)[0];
  const Tensor probe = at::arange(first.numel(), first.options()).view(first.sizes());
  return {losses, first, torch::autograd::grad({(first * probe).sum()}, {logits}, {}, true)[0],
          torch::autograd::grad({(losses * weights).sum()}, {logits})[0]};
}

TEST(ClassificationLosses, AreEachMembersMeanLoss) {
  at::manual_seed(1);
  const DatasetInfo info = data();
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kDouble, 1e-12), std::pair(at::kFloat, 1e-5)}) {
    for (const double smoothing : {0.0, 0.2}) {
      const ClassificationTask task({.label_smoothing = smoothing}, TaskSetup{info});
      const Tensor logits = (at::randn({kMembers * kBatch, kClasses}, dtype) * 10).requires_grad_();
      const Tensor classes = at::randint(kClasses, {kMembers * kBatch}, at::kLong);
      const auto found = derivatives(
          task.losses({{"logits", logits}}, {{{"class", classes}}, kMembers * kBatch}, kMembers),
          logits);
      std::vector<Tensor> alone;
      const Tensor wide = logits.detach().to(at::kDouble).requires_grad_();
      for (std::int64_t m = 0; m < kMembers; ++m) {
        alone.push_back(task.loss({{"logits", wide.narrow(0, m * kBatch, kBatch)}},
                                  {{{"class", classes.narrow(0, m * kBatch, kBatch)}}, kBatch}));
      }
      const auto expected = derivatives(at::stack(alone), wide);
      EXPECT_EQ(found[0].scalar_type(), dtype);
      for (std::size_t n = 0; n < found.size(); ++n) {
        const double size = std::max(1.0, expected[n].abs().max().item<double>());
        EXPECT_TRUE(at::allclose(found[n].to(at::kDouble), expected[n], 0, tolerance * size)) << n;
      }
    }
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

// oneDNN's log-softmax answers more than 0 where all probability lies on one class.
TEST(ClassificationLosses, AreNeverBelowZero) {
  for (const std::int64_t classes : {1, 2, 16, 17, 100}) {
    for (const float ahead : {15.F, 16.6F, 30.F, 100.F}) {
      const Tensor logits = at::zeros({2, classes}), own = at::zeros({2}, at::kLong);
      logits.select(1, 0).fill_(ahead);
      ClassificationMeter meter;
      meter.add({{"logits", logits}}, {{{"class", own}}, 2});
      for (const double loss : {classification_loss(logits, own, 0).item<double>(),
                                classification_losses(logits, own, 0, 2).min().item<double>(),
                                meter.result().at("nll")}) {
        EXPECT_GE(loss, 0) << classes << " classes, " << ahead;
        EXPECT_LT(loss, 1e-4) << classes << " classes, " << ahead;
      }
    }
  }
}

TEST(ClassificationLosses, RefuseRowsThatDoNotDivide) {
  const auto refusal = [](std::int64_t rows) {
    return message_of<ShapeError>([&] {
      classification_losses(at::zeros({rows, kClasses}), at::zeros({rows}, at::kLong), 0, kMembers);
    });
  };
  EXPECT_THAT(refusal(7), mentions("logits:", "3 members"));
  const DatasetInfo info = data();
  const ClassificationTask task({}, TaskSetup{info});
  EXPECT_THAT(message_of<ShapeError>([&] {
                task.losses({{"logits", at::zeros({6, 9})}},
                            {{{"class", at::zeros({6}, at::kLong)}}, 6}, kMembers);
              }),
              HasSubstr("the dataset has 4 classes"));
}

TEST(RightOf, FollowsTheMetersRule) {
  constexpr double kNan = NAN, kInfinity = INFINITY;
  const Tensor logits = at::tensor({2.0,        1.0,        0.0,   // right
                                    1.0,        2.0,        0.0,   // wrong
                                    kNan,       kNan,       kNan,  // argmax says class 0
                                    3.0,        kNan,       0.0,   //
                                    kInfinity,  0.0,        0.0,   // no share of infinity
                                    1.0,        -kInfinity, 0.0,   // a class that cannot be
                                    -kInfinity, -kInfinity, -kInfinity})
                            .view({7, 3});
  const Tensor classes = at::zeros({7}, at::kLong);
  const bool expected[] = {true, false, false, false, false, true, false};
  const Tensor right = right_of(logits, classes);
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(right[i].item<bool>(), expected[i]) << i;
    Batch batch;
    batch.size = 1;
    batch.fields.set("class", classes.narrow(0, i, 1));
    ClassificationMeter meter;
    meter.add({{"logits", logits.narrow(0, i, 1)}}, batch);
    EXPECT_EQ(meter.result().at("accuracy"), expected[i] ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace attnlab::classification_losses_test
