// Folders of one's own clouds: columns, labels, voxels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::point_files_test {
namespace {

using attnlab::testing::mentions;
using testing::at_root;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_points;

TEST(PointFilesDataset, HasAnotherFingerprintWhereFoldersAreOthers) {
  const TempFolder folder;
  for (const char* file : {"train/car/a", "train/car/b", "train/tree/c", "test/car/d"}) {
    folder.write(std::string(file) + ".csv", "1,2,3\n");
  }
  // Each time the files stay the same, in the same order.
  std::set<std::string> seen;
  const auto is_new = [&] {
    return seen
        .insert(make_dataset("point_files", "{root: " + folder.path() + "}")->info().fingerprint)
        .second;
  };
  EXPECT_TRUE(is_new());
  EXPECT_FALSE(is_new());
  std::filesystem::rename(folder / "train/car/b.csv", folder / "train/tree/b.csv");
  EXPECT_TRUE(is_new()) << "a cloud is of another class";
  std::filesystem::rename(folder / "train/tree/c.csv", folder / "test/car/c.csv");
  EXPECT_TRUE(is_new()) << "a cloud is tested on";
  std::filesystem::rename(folder / "train/tree", folder / "train/wood");
  EXPECT_TRUE(is_new()) << "a class is another";
}

TEST(PointFilesDataset, TakesLabelsFromColumnsOrFolders) {
  const TempFolder folder;
  write_points(folder);
  const std::string options = "{root: " + folder.path() +
                              "/points, label: label, grid: 100, "
                              "classes: [ground, tree], features: [i]";
  const auto labelled = make_dataset("point_files", options + ", ignored: [9]}");
  const NamedTensors cloud = labelled->example(Split::train, 0, nullptr);
  EXPECT_TRUE(cloud.at("label@point").equal(at::tensor({0, -1}, at::kLong)));
  EXPECT_EQ(cloud.at("feature@voxel").size(1), 4);
  EXPECT_EQ(labelled->cost(Split::train, 0), 2) << "one is lost";
  EXPECT_THAT(message_of<DataError>([&] { make_dataset("point_files", options + "}"); }),
              mentions("a.xyz:", "point 1 is 9", "`classes`", "0 to 1"));
  folder.write("points/train/a.xyz", "x y z i label\n1 1 1 5 0\n2 2 2 5 nan\n");
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("point_files", options + ", ignored: [-1]}")
                    ->example(Split::train, 0, nullptr);
              }),
              mentions("a.xyz:", "point 1 is .nan"));
  const auto folders = make_dataset("point_files", "{root: " + folder.path() + "/folders}");
  EXPECT_EQ(folders->info().class_names, (std::vector<std::string>{"car", "tree"}));
  EXPECT_EQ(folders->example(Split::train, 1, nullptr).at("class").item<std::int64_t>(), 1);
}

TEST(PointFilesDataset, RefusesFoldersThatItWouldPassOverOrTakeForNewClasses) {
  const TempFolder folder;
  write_points(folder);
  const auto refusal = [&](const std::string& options) {
    return message_of<DataError>(
        [&] { make_dataset("point_files", "{root: " + folder.path() + options + "}"); });
  };
  std::filesystem::create_directory(folder / "folders/val");
  EXPECT_THAT(refusal("/folders"), mentions("folders/val:", "rename it"));
  std::filesystem::remove(folder / "folders/val");
  folder.write("folders/test/three/a.csv", "1,2,3\n");
  EXPECT_THAT(refusal("/folders"), mentions("test/three:", "class", "'tree'"));
  std::filesystem::remove_all(folder / "folders/test/three");
  std::filesystem::create_directory(folder / "folders/train/empty");
  EXPECT_THAT(refusal("/folders"), mentions("train/empty:", "no files"));
  std::filesystem::remove(folder / "folders/train/empty");
  folder.write("folders/train/.notes", "");
  EXPECT_EQ(make_dataset("point_files", "{root: " + folder.path() + "/folders}")->info().classes,
            2);
  folder.write("folders/train/b.csv", "1,2,3\n");
  EXPECT_THAT(refusal("/folders"), mentions("train/b.csv:", "not a folder", "move it"));
  folder.write("points/train/tree/b.xyz", "x y z i label\n1 2 3 0.5 0\n");
  EXPECT_THAT(refusal("/points, label: label, classes: [ground, tree], ignored: [9], grid: 100"),
              mentions("train/tree:", "is a folder", "`label`"));
}

// Corners of a square are equally far from its middle, and sums of such numbers depend on their
// order.
TEST(PointFilesDataset, GivesVoxelsWhateverTheOrderOfPoints) {
  const TempFolder folder;
  const std::vector<std::string> lines = {"1 1 1 1e17 0\n", "3 1 1 1 1\n", "1 3 1 -1e17 0\n",
                                          "3 3 1 2 1\n"};
  std::vector<int> order = {0, 1, 2, 3};
  for (int name = 10; std::next_permutation(order.begin(), order.end()); ++name) {
    std::string text = "x y z i label\n";
    for (const int line : order) text += lines[std::size_t(line)];
    folder.write("points/train/" + std::to_string(name) + ".xyz", text);
  }
  for (const char* voxel : {"mean", "sample"}) {
    const auto dataset = make_dataset("point_files", "{root: " + folder.path() +
                                                         "/points, label: label, grid: 100, "
                                                         "classes: [a, b], features: [i], voxel: " +
                                                         voxel + "}");
    const NamedTensors first = dataset->example(Split::train, 0, nullptr);
    EXPECT_EQ(dataset->size(Split::train), 23);
    for (std::int64_t i = 1; i < 23; ++i) {
      const NamedTensors other = dataset->example(Split::train, i, nullptr);
      EXPECT_TRUE(other.at("feature@voxel").equal(first.at("feature@voxel"))) << voxel << i;
      EXPECT_TRUE(other.at("label@voxel").equal(first.at("label@voxel"))) << voxel << i;
    }
  }
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
              mentions("c.csv:", "'scalar_label'", "x, y, z, Label, LABEL,"));
}

}  // namespace
}  // namespace attnlab::point_files_test
