// Datasets of files: what is labelled, what is refused, and the conformance kit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "framework/data/points/scan_files.h"
#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/deadline.h"
#include "tests/support/plugins.h"
#include "tests/support/unprivileged.h"

namespace attnlab::lidar_test {
namespace {

using ::testing::AllOf;
using testing::floats;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_kitti;
using testing::write_modelnet;
using testing::write_nuscenes;
using testing::write_points;
using testing::write_semantic;

TEST(Kitti, LabelsPointsByBoxes) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  const std::string root = "{root: " + folder.path() + "/kitti, grid: 0.01";
  const auto seen = make_dataset("kitti", root + "}");
  EXPECT_EQ(seen->size(Split::train), 1);
  EXPECT_EQ(seen->size(Split::test), 1);
  const NamedTensors scan = seen->example(Split::train, 0, nullptr);
  EXPECT_TRUE(scan.at("label@point").equal(at::tensor({1, 0, -1}, at::kLong)))
      << "car, background above it, van; what lies behind the camera and what is lost is left out";
  const auto all = make_dataset("kitti", root + ", view: all}");
  EXPECT_TRUE(all->example(Split::test, 0, nullptr)
                  .at("label@point")
                  .equal(at::tensor({1, -1, 0, -1}, at::kLong)));
}

TEST(Kitti, NamesScansWithoutPointsAndFilesThatAreDamaged) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  const std::string root = "{root: " + folder.path() + "/kitti}";
  const auto refusal = [&](const std::string& file, const std::string& content) {
    folder.write("kitti/training/" + file, content);
    return message_of<DataError>(
        [&] { make_dataset("kitti", root)->example(Split::train, 0, nullptr); });
  };
  EXPECT_THAT(refusal("velodyne/000000.bin", ""),
              HasSubstr("000000.bin: 0 bytes are a scan without points"));
  EXPECT_THAT(refusal("velodyne/000000.bin", "abc"), HasSubstr("no whole points of 16 bytes"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal("velodyne/000000.bin", floats({nan, 1, 1, 1})),
              HasSubstr("has no point with finite coordinates"));
  write_kitti(folder, "kitti");
  EXPECT_THAT(refusal("calib/000000.txt", "P2: 1\n"), HasSubstr("000000.txt:1: P2 has 1 numbers"));
  write_kitti(folder, "kitti");
  EXPECT_THAT(refusal("label_2/000000.txt", "Car 1 2\n"),
              HasSubstr("000000.txt:1: expected a type"));
  EXPECT_THAT(refusal("label_2/000000.txt", "Car 0 0 0 1 1 2 2 nan 1 1 1 1 1 0\n"),
              HasSubstr("000000.txt:1: expected a type"));
}

TEST(Kitti, RefusesAScanThatIsTooLargeToReadWhole) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  const std::string scan = folder.path() + "/kitti/training/velodyne/000001.bin";
  std::filesystem::resize_file(scan, (std::uintmax_t{1} << 30) + 16);  // holes: it takes no room
  EXPECT_THAT(
      message_of<DataError>([&] { make_dataset("kitti", "{root: " + folder.path() + "/kitti}"); }),
      AllOf(HasSubstr("000001.bin: 1073741840 bytes are more than a scan may have"),
            HasSubstr("cut it into smaller scans")));
}

TEST(Kitti, GivesAPointInTwoBoxesToTheSmallerOne) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  // A pedestrian in a van's box: the first point of the scan lies in both.
  const std::string small = "Pedestrian 0 0 0 0 0 1 1 1.5 0.8 0.8 -2 0 10 0\n",
                    large = "Van 0 0 0 0 0 1 1 2 3 6 -2 0 10 0\n";
  for (const std::string& boxes : {small + large, large + small}) {
    folder.write("kitti/training/label_2/000000.txt", boxes);
    const auto dataset = make_dataset("kitti", "{root: " + folder.path() + "/kitti, grid: 0.01}");
    const NamedTensors scan = dataset->example(Split::train, 0, nullptr);
    EXPECT_TRUE(scan.at("label@point").equal(at::tensor({2, -1, 0}, at::kLong))) << boxes;
  }
}

