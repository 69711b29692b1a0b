// ModelNet: texts, meshes and arrays; lists of shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::modelnet_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_modelnet;

TEST(Modelnet, ReadsTextsAndSamplesMeshes) {
  const TempFolder folder;
  write_modelnet(folder);
  const auto texts =
      make_dataset("modelnet", "{root: " + folder.path() + "/texts, classes: 10, points: 2}");
  EXPECT_EQ(texts->size(Split::train), 2);
  EXPECT_EQ(texts->size(Split::test), 1);
  const NamedTensors stand = texts->example(Split::train, 0, nullptr);
  EXPECT_EQ(stand.at("class").item<std::int64_t>(), 1) << "night_stand";
  EXPECT_TRUE(
      stand.at("coord@point").equal(at::tensor({-1.f, 0.f, 0.f, 1.f, 0.f, 0.f}).view({2, 3})));
  EXPECT_EQ(stand.at("feature@voxel").size(1), 6);
  const auto meshes =
      make_dataset("modelnet", "{root: " + folder.path() + "/meshes, points: 100, normals: false}");
  EXPECT_EQ(meshes->info().class_names, (std::vector<std::string>{"chair", "desk"}));
  const NamedTensors desk = meshes->example(Split::test, 1, nullptr);
  EXPECT_EQ(desk.at("class").item<std::int64_t>(), 1);
  EXPECT_EQ(desk.at("coord@point").size(0), 100);
  EXPECT_EQ(desk.at("feature@voxel").size(1), 3);
}

TEST(Modelnet, DoesNotDivideByARadiusThatRoundingLeaves) {
  const TempFolder folder;
  write_modelnet(folder);
  // Three times one place, whose mean is another number in single precision.
  const std::string row = "0.1,0.7,-1.3,0,0,1\n";
  folder.write("texts/desk/desk_0002.txt", row + row + row);
  const auto dataset =
      make_dataset("modelnet", "{root: " + folder.path() + "/texts, classes: 10, points: 3}");
  const Tensor coordinates = dataset->example(Split::train, 1, nullptr).at("coord@point");
  EXPECT_LT(coordinates.abs().max().item<float>(), 1e-6);
}

TEST(Modelnet, TakesTheTenClassesOfModelnet10FromAFolderOfForty) {
  const TempFolder folder;
  write_modelnet(folder);
  for (const char* part : {"train", "test"}) {
    folder.write(std::string("meshes/airplane/") + part + "/airplane_1.off",
                 "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n");
  }
  const auto named = [&](const char* classes) {
    return make_dataset("modelnet", "{root: " + folder.path() + "/meshes" + classes + "}")
        ->info()
        .class_names;
  };
  EXPECT_EQ(named(", classes: 10"), (std::vector<std::string>{"chair", "desk"}));
  EXPECT_EQ(named(""), (std::vector<std::string>{"airplane", "chair", "desk"}));
}

TEST(Modelnet, RefusesAClassThatIsNotInBothSplits) {
  const TempFolder folder;
  write_modelnet(folder);
  const std::string mesh = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
  const auto refusal = [&] {
    return message_of<DataError>(
        [&] { make_dataset("modelnet", "{root: " + folder.path() + "/meshes}"); });
  };
  folder.write("meshes/notes/a.txt", "no class");
  EXPECT_EQ(make_dataset("modelnet", "{root: " + folder.path() + "/meshes}")->info().classes, 2);
  folder.write("meshes/airplane/test/airplane_1.off", mesh);
  EXPECT_THAT(refusal(), mentions("airplane/train:", "no .off files", "fetch"));
  folder.write("meshes/airplane/train/airplane_1.off", mesh);
  std::filesystem::remove(folder / "meshes/airplane/test/airplane_1.off");
  EXPECT_THAT(refusal(), mentions("airplane/test:", "no .off files"));
}

