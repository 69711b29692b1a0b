// Folders of points: hidden entries, what is left out, lists and labels of unknown words, columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/data/points/scan_files.h"
#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::point_folders_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::floats;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;

std::string at_root(const TempFolder& folder, const std::string& name) {
  return "{root: " + folder / name;
}

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
  EXPECT_EQ(source("modelnet", "meshes"),
            folder / "meshes" + " without 2 of desk/train (not .off), notes");
  folder.write("folders/train/car/old/c.csv", "1,2,3\n");
  EXPECT_THAT(message_of<DataError>([&] { source("point_files", "folders"); }),
              HasSubstr("train/car/old: is a folder in that of a class; move its files up"));
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
              HasSubstr("a.txt:2: '0000\\x001' is no name; repair the line"));
  folder.write("a.txt", std::string("\xff\xfe"
                                    "0\0\n\0",
                                    6));
  EXPECT_THAT(message_of<DataError>([&] { listed_names(list); }),
              AllOf(HasSubstr("a.txt: is not UTF-8 but UTF-16"), HasSubstr("iconv")));
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

TEST(ScanFiles, ShowAZeroByteOfANameAndGoOnBehindIt) {
  const std::string path("/nowhere/a\0b.bin", 16);
  EXPECT_THAT(message_of<DataError>([&] { rows_of_scan(path, 4); }),
              AllOf(HasSubstr("/nowhere/a\\x00b.bin: "), EndsWith("the set is not complete")));
}

TEST(KittiBoxes, HaveATypeOfKittis) {
  const TempFolder folder;
  testing::write_kitti(folder, "kitti");
  const std::string rest = " 0 0 0 0 0 1 1 1.5 1.6 4 -2 0 10 0\n";
  const auto label = [&](const std::string& type) {
    folder.write("kitti/training/label_2/000000.txt", "Misc" + rest + type + rest);
    return make_dataset("kitti", at_root(folder, "kitti") + ", grid: 0.01}")
        ->example(Split::train, 0, nullptr)
        .at("label@point")[0]
        .item<std::int64_t>();
  };
  EXPECT_EQ(label("car"), 1) << "KITTI's own evaluation compares so";
  EXPECT_EQ(label("PEDESTRIAN"), 2);
  EXPECT_EQ(label("Tram"), -1);
  EXPECT_THAT(message_of<DataError>([&] { label("Cra"); }),
              AllOf(HasSubstr("000000.txt:2: 'Cra' is no type of KITTI's (Car, Van, "),
                    HasSubstr("or write Misc, whose points do not count")));
}

TEST(NuscenesTables, AreRefusedWhereAScenesNameSaysNoSplit) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& scene) {
    testing::write_nuscenes(folder, "v1.0-trainval", scene);
    return message_of<DataError>(
        [&] { make_dataset("nuscenes_lidarseg", at_root(folder, "nuscenes") + "}"); });
  };
  for (const char* scene : {"scene-03", "scene_0003", "Scene-0003", "scene-00x3", "0003", ""}) {
    EXPECT_THAT(refusal(scene), AllOf(HasSubstr("scene.json: '" + std::string(scene) + "' is no "),
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

TEST(PointFilesDataset, FindsColumnsAsTheyStandInTheFileAndInAnyCase) {
  const TempFolder folder;
  const std::string ply =
      "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
      "property float z\nproperty float scalar_Intensity\nproperty float scalar_Label\nend_header\n"
      "0 0 0 7 1\n1 0 0 8 0\n";
  const std::string pcd =
      "FIELDS X Y Z SCALAR_INTENSITY SCALAR_LABEL\nWIDTH 2\nDATA ascii\n0 0 0 7 1\n1 0 0 8 0\n";
  const std::string csv = "X,Y,Z,Scalar_intensity,scalar_label\n0,0,0,7,1\n1,0,0,8,0\n";
  folder.write("set/train/a.ply", ply);
  folder.write("set/train/b.pcd", pcd);
  folder.write("set/train/c.csv", csv);
  folder.write("set/test/a.ply", ply);
  for (const char* names : {"label: scalar_Label, features: [scalar_Intensity]",
                            "label: scalar_label, features: [SCALAR_intensity]"}) {
    const auto dataset = make_dataset(
        "point_files", at_root(folder, "set") + ", classes: [a, b], grid: 0.1, " + names + "}");
    for (std::int64_t i = 0; i < 3; ++i) {
      const NamedTensors cloud = dataset->example(Split::train, i, nullptr);
      EXPECT_TRUE(cloud.at("label@point").equal(at::tensor({1, 0}, at::kLong))) << names << i;
      EXPECT_TRUE(cloud.at("feature@voxel").select(1, 3).equal(at::tensor({7.f, 8.f}))) << names;
    }
  }
  folder.write("set/train/c.csv", "x,y,z,Label,LABEL,scalar_intensity\n0,0,0,1,0,7\n");
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("point_files",
                             at_root(folder, "set") + ", label: scalar_label, classes: [a, b]}");
              }),
              HasSubstr("c.csv: has no column 'scalar_label', but x, y, z, Label, LABEL, "));
}

}  // namespace
}  // namespace attnlab::point_folders_test