// A car 4 m long and 1 m wide, 10 m in front of the camera, turned by 30 degrees about the axis
// that points down: its length goes from the camera's right towards the camera.
TEST(Kitti, TurnsBoxesAndKnowsTheirLengthFromTheirWidth) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  folder.write("kitti/training/label_2/000000.txt",
               "Car 0 0 0 0 0 1 1 1.5 1 4 0 0 10 0.523598776\n");
  const float c = 0.8660254f, s = 0.5f;
  // Lidar x is the camera's z, and lidar y its -x.
  const auto at = [](float right, float ahead) {
    return std::array{10 + ahead, -right, 0.5f, 0.f};
  };
  std::vector<float> scan;
  for (const auto& point : {at(1.8f * c, -1.8f * s),    // in front of its nose's end
                            at(1.8f * c, 1.8f * s),     // there, were it turned the other way
                            at(1.8f, 0),                // there, were it not turned
                            at(0.4f * s, 0.4f * c),     // beside its middle
                            at(1.8f * s, 1.8f * c)}) {  // there, were it as wide as it is long
    scan.insert(scan.end(), point.begin(), point.end());
  }
  folder.write("kitti/training/velodyne/000000.bin", floats(scan));
  const auto dataset = make_dataset("kitti", "{root: " + folder.path() + "/kitti}");
  EXPECT_TRUE(dataset->example(Split::train, 0, nullptr)
                  .at("label@point")
                  .equal(at::tensor({1, 0, 0, 1, 0}, at::kLong)));
}

TEST(Kitti, DividesTheFramesThatAreNotNamed) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  folder.write("kitti/training/velodyne/000000.bin", floats({10, 2, 0.5f, 0.1f}));
  const auto points = [&](const std::string& options, Split split) {
    const auto dataset =
        make_dataset("kitti", "{root: " + folder.path() + "/kitti, view: all" + options + "}");
    EXPECT_EQ(dataset->size(split), 1) << options;
    return dataset->example(split, 0, nullptr).at("coord@point").size(0);
  };
  EXPECT_EQ(points("", Split::train), 1) << "every second frame";
  EXPECT_EQ(points(", train_frames: ['000001']", Split::train), 4);
  EXPECT_EQ(points(", train_frames: ['000001']", Split::test), 1) << "the other";
  EXPECT_EQ(points(", test_frames: ['000000']", Split::train), 4) << "the other";
  folder.write("kitti/ImageSets/val.txt", "000000\n");
  EXPECT_EQ(points("", Split::train), 4) << "the other";
  EXPECT_EQ(points("", Split::test), 1);
}

TEST(Kitti, DoesNotCountWhatTheImageShowsInADontCareRegion) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  // Around the first and the third point of the image, (601, 182) and (636, 184.5); and the second,
  // (601, 169), which is background.
  const std::string car = "Car 0 0 0 0 0 1 1 1.5 1.6 4 -2 0 10 0\n",
                    rest = " -1 -1 -1 -1000 -1000 -1000 -10\n";
  const auto labels = [&](const std::string& regions) {
    folder.write("kitti/training/label_2/000000.txt", car + regions);
    return make_dataset("kitti", "{root: " + folder.path() + "/kitti, grid: 0.01}")
        ->example(Split::train, 0, nullptr)
        .at("label@point");
  };
  EXPECT_TRUE(labels("").equal(at::tensor({1, 0, 0}, at::kLong)));
  EXPECT_TRUE(
      labels("DontCare -1 -1 -10 590 160 610 175" + rest).equal(at::tensor({1, -1, 0}, at::kLong)));
  EXPECT_TRUE(
      labels("DontCare -1 -1 -10 590 175 640 190" + rest).equal(at::tensor({1, 0, -1}, at::kLong)))
      << "a point of the car is the car's";
}

