// The parts of a step's batch.
#include "framework/train/step.h"

#include "tests/support/data_files.h"

namespace attnlab::step_test {
namespace {

std::vector<std::int64_t> sizes_of(std::int64_t size, std::int64_t count) {
  Batch batch;
  batch.size = size;
  batch.fields = {{"x", at::arange(size)}};
  std::vector<std::int64_t> sizes;
  std::int64_t next = 0;
  for (const Batch& part : parts_of(batch, count)) {
    EXPECT_EQ(part.fields.at("x")[0].item<std::int64_t>(), next);
    EXPECT_EQ(part.fields.at("x").size(0), part.size);
    next += part.size;
    sizes.push_back(part.size);
  }
  EXPECT_EQ(next, size) << "every example once";
  return sizes;
}

TEST(StepParts, AreEqualOrEndWithASmallerOne) {
  using ::testing::ElementsAre;
  EXPECT_THAT(sizes_of(8, 1), ElementsAre(8));
  EXPECT_THAT(sizes_of(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(sizes_of(7, 4), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(sizes_of(3, 4), ElementsAre(1, 1, 1));
  EXPECT_THAT(sizes_of(5, 4), ElementsAre(2, 2, 1));
}

}  // namespace
}  // namespace attnlab::step_test
