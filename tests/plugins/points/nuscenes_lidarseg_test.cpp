// nuScenes-lidarseg: its tables and its versions' splits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/deadline.h"
#include "tests/support/plugins.h"

namespace attnlab::nuscenes_lidarseg_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::at_root;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_nuscenes;

TEST(NuscenesLidarseg, JoinsTheTables) {
  const TempFolder folder;
  write_nuscenes(folder);
  const std::string options = "{root: " + folder.path() + "/nuscenes}";
  const auto dataset = make_dataset("nuscenes_lidarseg", options);
  EXPECT_EQ(dataset->size(Split::train), 1);
  EXPECT_EQ(dataset->size(Split::test), 1) << "scene-0103 is one of validation";
  const NamedTensors scan = dataset->example(Split::test, 0, nullptr);
  EXPECT_TRUE(scan.at("label@point").equal(at::tensor({3, -1}, at::kLong))) << "car, own car";
  EXPECT_NEAR(scan.at("feature@voxel").select(1, 3).max().item<double>(), 1, 1e-6);
  folder.write("nuscenes/v1.0-trainval/sample.json", "[]");
  EXPECT_THAT(message_of<DataError>([&] { make_dataset("nuscenes_lidarseg", options); }),
              HasSubstr("sample.json: has no record 's"));
}

TEST(NuscenesLidarseg, RefusesTablesThatAreNoListsOfFlatRecords) {
  const TempFolder folder;
  write_nuscenes(folder);
  std::string many;  // for which the parser would take hours
  for (int i = 0; i < 500'000; ++i) many += "{},";
  for (const std::string& bad :
       {"[{\"token\":[" + many + "{}]}]", "[1," + many + "{}]", std::string("{\"token\":\"c0\"}"),
        std::string("[{\"token\":{}}]"), std::string("7")}) {
    folder.write("nuscenes/v1.0-trainval/scene.json", bad);
    EXPECT_THAT(message_of<DataError>([&] {
                  make_dataset("nuscenes_lidarseg", "{root: " + folder.path() + "/nuscenes}");
                }),
                mentions("scene.json:", "a list"));
  }
}

TEST(NuscenesLidarseg, DoesNotWaitForATableThatIsAFifo) {
  const TempFolder folder;
  const testing::Deadline deadline;
  write_nuscenes(folder);
  const std::string table = folder / "nuscenes/v1.0-trainval/scene.json";
  std::filesystem::remove(table);
  ASSERT_EQ(::mkfifo(table.c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("nuscenes_lidarseg", "{root: " + folder.path() + "/nuscenes}");
              }),
              HasSubstr("scene.json: cannot be read"));
}

TEST(NuscenesLidarseg, DividesEachVersionAsItsPublisherDoes) {
  const TempFolder whole, mini;
  write_nuscenes(whole, "v1.0-trainval", "scene-0553");
  write_nuscenes(mini, "v1.0-mini", "scene-0553");
  const auto options = [](const TempFolder& folder, const std::string& version) {
    return "{root: " + folder.path() + "/nuscenes, version: " + version + "}";
  };
  EXPECT_THAT(message_of<DataError>(
                  [&] { make_dataset("nuscenes_lidarseg", options(whole, "v1.0-trainval")); }),
              HasSubstr("no scan to train on"))
      << "both scenes are of validation in the whole set";
  const auto dataset = make_dataset("nuscenes_lidarseg", options(mini, "v1.0-mini"));
  EXPECT_EQ(dataset->size(Split::train), 1) << "scene-0553";
  EXPECT_EQ(dataset->size(Split::test), 1) << "scene-0103";
}

TEST(NuscenesTables, AreRefusedWhereAScenesNameSaysNoSplit) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& scene) {
    testing::write_nuscenes(folder, "v1.0-trainval", scene);
    return message_of<DataError>(
        [&] { make_dataset("nuscenes_lidarseg", at_root(folder, "nuscenes") + "}"); });
  };
  for (const char* scene : {"scene-03", "scene_0003", "Scene-0003", "scene-00x3", "0003", ""}) {
    EXPECT_THAT(refusal(scene),
                AllOf(HasSubstr("scene.json: '" + std::string(scene) + "' is not a scene"),
                      HasSubstr("correct its name")));
  }
  EXPECT_THAT(message_of<ConfigError>([&] {
                make_dataset("nuscenes_lidarseg",
                             at_root(folder, "nuscenes") + ", version: v1.0-test}");
              }),
              HasSubstr("v1.0-mini"));
  testing::write_nuscenes(folder);
  folder.write("nuscenes/v1.0-trainval/scene.json", std::string("\xff\xfe[\0]\0", 6));
  EXPECT_THAT(message_of<DataError>(
                  [&] { make_dataset("nuscenes_lidarseg", at_root(folder, "nuscenes") + "}"); }),
              AllOf(HasSubstr("scene.json: is not UTF-8"), HasSubstr("iconv")));
}

}  // namespace
}  // namespace attnlab::nuscenes_lidarseg_test
