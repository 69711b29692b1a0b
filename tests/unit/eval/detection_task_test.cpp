// Which objects of a batch count in detection, and the names of its metrics.
#include "framework/eval/detection/detection_task.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/eval/three_images.h"

namespace attnlab::detection_task_test {
namespace {

using testing::boxes_of_classes;
using testing::three_images;

void expect_objects(const Objects& found, const std::vector<std::int64_t>& rows,
                    const std::vector<std::int64_t>& labels, const std::vector<std::int64_t>& kinds,
                    const std::vector<std::int64_t>& starts) {
  const Tensor corners =
      three_images().fields.at("box@box").index_select(0, at::tensor(rows, at::kLong));
  const Tensor sides = corners.slice(1, 2) - corners.slice(1, 0, 2);
  const Tensor centred = at::cat({corners.slice(1, 0, 2) + sides / 2, sides}, 1);
  EXPECT_TRUE(found.boxes.allclose(centred)) << found.boxes;
  EXPECT_TRUE(found.labels.equal(at::tensor(labels, at::kLong))) << found.labels;
  EXPECT_TRUE(found.kinds.equal(at::tensor(kinds, at::kLong))) << found.kinds;
  EXPECT_EQ(found.starts, starts);
}

TEST(DetectionObjects, AreThoseThatAreAskedFor) {
  const Batch batch = three_images();
  expect_objects(objects_of(batch, /*one_shot=*/true), {0, 4}, {0, 0}, {0, 1}, {0, 1, 1, 2});
  expect_objects(objects_of(batch, /*one_shot=*/false), {0, 1, 4}, {0, 1, 1}, {0, 1, 1},
                 {0, 2, 2, 3});
  expect_objects(any_objects_of(batch), {0, 1, 4}, {0, 0, 0}, {0, 1, 1}, {0, 2, 2, 3});
}

TEST(DetectionObjects, WeighAPartOfAStep) {
  const TaskSetup setup{boxes_of_classes({"cat", "dog"})};
  EXPECT_EQ(DetectionTask({}, setup, true).weight(three_images()), 2);
  EXPECT_EQ(DetectionTask({}, setup, false).weight(three_images()), 3);
  Batch none = three_images();
  none.fields.set("prompt_class", at::tensor({1, 1, 0}, at::kLong));
  none.fields.set("ignored@box", at::ones({5}, at::kLong));
  EXPECT_EQ(DetectionTask({}, setup, true).weight(none), 1) << "as if there were one";
}

TEST(DetectionTask, RefusesTwoNamesOfOneMetric) {
  const auto refusal = [](const std::vector<std::string>& names) {
    DatasetInfo data = boxes_of_classes(names);
    data.class_groups = {{"base", {0}}, {"novel", {1}}};
    try {
      DetectionTask({}, TaskSetup{data}, true);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({"cat", "dog"}), "");
  EXPECT_NE(refusal({"base", "dog"}).find("metric ap50_base"), std::string::npos);
  EXPECT_NE(refusal({"big dog", "big_dog"}).find("ap50_big_dog"), std::string::npos);
}

}  // namespace
}  // namespace attnlab::detection_task_test
