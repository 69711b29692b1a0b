#include <filesystem>
#include <set>

#include "framework/base/random.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::idx_images_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::idx_file;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::test_pixel;

constexpr std::uint32_t kRows = 5, kColumns = 4;

std::string images_file(std::uint32_t count) {
  std::string pixels;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kRows * kColumns; ++k) {
      pixels += static_cast<char>(test_pixel(i, k));
    }
  }
  return idx_file({count, kRows, kColumns}, pixels);
}

std::string labels_file(std::uint32_t count) {
  std::string labels;
  for (std::uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  return idx_file({count}, labels);
}

/// A whole dataset in a folder: 20 training images, 12 test images.
class IdxImages : public ::testing::Test {
 protected:
  IdxImages() {
    folder.write("train-images-idx3-ubyte", images_file(20));
    folder.write("train-labels-idx1-ubyte", labels_file(20));
    folder.write("t10k-images-idx3-ubyte", images_file(12));
    folder.write("t10k-labels-idx1-ubyte", labels_file(12));
  }

  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return make_dataset("attnlab/idx_images", "{root: " + folder.path() + more + "}");
  }

  /// The refusal of the dataset after one file was replaced; it must name that file.
  std::string refusal(const std::string& file, const std::string& bytes) const {
    const std::string path = folder.write(file, bytes);
    const std::string message = message_of<DataError>([&] { open(); });
    EXPECT_THAT(message, HasSubstr(path));
    return message;
  }

  TempFolder folder;
};

TEST_F(IdxImages, GivesTheImagesAndLabelsOfTheFiles) {
  const auto dataset = open(", name: toy, mean: [0.5], std: [0.25]");
  EXPECT_EQ(dataset->info().name, "toy");
  EXPECT_EQ(dataset->info().classes, 10);
  EXPECT_EQ(dataset->info().source, folder.path());
  EXPECT_EQ(dataset->info().field("image").shape, (std::vector<std::int64_t>{1, kRows, kColumns}));
  ASSERT_EQ(dataset->size(Split::train), 20);
  ASSERT_EQ(dataset->size(Split::test), 12);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  for (std::int64_t i = 0; i < 12; ++i) {
    const NamedTensors example = dataset->example(Split::test, i, nullptr);
    EXPECT_EQ(example.at("class").item<std::int64_t>(), i % 10);
    const Tensor pixels = example.at("image").flatten();
    for (std::int64_t k = 0; k < pixels.size(0); ++k) {
      ASSERT_NEAR(pixels[k].item<double>(),
                  (test_pixel(std::size_t(i), std::size_t(k)) / 255.0 - 0.5) / 0.25, 1e-6);
    }
  }
}

TEST_F(IdxImages, OfOneLevelHaveNoDeviationToDivideBy) {
  // Of some levels rounding leaves a variance above 0.
  for (const int level : {0, 5, 41, 59, 255}) {
    folder.write("train-images-idx3-ubyte",
                 idx_file({20, kRows, kColumns},
                          std::string(20 * kRows * kColumns, static_cast<char>(level))));
    const auto dataset = open(", name: grey");
    EXPECT_EQ(dataset->info().field("image").deviation, std::vector<double>{1}) << level;
  }
}

TEST_F(IdxImages, AreNotGuessedWhereTheRootHoldsTwoSets) {
  for (const char* prefix : {"train", "t10k"}) {
    folder.write(std::string("fashion-mnist/") + prefix + "-images-idx3-ubyte", images_file(7));
    folder.write(std::string("fashion-mnist/") + prefix + "-labels-idx1-ubyte", labels_file(7));
  }
  EXPECT_THAT(message_of<ConfigError>([&] { open(); }), mentions("/fashion-mnist", "set it to"));
  EXPECT_EQ(open(", name: toy")->size(Split::train), 20);
}

TEST_F(IdxImages, ReadsGzippedFilesAlike) {
  const auto plain = open();
  const TempFolder packed;
  for (const char* prefix : {"train", "t10k"}) {
    const std::uint32_t count = std::string(prefix) == "train" ? 20 : 12;
    packed.write(std::string(prefix) + "-images-idx3-ubyte.gz", gzipped(images_file(count)));
    packed.write(std::string(prefix) + "-labels-idx1-ubyte.gz", gzipped(labels_file(count)));
  }
  const auto dataset = make_dataset("attnlab/idx_images", "{root: " + packed.path() + "}");
  EXPECT_EQ(dataset->info().fingerprint, plain->info().fingerprint);
  EXPECT_TRUE(dataset->example(Split::train, 19, nullptr)
                  .at("image")
                  .equal(plain->example(Split::train, 19, nullptr).at("image")));
}

