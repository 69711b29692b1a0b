// Batches of series of unequal length, and made-up series.
#include "framework/data/series/series.h"

#include "tests/support/data_files.h"

namespace attnlab::series_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

NamedTensors example(std::int64_t length, std::int64_t channels, std::int64_t label) {
  return {{"series", at::full({length, channels}, double(label) + 1)},
          {"valid", at::ones({length}, at::kBool)},
          {"class", at::scalar_tensor(label, at::kLong)}};
}

TEST(CollateSeries, PadsAtTheEndAndStacksTheRest) {
  const Batch batch = collate_series({example(2, 3, 0), example(4, 3, 1)}, 0);
  EXPECT_EQ(batch.size, 2);
  const Tensor series = batch.fields.at("series"), valid = batch.fields.at("valid");
  EXPECT_EQ(series.sizes(), (std::vector<std::int64_t>{2, 4, 3}));
  EXPECT_TRUE(
      valid.equal(at::arange(4) < at::tensor(std::vector<std::int64_t>{2, 4}).view({2, 1})));
  EXPECT_TRUE(
      series.sum(-1).equal(at::tensor(std::vector<float>{3, 3, 0, 0, 6, 6, 6, 6}).view({2, 4})));
  EXPECT_TRUE(batch.fields.at("class").equal(at::tensor(std::vector<std::int64_t>{0, 1})));
  EXPECT_EQ(collate_series({example(2, 3, 0)}, 5).fields.at("series").size(1), 5);
  EXPECT_EQ(collate_series({}, 5).size, 0);
}

TEST(CollateSeries, RefusesSeriesOfOtherChannels) {
  EXPECT_THAT(message_of<DataError>([] {
                collate_series({example(2, 3, 0), example(2, 4, 1)}, 0);
              }),
              HasSubstr("only lengths may differ"));
}

}  // namespace
}  // namespace attnlab::series_test
