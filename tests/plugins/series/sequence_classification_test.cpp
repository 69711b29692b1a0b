// Classification of sequences: the loss and metrics that all classification shares.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::sequence_classification_test {
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

Batch batch_of(const std::vector<std::int64_t>& classes) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(classes.size());
  batch.fields = {{"class", at::tensor(classes, at::kLong)}};
  return batch;
}

TEST(SequenceClassification, IsCrossEntropyAndAccuracyWhateverTheSequencesAre) {
  const auto task = make_task("sequence_classification", data(3));
  const NamedTensors outputs = {
      {"logits", at::tensor(std::vector<double>{0, 1, 2, 3, 0, 0}, at::kDouble).view({2, 3})}};
  const Batch batch = batch_of({1, 0});
  const double first = std::log(1 + std::exp(1.0) + std::exp(2.0)) - 1;
  const double second = std::log(std::exp(3.0) + 2) - 3;
  EXPECT_NEAR(task->loss(outputs, batch).item<double>(), (first + second) / 2, 1e-12);
  const auto meter = task->meter();
  meter->add(outputs, batch);
  EXPECT_EQ(meter->result().at("accuracy"), 0.5);
  EXPECT_NEAR(meter->result().at("nll"), (first + second) / 2, 1e-12);
  EXPECT_EQ(task->metrics().front().name, "accuracy");
}

TEST(SequenceClassification, SmoothsLabels) {
  const auto task = make_task("sequence_classification", data(2), "{label_smoothing: 0.5}");
  const NamedTensors outputs = {
      {"logits", at::tensor(std::vector<double>{2, 0}, at::kDouble).view({1, 2})}};
  const double log_sum = std::log(std::exp(2.0) + 1);
  EXPECT_NEAR(task->loss(outputs, batch_of({0})).item<double>(),
              0.75 * (log_sum - 2) + 0.25 * log_sum, 1e-12);
}

TEST(SequenceClassification, RefusesWhatItCannotJudge) {
  EXPECT_THAT(message_of<DataError>([] { make_task("sequence_classification", data(0)); }),
              HasSubstr("no classes"));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { make_task("sequence_classification", data(2), "{label_smoothing: 1}"); }),
              HasSubstr("must be below 1"));
  const auto task = make_task("sequence_classification", data(3));
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->loss({{"logits", at::zeros({1, 4})}}, batch_of({0}));
              }),
              HasSubstr("3 classes"));
}

}  // namespace
}  // namespace attnlab::sequence_classification_test
