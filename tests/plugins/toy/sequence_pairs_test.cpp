// Several classes an example: loss and metrics against sums written out.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::sequence_pairs_test {
namespace {

using ::testing::HasSubstr;
using testing::make_task;
using testing::message_of;

DatasetInfo data(std::int64_t classes) {
  DatasetInfo info;
  info.name = "made up";
  info.classes = classes;
  return info;
}

Batch batch_of(const Tensor& targets) { return {{{"targets", targets}}, targets.size(0)}; }

TEST(SequencePairs, AverageOverAllTargets) {
  at::manual_seed(1);
  const auto task = make_task("sequence_pairs", data(3));
  const Tensor logits = at::randn({2, 4, 3}, at::kDouble);
  const Tensor targets = at::randint(3, {2, 4}, at::kLong);
  double sum = 0;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 4; ++t) {
      double total = 0;
      for (int k = 0; k < 3; ++k) total += std::exp(logits[b][t][k].item<double>());
      sum += std::log(total) - logits[b][t][targets[b][t].item<std::int64_t>()].item<double>();
    }
  }
  EXPECT_NEAR(task->loss({{"logits", logits}}, batch_of(targets)).item<double>(), sum / 8, 1e-12);
  const auto meter = task->meter();
  meter->add({{"logits", logits}}, batch_of(targets));
  EXPECT_NEAR(meter->result().at("nll"), sum / 8, 1e-12);
  EXPECT_EQ(task->metrics().front().name, "accuracy");
}

TEST(SequencePairs, CountTokensAndWholeExamples) {
  const auto task = make_task("sequence_pairs", data(3));
  const Tensor targets = at::tensor(std::vector<std::int64_t>{0, 1, 2, 2, 1, 0}).view({3, 2});
  Tensor said = targets.clone();
  said[1][0] = 1;  // one token of the second example is wrong
  const Tensor logits = at::one_hot(said, 3).to(at::kFloat);
  const auto meter = task->meter();
  // Batches of two and of one: each example counts once.
  meter->add({{"logits", logits.narrow(0, 0, 2)}}, batch_of(targets.narrow(0, 0, 2)));
  meter->add({{"logits", logits.narrow(0, 2, 1)}}, batch_of(targets.narrow(0, 2, 1)));
  EXPECT_NEAR(meter->result().at("accuracy"), 5.0 / 6, 1e-12);
  EXPECT_NEAR(meter->result().at("example_accuracy"), 2.0 / 3, 1e-12);
}

TEST(SequencePairs, GiveNoCreditForLogitsThatAreNoNumbers) {
  const auto meter = make_task("sequence_pairs", data(3))->meter();
  const Tensor targets = at::zeros({2, 2}, at::kLong);
  meter->add({{"logits", at::full({2, 2, 3}, std::numeric_limits<float>::quiet_NaN())}},
             batch_of(targets));
  EXPECT_EQ(meter->result().at("example_accuracy"), 0);
}

TEST(SequencePairs, GiveEachMemberItsOwnLoss) {
  at::manual_seed(2);
  const auto task = make_task("sequence_pairs", data(3));
  const Tensor logits = at::randn({6, 4, 3}, at::kDouble);
  const Tensor targets = at::randint(3, {6, 4}, at::kLong);
  const Tensor losses = task->losses({{"logits", logits}}, batch_of(targets), 3);
  ASSERT_EQ(losses.sizes(), (std::vector<std::int64_t>{3}));
  for (std::int64_t m = 0; m < 3; ++m) {
    const Tensor alone =
        task->loss({{"logits", logits.narrow(0, 2 * m, 2)}}, batch_of(targets.narrow(0, 2 * m, 2)));
    EXPECT_NEAR(losses[m].item<double>(), alone.item<double>(), 1e-12);
  }
}

TEST(SequencePairs, RefuseWhatDoesNotFit) {
  const auto task = make_task("sequence_pairs", data(3));
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->loss({{"logits", at::zeros({2, 3})}}, batch_of(at::zeros({2, 1}, at::kLong)));
              }),
              HasSubstr("[B, T, K] for targets [B, T], found [2, 3]"));
  EXPECT_THAT(
      message_of<DataError>([&] {
        task->loss({{"logits", at::zeros({2, 1, 3})}}, batch_of(at::full({2, 1}, 3, at::kLong)));
      }),
      HasSubstr("class 3"));
}

}  // namespace
}  // namespace attnlab::sequence_pairs_test
