// Accuracy where an image has several right classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::image_label_sets_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

DatasetInfo three_classes() {
  DatasetInfo info;
  info.name = "toy";
  info.classes = 3;
  return info;
}

/// Images with their right classes, of which the first is the usual one.
Batch batch_of(const std::vector<std::vector<std::int64_t>>& sets,
               const std::vector<std::int64_t>& usual) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(sets.size());
  std::vector<std::int64_t> all, ends = {0};
  for (const auto& set : sets) {
    all.insert(all.end(), set.begin(), set.end());
    ends.push_back(static_cast<std::int64_t>(all.size()));
  }
  batch.fields.set("class", at::tensor(usual, at::kLong));
  batch.fields.set("classes@label", at::tensor(all, at::kLong));
  batch.offsets.set("label", at::tensor(ends, at::kLong));
  return batch;
}

/// Logits that answer these classes.
NamedTensors answers(const std::vector<std::int64_t>& classes) {
  return {{"logits", at::one_hot(at::tensor(classes, at::kLong), 3).to(at::kFloat)}};
}

TEST(ImageLabelSets, CountAnAnswerThatIsOneOfTheRightOnes) {
  const auto task = testing::make_task("image_label_sets", three_classes());
  const auto meter = task->meter();
  meter->add(answers({0, 1, 2}), batch_of({{0}, {0, 1}, {}}, {0, 0, 2}));
  meter->add(answers({2}), batch_of({{0, 1}}, {2}));
  const Metrics found = meter->result();
  EXPECT_DOUBLE_EQ(found.at("accuracy"), 2.0 / 3) << "the image without a class does not count";
  EXPECT_DOUBLE_EQ(found.at("class_accuracy"), 2.0 / 3) << "right by the usual class: 1st and 4th";
  EXPECT_DOUBLE_EQ(found.at("labelled"), 3.0 / 4);
  EXPECT_EQ(task->metrics().front().name, "accuracy");
}

TEST(ImageLabelSets, GiveNoCreditForLogitsThatAreNoNumbers) {
  const auto meter = testing::make_task("image_label_sets", three_classes())->meter();
  NamedTensors broken = answers({0});
  broken.set("logits", at::full({1, 3}, std::numeric_limits<float>::quiet_NaN()));
  meter->add(broken, batch_of({{0, 1, 2}}, {0}));
  EXPECT_EQ(meter->result().at("accuracy"), 0);
}

TEST(ImageLabelSets, TakeAClassThatIsRuledOutForAnAnswerLikeOthers) {
  const auto meter = testing::make_task("image_label_sets", three_classes())->meter();
  NamedTensors masked = answers({0});
  masked.set("logits",
             at::tensor({5.f, -std::numeric_limits<float>::infinity(), 1.f}).view({1, 3}));
  meter->add(masked, batch_of({{0}}, {0}));
  EXPECT_EQ(meter->result().at("accuracy"), 1);
}

TEST(ImageLabelSets, RefuseWhatIsNoClassAndNothingToCount) {
  const auto task = testing::make_task("image_label_sets", three_classes());
  const auto meter = task->meter();
  EXPECT_THAT(message_of<Error>([&] { meter->result(); }), HasSubstr("no images"));
  EXPECT_THAT(message_of<DataError>([&] {
                meter->add(answers({0}), batch_of({{0, 3}}, {0}));
              }),
              mentions("class 3", "3 classes"));
  const auto none = task->meter();
  none->add(answers({0}), batch_of({{}}, {0}));
  EXPECT_THAT(message_of<DataError>([&] { none->result(); }), mentions("no image", "right class"));
  try {
    none->result();
    ADD_FAILURE();
  } catch (const UndefinedMetrics& some) {
    EXPECT_EQ(some.others(), (Metrics{{"labelled", 0}}));
  }
}

}  // namespace
}  // namespace attnlab::image_label_sets_test