TEST(Kitti, RefusesAFrameThatIsTrainedOnAndTestedOn) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  folder.write("kitti/ImageSets/train.txt", "000000\n000001\n");
  const auto refusal = [&](const std::string& more) {
    return message_of<DataError>(
        [&] { make_dataset("kitti", "{root: " + folder.path() + "/kitti" + more + "}"); });
  };
  EXPECT_THAT(refusal(", test_frames: ['000001']"),
              HasSubstr("kitti: frame 000001 is one of ImageSets/train.txt and of test_frames"));
  folder.write("kitti/ImageSets/val.txt", "000000\n");
  EXPECT_THAT(refusal(", train_frames: ['000000']"),
              HasSubstr("frame 000000 is one of train_frames and of ImageSets/val.txt"));
}

TEST(Kitti, RefusesAFrameThatIsListedTwice) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  folder.write("kitti/ImageSets/train.txt", "000000\n000000\n");
  EXPECT_THAT(
      message_of<DataError>([&] { make_dataset("kitti", "{root: " + folder.path() + "/kitti}"); }),
      HasSubstr("frame 000000 stands twice in ImageSets/train.txt; remove it there once"));
}

TEST(Kitti, HasAnotherFingerprintWhereTrainingEndsElsewhere) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  for (const char* kind : {"velodyne/000001.bin", "calib/000001.txt", "label_2/000001.txt"}) {
    std::string third = folder / "kitti/training/" + kind;
    third.replace(third.rfind("000001"), 6, "000002");
    std::filesystem::copy_file(folder / "kitti/training/" + kind, third);
  }
  const auto fingerprint = [&](const std::string& train, const std::string& test) {
    folder.write("kitti/ImageSets/train.txt", train);
    folder.write("kitti/ImageSets/val.txt", test);
    return make_dataset("kitti", "{root: " + folder.path() + "/kitti}")->info().fingerprint;
  };
  EXPECT_NE(fingerprint("000000\n", "000001\n000002\n"),
            fingerprint("000000\n000001\n", "000002\n"));
}

TEST(SemanticKitti, RefusesADriveOfTwoSplitsAndANamedOneWithoutScans) {
  const TempFolder folder;
  write_semantic(folder);
  const auto open = [&](const std::string& more) {
    return make_dataset("semantic_kitti", "{root: " + folder.path() + "/semantic" + more + "}");
  };
  const auto refusal = [&](const std::string& more) {
    return message_of<ConfigError>([&] { open(more); });
  };
  EXPECT_THAT(refusal(", train: ['00', '08']"),
              HasSubstr("train: drive 08 is one of `test`, too; take it out of one of them"));
  EXPECT_THAT(refusal(", train: ['00', '01']"),
              AllOf(HasSubstr("sequences/01/velodyne: has no scans; fetch drive 01"),
                    HasSubstr("or name the drives that are there")));
  EXPECT_THAT(refusal(", test: ['8']"), HasSubstr("test: "));
  EXPECT_THAT(refusal(", train: ['00', '00']"), HasSubstr("train: names drive 00 twice"));
  EXPECT_THAT(open("")->info().source, HasSubstr(" without the drives 01, 02, 03, "))
      << "a part of the usual ones";
  EXPECT_EQ(open(", train: ['00']")->info().source, folder / "semantic");
  EXPECT_EQ(open(", train: ['00']")->info().fingerprint, open("")->info().fingerprint);
}

