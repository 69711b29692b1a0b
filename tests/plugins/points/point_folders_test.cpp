// Folders of points: hidden entries, what is left out, lists and labels of unknown words, columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/points/scan_files.h"
#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::point_folders_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using testing::at_root;
using ::testing::ElementsAre;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;

TEST(HiddenEntries, AreNobodysData) {
  const TempFolder folder;
  testing::write_kitti(folder, "kitti");
  testing::write_semantic(folder);
  testing::write_modelnet(folder);
  testing::write_points(folder);
  const auto open = [&] {
    std::vector<std::string> seen;
    for (const auto& [name, options] : std::vector<std::pair<std::string, std::string>>{
             {"kitti", at_root(folder, "kitti") + "}"},
             {"semantic_kitti", at_root(folder, "semantic") + "}"},
             {"modelnet", at_root(folder, "meshes") + "}"},
             {"point_files", at_root(folder, "folders") + "}"},
             {"point_files", at_root(folder, "points") +
                                 ", label: label, classes: [a, b], ignored: [9], grid: 100}"}}) {
      const auto dataset = make_dataset(name, options);
      seen.push_back(dataset->info().fingerprint + " " + std::to_string(dataset->info().classes) +
                     dataset->info().source);
    }
    return seen;
  };
  const std::vector<std::string> before = open();
  for (const char* file :
       {"kitti/training/velodyne/._000000.bin", "semantic/sequences/00/velodyne/._000000.bin",
        "meshes/.git/train/a.off", "meshes/chair/train/._chair_1.off", "folders/.runs/a.csv",
        "folders/train/.ipynb_checkpoints/a-checkpoint.csv", "folders/train/car/.b.csv.swp",
        "folders/train/car/.ipynb_checkpoints/b.csv", "points/train/.DS_Store",
        "points/test/.ipynb_checkpoints/a.xyz"}) {
    folder.write(file, "nothing to read");
  }
  EXPECT_EQ(open(), before);
}

TEST(PointFolders, SayWhatIsLeftOut) {
  const TempFolder folder;
  testing::write_modelnet(folder);
  testing::write_points(folder);
  const auto source = [&](const std::string& name, const std::string& below) {
    return make_dataset(name, at_root(folder, below) + "}")->info().source;
  };
  EXPECT_EQ(source("point_files", "folders"), folder / "folders");
  folder.write("folders/readme.txt", "");
  folder.write("folders/valid/car/a.csv", "1,2,3\n");
  EXPECT_EQ(source("point_files", "folders"), folder / "folders" + " without valid");
  EXPECT_EQ(source("modelnet", "meshes"), folder / "meshes");
  folder.write("meshes/README.txt", "");
  folder.write("meshes/notes/a.txt", "");
  folder.write("meshes/desk/train/desk_2.ply", "");
  folder.write("meshes/desk/train/desk_3.OFF", "");
  EXPECT_THAT(source("modelnet", "meshes"),
              says({folder / "meshes", "2 of desk/train (not .off), notes"}));
  folder.write("folders/train/car/old/c.csv", "1,2,3\n");
  EXPECT_THAT(message_of<DataError>([&] { source("point_files", "folders"); }),
              mentions("train/car/old:", "in that of a class", "move its files"));
}

TEST(ListedNames, AreOfLinesBehindAMarkAndHaveNoControlCharacters) {
  const TempFolder folder;
  const std::string list = folder.write("a.txt",
                                        "\xef\xbb\xbf"
                                        "000000\r\n\n  000001 1\n");
  EXPECT_THAT(listed_names(list), ElementsAre("000000", "000001"));
  folder.write("a.txt", std::string("000000\n0000\0"
                                    "1\n",
                                    14));
  EXPECT_THAT(message_of<DataError>([&] { listed_names(list); }),
              mentions("a.txt:2:", "'0000\\x001'", "repair the line"));
  folder.write("a.txt", std::string("\xff\xfe"
                                    "0\0\n\0",
                                    6));
  EXPECT_THAT(message_of<DataError>([&] { listed_names(list); }),
              mentions("a.txt:", "UTF-16", "iconv"));
}

TEST(ListedNames, AreReadBehindAMarkByKittiAndModelnet) {
  const TempFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  testing::write_kitti(folder, "kitti");
  testing::write_modelnet(folder);
  folder.write("kitti/ImageSets/train.txt", mark + "000001\n");
  folder.write("kitti/training/calib/000001.txt", mark + testing::kCalibration);
  folder.write("kitti/training/label_2/000001.txt",
               mark + "Car 0 0 0 0 0 1 1 1.5 1.6 4 -2 0 10 0\n");
  const auto kitti = make_dataset("kitti", at_root(folder, "kitti") + ", grid: 0.01}");
  EXPECT_EQ(kitti->size(Split::train), 1);
  EXPECT_EQ(kitti->example(Split::train, 0, nullptr).at("label@point")[0].item<std::int64_t>(), 1);
  folder.write("texts/modelnet10_train.txt", mark + "night_stand_0001\ndesk_0002\n");
  folder.write("texts/modelnet10_shape_names.txt", mark + "desk\nnight_stand\n");
  folder.write("texts/desk/desk_0002.txt", mark + "0,0,0,0,0,1\n0,4,0,0,1,0\n");
  const auto modelnet = make_dataset("modelnet", at_root(folder, "texts") + ", classes: 10}");
  EXPECT_EQ(modelnet->info().class_names[0], "desk");
  EXPECT_EQ(modelnet->example(Split::train, 1, nullptr).at("coord@point").size(0), 2);
}

}  // namespace
}  // namespace attnlab::point_folders_test