TEST_F(IdxImages, KnowsClassNamesAndNormalisationOfItsTwoDatasets) {
  EXPECT_EQ(open(", name: fashion-mnist")->info().class_names.at(9), "ankle boot");
  EXPECT_EQ(open(", name: mnist")->info().class_names.at(9), "9");
  EXPECT_TRUE(open(", name: toy")->info().class_names.empty());
  const auto first = [](const Dataset& dataset) {
    return dataset.example(Split::train, 0, nullptr).at("image").flatten()[0].item<double>();
  };
  const double level = test_pixel(0, 0) / 255.0;
  EXPECT_NEAR(first(*open(", name: fashion-mnist")), (level - 0.2860) / 0.3530, 1e-6);
  EXPECT_NEAR(first(*open(", name: mnist")), (level - 0.1307) / 0.3081, 1e-6);
}

TEST_F(IdxImages, HoldsOutAndLimits) {
  const auto dataset = open(", train_limit: 10, test_limit: 4, validation: 0.3");
  EXPECT_EQ(dataset->size(Split::train), 7);
  EXPECT_EQ(dataset->size(Split::validation), 3);
  EXPECT_EQ(dataset->size(Split::test), 4);
  const auto refused = [&](const std::string& validation) {
    return message_of<Error>([&] { open(", train_limit: 8, validation: " + validation); });
  };
  EXPECT_THAT(refused("0.01"), mentions("validation:", "0.01 of 8", "0.0625"));
  EXPECT_THAT(refused("0.99"), HasSubstr("none of the 8"));
  EXPECT_THAT(refused("9"), mentions("9 is more than", "8"));
}

TEST_F(IdxImages, AugmentsTrainingImages) {
  const auto dataset = open(", augmentation: {crop_padding: 2, flip: true}");
  std::set<double> sums;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const Tensor image = dataset->example(Split::train, 0, &random).at("image");
    sums.insert((image.flatten() * at::arange(20)).sum().item<double>());
  }
  EXPECT_GT(sums.size(), 20U);
}

TEST_F(IdxImages, RefusesAnotherMagicNumber) {
  EXPECT_THAT(refusal("train-images-idx3-ubyte", labels_file(20)),
              AllOf(HasSubstr("0x00000801"), HasSubstr("0x00000803"), HasSubstr("images")));
  folder.write("train-images-idx3-ubyte", images_file(20));
  std::string labels = labels_file(20);
  labels[2] = 0x0d;  // IDX files of floats
  EXPECT_THAT(refusal("train-labels-idx1-ubyte", labels),
              AllOf(HasSubstr("0x00000d01"), HasSubstr("0x00000801"), HasSubstr("labels")));
}

TEST_F(IdxImages, RefusesFilesThatAreCutOff) {
  const std::string whole = images_file(12);
  EXPECT_THAT(refusal("t10k-images-idx3-ubyte", whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("12 x 5 x 4"), HasSubstr("239 follow"), HasSubstr("fetch")));
  EXPECT_THAT(refusal("t10k-images-idx3-ubyte", whole.substr(0, 15)), HasSubstr("15 bytes"));
  EXPECT_THAT(refusal("t10k-images-idx3-ubyte", ""), HasSubstr("0 bytes"));
  folder.write("t10k-images-idx3-ubyte", whole);
  EXPECT_THAT(refusal("t10k-labels-idx1-ubyte", labels_file(12).substr(0, 19)),
              HasSubstr("11 follow"));
}

TEST_F(IdxImages, RefusesGzipThatIsCutOffOrDamaged) {
  std::string packed = gzipped(images_file(20));
  EXPECT_THAT(refusal("train-images-idx3-ubyte", packed.substr(0, packed.size() / 2)),
              HasSubstr("cut off at byte " + std::to_string(packed.size() / 2)));
  packed[packed.size() / 2] = static_cast<char>(~packed[packed.size() / 2]);
  EXPECT_THAT(refusal("train-images-idx3-ubyte", packed), HasSubstr("damaged"));
}

TEST_F(IdxImages, RefusesTrailingBytes) {
  EXPECT_THAT(refusal("train-images-idx3-ubyte", images_file(20) + "x"), HasSubstr("401 follow"));
  folder.write("train-images-idx3-ubyte", images_file(20));
  EXPECT_THAT(refusal("train-labels-idx1-ubyte", labels_file(20) + "x"), HasSubstr("21 follow"));
}

