// KITTI: boxes as labels, lists of frames, damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <limits>

#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::kitti_test {
namespace {

using attnlab::testing::mentions;
using testing::at_root;
using testing::floats;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::write_kitti;

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
  EXPECT_THAT(refusal("velodyne/000000.bin", ""), mentions("000000.bin:", "0 bytes"));
  EXPECT_THAT(refusal("velodyne/000000.bin", "abc"), HasSubstr("no whole points of 16 bytes"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal("velodyne/000000.bin", floats({nan, 1, 1, 1})),
              mentions("no point", "finite"));
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
      mentions("000001.bin:", "1073741840 bytes", "cut it into smaller scans"));
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
              mentions("frame 000001", "ImageSets/train.txt", "test_frames"));
  folder.write("kitti/ImageSets/val.txt", "000000\n");
  EXPECT_THAT(refusal(", train_frames: ['000000']"),
              mentions("frame 000000", "train_frames", "ImageSets/val.txt"));
}

TEST(Kitti, RefusesAFrameThatIsListedTwice) {
  const TempFolder folder;
  write_kitti(folder, "kitti");
  folder.write("kitti/ImageSets/train.txt", "000000\n000000\n");
  EXPECT_THAT(
      message_of<DataError>([&] { make_dataset("kitti", "{root: " + folder.path() + "/kitti}"); }),
      mentions("frame 000000 stands twice", "ImageSets/train.txt"));
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
              mentions("000000.txt:2:", "'Cra'", "(Car, Van,", "write Misc"));
}

}  // namespace
}  // namespace attnlab::kitti_test