TEST(Modelnet, ReadsArrays) {
  const TempFolder folder;
  const auto npy = [](const std::string& type, const std::string& shape, const std::string& data) {
    std::string head =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    head.resize(118, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + data;
  };
  // Three clouds of two points on the x axis: at 0 and 2, at 0 and 4, at 0 and 6.
  std::string points(3 * 2 * 3 * sizeof(float), '\0');
  for (int cloud = 0; cloud < 3; ++cloud) {
    const float x = 2 * float(cloud + 1);
    std::memcpy(points.data() + sizeof(float) * std::size_t(6 * cloud + 3), &x, sizeof(float));
  }
  const auto write = [&](const std::string& labels) {
    folder.write("points1024.npz",
                 testing::zip_file({{"points.npy", npy("<f4", "(3, 2, 3)", points)},
                                    {"label.npy", npy("|u1", "(3,)", labels)},
                                    {"is_test.npy", npy("|b1", "(3,)", std::string("\0\0\1", 3))}},
                                   true));
  };
  write(std::string("\0\1\1", 3));
  const std::string options = "{root: " + folder.path() + "}";
  const auto dataset = make_dataset("modelnet", options);
  EXPECT_EQ(dataset->size(Split::train), 2);
  EXPECT_EQ(dataset->size(Split::test), 1);
  const NamedTensors one = dataset->example(Split::train, 1, nullptr);
  EXPECT_EQ(one.at("class").item<std::int64_t>(), 1);
  EXPECT_TRUE(
      one.at("coord@point").equal(at::tensor({-1.f, 0.f, 0.f, 1.f, 0.f, 0.f}).view({2, 3})));
  folder.write("points1024.npz",
               testing::zip_file({{"points.npy", npy("<f4", "(3, 2, 3)", points)},
                                  {"label.npy", npy("|u1", "(1, 3)", std::string("\0\1\1", 3))},
                                  {"is_test.npy", npy("|b1", "(3, 1)", std::string("\0\0\1", 3))}},
                                 true));
  const auto flat = make_dataset("modelnet", options);
  EXPECT_EQ(flat->size(Split::train), 2);
  EXPECT_EQ(flat->example(Split::train, 1, nullptr).at("class").item<std::int64_t>(), 1);
  write("\1\1");
  EXPECT_THROW(make_dataset("modelnet", options), DataError);
  const auto refusal = [&](const std::string& type, const std::string& labels,
                           const std::string& test) {
    folder.write("points1024.npz",
                 testing::zip_file({{"points.npy", npy("<f4", "(3, 2, 3)", points)},
                                    {"label.npy", npy(type, "(3,)", labels)},
                                    {"is_test.npy", npy("|u1", "(3,)", test)}},
                                   true));
    return message_of<DataError>([&] { make_dataset("modelnet", options); });
  };
  const std::string none(3, '\0'), far("\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0", 16);
  EXPECT_THAT(refusal("<i8", far + std::string(8, '\0'), none), HasSubstr("expected labels below"));
  EXPECT_THAT(refusal("<f4", std::string(12, '\0'), none), HasSubstr("holds no whole numbers"));
  EXPECT_THAT(refusal("|u1", none, "\1\2\1"), HasSubstr("0 or 1 as is_test"));
}

TEST(Modelnet, LeavesLostPointsOutBeforeItFindsTheMiddle) {
  const TempFolder folder;
  write_modelnet(folder);
  folder.write("texts/desk/desk_0002.txt", "0,0,0,0,0,1\nnan,0,0,0,0,1\n0,4,0,0,1,0\n");
  const auto dataset = make_dataset("modelnet", "{root: " + folder.path() + "/texts, classes: 10}");
  EXPECT_TRUE(dataset->example(Split::train, 1, nullptr)
                  .at("coord@point")
                  .equal(at::tensor({0.f, -1.f, 0.f, 0.f, 1.f, 0.f}).view({2, 3})));
}

TEST(Modelnet, SamplesAMeshTheSameForEverySeed) {
  const TempFolder folder;
  write_modelnet(folder);
  const std::string options = "{root: " + folder.path() + "/meshes, points: 50}";
  const auto points = [&](std::uint64_t seed, std::int64_t cloud) {
    const auto dataset = make_dataset("modelnet", options, seed);
    return std::pair{dataset->example(Split::train, cloud, nullptr).at("coord@point"),
                     dataset->info().fingerprint};
  };
  EXPECT_TRUE(points(1, 0).first.equal(points(2, 0).first));
  EXPECT_EQ(points(1, 0).second, points(2, 0).second);
  EXPECT_FALSE(points(1, 0).first.equal(points(1, 1).first)) << "each shape has its own points";
}

TEST(Modelnet, HasAnotherFingerprintWhereSplitsOrClassesAreOthers) {
  const TempFolder folder;
  write_modelnet(folder);
  const auto fingerprint = [&](const std::string& more) {
    return make_dataset("modelnet", "{root: " + folder.path() + more + "}")->info().fingerprint;
  };
  const std::string texts = "/texts, classes: 10", published = fingerprint(texts);
  folder.write("texts/modelnet10_train.txt", "night_stand_0001\n");
  folder.write("texts/modelnet10_test.txt", "desk_0002\nnight_stand_0003\n");
  const std::string moved = fingerprint(texts);
  EXPECT_NE(moved, published) << "a shape is tested on instead of trained on";
  folder.write("texts/modelnet10_shape_names.txt", "night_stand\ndesk\n");
  EXPECT_NE(fingerprint(texts), moved) << "classes have other numbers";
  const std::string meshes = fingerprint("/meshes");
  std::filesystem::rename(folder / "meshes/desk", folder / "meshes/table");
  EXPECT_NE(fingerprint("/meshes"), meshes) << "a class is another";
}

TEST(Modelnet, RefusesAShapeThatIsListedTwice) {
  const TempFolder folder;
  write_modelnet(folder);
  const auto refusal = [&] {
    return message_of<DataError>(
        [&] { make_dataset("modelnet", "{root: " + folder.path() + "/texts, classes: 10}"); });
  };
  folder.write("texts/modelnet10_test.txt", "night_stand_0001\n");
  EXPECT_THAT(refusal(), mentions("modelnet10_test.txt: 'night_stand_0001' stands in ",
                                  "modelnet10_train.txt already", "remove it"));
  folder.write("texts/modelnet10_test.txt", "night_stand_0003\nnight_stand_0003\n");
  EXPECT_THAT(refusal(), HasSubstr("modelnet10_test.txt already"));
}

}  // namespace
}  // namespace attnlab::modelnet_test