// A bomb ends there, whatever the stream would still make.
TEST_F(IdxImages, ReadsNoMoreOfGzipThanTheHeaderPromises) {
  const std::string bomb(1'000'000, 'x');
  EXPECT_THAT(refusal("train-images-idx3-ubyte", gzipped(images_file(20) + bomb)),
              HasSubstr("gzip stream goes on"));
  folder.write("train-images-idx3-ubyte", images_file(20));
  EXPECT_THAT(refusal("train-labels-idx1-ubyte", gzipped(labels_file(20) + bomb)),
              HasSubstr("gzip stream goes on"));
}

TEST_F(IdxImages, RefusesImagesAndLabelsThatDisagreeInNumber) {
  EXPECT_THAT(refusal("train-labels-idx1-ubyte", labels_file(19)),
              AllOf(HasSubstr("19 labels"), HasSubstr("20 images"), HasSubstr("train-images")));
}

TEST_F(IdxImages, RefusesLabelsOutOfRangeAndSaysWhere) {
  std::string labels = labels_file(20);
  labels[8 + 13] = 10;
  EXPECT_THAT(refusal("train-labels-idx1-ubyte", labels),
              AllOf(HasSubstr("record 13"), HasSubstr("byte 21"), HasSubstr("label 10"),
                    HasSubstr("10 classes")));
  EXPECT_EQ(open(", classes: 11")->info().classes, 11);
}

TEST_F(IdxImages, RefusesSizesThatNoFileCanHave) {
  const auto image_sizes = [&](const std::vector<std::uint32_t>& sizes) {
    return refusal("train-images-idx3-ubyte", idx_file(sizes, "1234"));
  };
  EXPECT_THAT(image_sizes({0xffffffff, 0xffffffff, 0xffffffff}), HasSubstr("4 follow"));
  EXPECT_THAT(image_sizes({1U << 31, 1U << 31, 1U << 3}), HasSubstr("4 follow"));
  EXPECT_THAT(refusal("train-images-idx3-ubyte", idx_file({20, 0, 4}, "")), HasSubstr("no pixels"));
}

TEST_F(IdxImages, RefusesASplitWithoutImages) {
  folder.write("t10k-labels-idx1-ubyte", labels_file(0));
  folder.write("t10k-images-idx3-ubyte", images_file(0));
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("test"), HasSubstr("no images")));
}

TEST_F(IdxImages, RefusesTestImagesOfAnotherSize) {
  folder.write("t10k-images-idx3-ubyte", idx_file({12, 2, 2}, std::string(48, 'x')));
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("5 x 4"), HasSubstr("2 x 2")));
}

TEST_F(IdxImages, NamesFilesThatCannotBeRead) {
  const std::string path = folder / "train-labels-idx1-ubyte";
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(message_of<FileError>([&] { open(); }), HasSubstr(path));
}

TEST_F(IdxImages, SaysWhatIsMissingAndHowToGetIt) {
  std::filesystem::remove(folder / "t10k-labels-idx1-ubyte");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(", name: fashion-mnist"); }),
              AllOf(HasSubstr(folder.path() + ": lacks t10k-labels-idx1-ubyte"),
                    HasSubstr("dataset-fashion-mnist")));
}

TEST(FashionMnist, IsReadFromItsDebianPackage) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  }
  const auto dataset = make_dataset("attnlab/idx_images", "{name: fashion-mnist}");
  ASSERT_EQ(dataset->size(Split::train), 60000);
  ASSERT_EQ(dataset->size(Split::test), 10000);
  std::vector<int> counts(10);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 60000; ++i) {
    const NamedTensors example = dataset->example(Split::train, i, nullptr);
    ++counts.at(std::size_t(*example.at("class").data_ptr<std::int64_t>()));
    const float* pixel = example.at("image").data_ptr<float>();
    for (int k = 0; k < 784; ++k) {
      sum += pixel[k];
      squares += double(pixel[k]) * pixel[k];
    }
  }
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
  EXPECT_NEAR(sum / 60000 / 784, 0, 1e-3);
  EXPECT_NEAR(squares / 60000 / 784, 1, 2e-3);
  const std::int64_t first =
      dataset->example(Split::test, 0, nullptr).at("class").item<std::int64_t>();
  EXPECT_EQ(dataset->info().class_names.at(std::size_t(first)), "ankle boot");
}

}  // namespace
}  // namespace attnlab::idx_images_test