TEST(ScanFolders, AreListedOrRefusedButNeverTakenAsEmpty) {
  const TempFolder folder;
  const std::string scans = folder / "scans";
  EXPECT_TRUE(names_in(scans, ".bin").empty()) << "it is not there";
  folder.write("scans/b.bin", "");
  folder.write("scans/a.bin", "");
  folder.write("scans/c.txt", "");
  EXPECT_EQ(names_in(scans, ".bin"), (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_THAT(message_of<FileError>([&] { names_in(scans + "/c.txt", ""); }),
              HasSubstr("c.txt: cannot be listed: "));
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_THAT(message_of<FileError>([&] { names_in(folder / "link", ""); }),
              HasSubstr("link: cannot be listed: "));
  std::filesystem::create_symlink("nowhere", folder / "scans/d.bin");
  EXPECT_EQ(names_in(scans, ".txt").size(), 1U);
  EXPECT_THAT(message_of<DataError>([&] { names_in(scans, ".bin"); }),
              HasSubstr("d.bin: is a link to nothing; fetch what it leads to"));
  std::filesystem::permissions(scans, std::filesystem::perms::none);
  const testing::Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_THAT(message_of<FileError>([&] { names_in(scans, ".bin"); }),
              HasSubstr("scans: cannot be listed: Permission denied"));
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
              HasSubstr("000000.label: byte 4: 12345 is no class"));
  folder.write("semantic/sequences/00/labels/000000.label", "12345678");
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("semantic_kitti", "{root: " + folder.path() + "/semantic}");
              }),
              HasSubstr("000000.label: has 2 labels, its scan 3 points"));
}

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
                HasSubstr("scene.json: is no list of flat records"));
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
  EXPECT_THAT(refusal(), HasSubstr("airplane/train: has no .off files; fetch the class again"));
  folder.write("meshes/airplane/train/airplane_1.off", mesh);
  std::filesystem::remove(folder / "meshes/airplane/test/airplane_1.off");
  EXPECT_THAT(refusal(), HasSubstr("airplane/test: has no .off files"));
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
  EXPECT_THAT(refusal(), AllOf(HasSubstr("modelnet10_test.txt: 'night_stand_0001' stands in "),
                               HasSubstr("modelnet10_train.txt already; remove it in one place")));
  folder.write("texts/modelnet10_test.txt", "night_stand_0003\nnight_stand_0003\n");
  EXPECT_THAT(refusal(), HasSubstr("modelnet10_test.txt already"));
}

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
              HasSubstr("a.xyz: the label of point 1 is 9, `classes` names 0 to 1"));
  folder.write("points/train/a.xyz", "x y z i label\n1 1 1 5 0\n2 2 2 5 nan\n");
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("point_files", options + ", ignored: [-1]}")
                    ->example(Split::train, 0, nullptr);
              }),
              HasSubstr("a.xyz: the label of point 1 is .nan"));
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
  EXPECT_THAT(refusal("/folders"), HasSubstr("folders/val: would be passed over; rename it"));
  std::filesystem::remove(folder / "folders/val");
  folder.write("folders/test/three/a.csv", "1,2,3\n");
  EXPECT_THAT(refusal("/folders"),
              HasSubstr("test/three: is no class of the training folder; did you mean 'tree'?"));
  std::filesystem::remove_all(folder / "folders/test/three");
  std::filesystem::create_directory(folder / "folders/train/empty");
  EXPECT_THAT(refusal("/folders"), HasSubstr("train/empty: holds no files of points"));
  std::filesystem::remove(folder / "folders/train/empty");
  folder.write("folders/train/.notes", "");
  EXPECT_EQ(make_dataset("point_files", "{root: " + folder.path() + "/folders}")->info().classes,
            2);
  folder.write("folders/train/b.csv", "1,2,3\n");
  EXPECT_THAT(refusal("/folders"), HasSubstr("train/b.csv: is no folder, and folders are the "
                                             "classes; move it into the folder of its class"));
  folder.write("points/train/tree/b.xyz", "x y z i label\n1 2 3 0.5 0\n");
  EXPECT_THAT(refusal("/points, label: label, classes: [ground, tree], ignored: [9], grid: 100"),
              HasSubstr("train/tree: is a folder, and with the option `label` clouds are files"));
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

}  // namespace
}  // namespace attnlab::lidar_test
