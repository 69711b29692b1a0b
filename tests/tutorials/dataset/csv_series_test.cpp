// CSV series: what the files say, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/conformance/check_plugin.h"
#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

class CsvSeries : public ::testing::Test {
 protected:
  CsvSeries() {
    folder.write("train.csv", "up,1,2,3\ndown,5,4\nup,0.5,1e1\n");
    folder.write("test.csv", "down,9,8,7,6\n");
  }
  std::string options() const { return "{root: " + folder.path() + "}"; }
  std::shared_ptr<Dataset> open() const { return testing::make_dataset("csv_series", options()); }
  std::string refusal(const std::string& test) const {
    folder.write("test.csv", test);
    return message_of<DataError>([&] { open(); });
  }

  testing::TempFolder folder;
};

TEST_F(CsvSeries, AreTheLinesOfTheFiles) {
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::train), 3);
  EXPECT_EQ(dataset->size(Split::test), 1);
  EXPECT_EQ(dataset->info().class_names, (std::vector<std::string>{"up", "down"}));
  const NamedTensors last = dataset->example(Split::train, 2, nullptr);
  EXPECT_TRUE(last.at("series").equal(at::tensor({0.5f, 10.f}).view({2, 1})));
  EXPECT_EQ(last.at("class").item<std::int64_t>(), 0);
  EXPECT_EQ(dataset->example(Split::test, 0, nullptr).at("class").item<std::int64_t>(), 1);
}

TEST_F(CsvSeries, MayHaveAByteOrderMark) {
  folder.write("train.csv", testing::marked("up,1,2,3\ndown,5,4\n"));
  EXPECT_EQ(open()->info().class_names, (std::vector<std::string>{"up", "down"}));
  EXPECT_THAT(refusal(testing::utf16("up,1\n")), HasSubstr("test.csv: is not UTF-8 but UTF-16"));
}

TEST_F(CsvSeries, ArePaddedToTheLongestOfTheirBatch) {
  const auto dataset = open();
  const Batch batch = dataset->collate(
      {dataset->example(Split::train, 0, nullptr), dataset->example(Split::train, 1, nullptr)});
  EXPECT_TRUE(
      batch.fields.at("series").equal(at::tensor({1.f, 2.f, 3.f, 5.f, 4.f, 0.f}).view({2, 3, 1})));
  EXPECT_TRUE(
      batch.fields.at("valid").equal(at::tensor({1, 1, 1, 1, 1, 0}).to(at::kBool).view({2, 3})));
}

TEST_F(CsvSeries, NameTheLineThatIsWrong) {
  EXPECT_THAT(refusal("up,1\nup,1,x\n"), HasSubstr("test.csv:2: 'x' is not a number"));
  EXPECT_THAT(refusal("up,1\nup\n"), HasSubstr("test.csv:2: has no values"));
  EXPECT_THAT(refusal("left,1\n"), HasSubstr("test.csv:1: the label 'left'"));
  EXPECT_THAT(refusal(""), HasSubstr("test.csv: holds no series"));
}

TEST_F(CsvSeries, KeepTheContract) {
  const Part part = testing::make_part(Kind::dataset, "csv_series", options());
  for (const conformance::CheckInfo& check : conformance::checks_of(Kind::dataset)) {
    const conformance::CheckResult result =
        conformance::check_plugin(testing::registry(), part, check.name);
    EXPECT_NE(result.outcome, conformance::Outcome::failed) << check.name << ": " << result.message;
  }
}

}  // namespace
}  // namespace attnlab
