// SemanticKITTI: drives and the classes of its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::semantic_kitti_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_semantic;

TEST(SemanticKitti, RefusesADriveOfTwoSplitsAndANamedOneWithoutScans) {
  const TempFolder folder;
  write_semantic(folder);
  const auto open = [&](const std::string& more) {
    return make_dataset("semantic_kitti", "{root: " + folder.path() + "/semantic" + more + "}");
  };
  const auto refusal = [&](const std::string& more) {
    return message_of<ConfigError>([&] { open(more); });
  };
  EXPECT_THAT(refusal(", train: ['00', '08']"), mentions("train:", "drive 08", "`test`"));
  EXPECT_THAT(refusal(", train: ['00', '01']"),
              mentions("sequences/01/velodyne:", "no scans", "drive 01", "drives that are there"));
  EXPECT_THAT(refusal(", test: ['8']"), HasSubstr("test: "));
  EXPECT_THAT(refusal(", train: ['00', '00']"), HasSubstr("train: names drive 00 twice"));
  EXPECT_THAT(open("")->info().source, HasSubstr(" without the drives 01, 02, 03, "))
      << "a part of the usual ones";
  EXPECT_EQ(open(", train: ['00']")->info().source, folder / "semantic");
  EXPECT_EQ(open(", train: ['00']")->info().fingerprint, open("")->info().fingerprint);
}

TEST(SemanticKitti, MapsNumbersToClasses) {
  const TempFolder folder;
  write_semantic(folder);
  const auto dataset = make_dataset("semantic_kitti", "{root: " + folder.path() + "/semantic}");
  EXPECT_EQ(dataset->size(Split::test), 1);
  EXPECT_TRUE(dataset->example(Split::train, 0, nullptr)
                  .at("label@point")
                  .equal(at::tensor({0, 5, -1}, at::kLong)));
  EXPECT_EQ(dataset->info().class_names.at(5), "person");
  folder.write("semantic/sequences/00/labels/000000.label",
               std::string("\x0a\0\0\0\x39\x30\0\0\x34\0\0\0", 12));
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::train, 0, nullptr); }),
              mentions("000000.label:", "byte 4: 12345"));
  folder.write("semantic/sequences/00/labels/000000.label", "12345678");
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("semantic_kitti", "{root: " + folder.path() + "/semantic}");
              }),
              mentions("000000.label:", "2 labels", "3 points"));
}

}  // namespace
}  // namespace attnlab::semantic_kitti_test
