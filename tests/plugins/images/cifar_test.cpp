#include <cstdlib>
#include <filesystem>

#include "framework/data/image/corruption.h"
#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::cifar_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::TempFolder;
using testing::test_pixel;

/// Records first, first + 1, ... with label(s) `i % classes` and the pixels of image i.
std::string records(std::size_t first, std::size_t count, bool coarse_label = false) {
  std::string bytes;
  for (std::size_t i = first; i < first + count; ++i) {
    if (coarse_label) bytes += static_cast<char>(i % 20);
    bytes += static_cast<char>(i % (coarse_label ? 100 : 10));
    for (std::size_t k = 0; k < 3072; ++k) bytes += static_cast<char>(test_pixel(i, k));
  }
  return bytes;
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() {
    folder.write("data_batch_1.bin", records(0, 8));
    folder.write("test_batch.bin", records(100, 5));
  }

  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return made("batches: [1], partial: true" + more);
  }
  std::shared_ptr<Dataset> made(const std::string& options) const {
    return make_dataset("attnlab/cifar", "{root: " + folder.path() + ", " + options + "}");
  }
  std::string refusal(const std::string& file, const std::string& bytes) const {
    const std::string path = folder.write(file, bytes);
    const std::string message = message_of<DataError>([&] { open(); });
    EXPECT_THAT(message, HasSubstr(path));
    return message;
  }

  TempFolder folder;
};

void expect_image(const Dataset& dataset, Split split, std::int64_t index, std::size_t image,
                  const std::vector<double>& mean, const std::vector<double>& deviation) {
  const Tensor found = dataset.example(split, index, nullptr).at("image");
  ASSERT_EQ(found.sizes(), (std::vector<std::int64_t>{3, 32, 32}));
  for (std::size_t k = 0; k < 3072; ++k) {
    const std::size_t channel = k / 1024;
    ASSERT_NEAR(found.data_ptr<float>()[k],
                (test_pixel(image, k) / 255.0 - mean[channel]) / deviation[channel], 2e-6)
        << k;
  }
}

TEST_F(Cifar, IsCorruptedAsItIsOpened) {
  const auto clean = open(), snowy = open(", corruption: snow, severity: 2");
  const auto image = [](const Dataset& dataset, Split split, std::int64_t index) {
    return dataset.example(split, index, nullptr).at("image");
  };
  EXPECT_FALSE(image(*clean, Split::test, 3).equal(image(*snowy, Split::test, 3)));
  EXPECT_TRUE(image(*clean, Split::train, 3).equal(image(*snowy, Split::train, 3)));
  EXPECT_NE(clean->info().fingerprint, snowy->info().fingerprint);
  EXPECT_EQ(clean->info().fields[0].mean, snowy->info().fields[0].mean);
  // What is drawn depends on the image, not on how many there are.
  const auto few = open(", corruption: snow, severity: 2, test_limit: 4");
  EXPECT_TRUE(image(*few, Split::test, 3).equal(image(*snowy, Split::test, 3)));
  const auto all = open(", corruption: snow, severity: 2, corrupted: all");
  EXPECT_FALSE(image(*clean, Split::train, 3).equal(image(*all, Split::train, 3)));
  EXPECT_TRUE(image(*all, Split::test, 3).equal(image(*snowy, Split::test, 3)));
}

// The public code draws a cloud for each of the 50,000 training images first: what part of them is
// read, or how much of a file, changes no image's cloud.
TEST_F(Cifar, CountsCloudsByThePublishedSet) {
  folder.write("data_batch_3.bin", records(8, 4));
  CorruptionOptions options;
  options.corruption = "fog";
  options.severity = 5;
  options.constants = "yam";
  const Corruption fog(options, 32, 32, 50005);
  const auto expected = [&](std::size_t record, std::int64_t number) {
    Pixels image(32, 32, 3);
    for (std::size_t k = 0; k < 3072; ++k) {
      image.bytes[(k % 1024) * 3 + k / 1024] = static_cast<std::uint8_t>(test_pixel(record, k));
    }
    fog.apply(image, number);
    return image;
  };
  const auto foggy = made(
      "batches: [3, 1], partial: true, corruption: fog, severity: 5, corruption_constants: yam, "
      "corrupted: all, mean: [0, 0, 0], std: [1, 1, 1]");
  const auto check = [&](Split split, std::int64_t index, const Pixels& image) {
    const Tensor found = foggy->example(split, index, nullptr).at("image");
    for (std::size_t k = 0; k < 3072; ++k) {
      ASSERT_NEAR(found.data_ptr<float>()[k] * 255, image.bytes[(k % 1024) * 3 + k / 1024], 1e-3)
          << k;
    }
  };
  check(Split::test, 2, expected(102, 50002));
  check(Split::train, 1, expected(9, 20001));
  check(Split::train, 5, expected(1, 1));
}

TEST_F(Cifar, GivesTheBatchesThatAreNamedOneAfterAnother) {
  folder.write("data_batch_3.bin.gz", gzipped(records(8, 4)));
  folder.write("data_batch_5.bin", records(12, 1));
  folder.write("data_batch_2.bin", records(0, 7));  // not named
  const auto dataset = made("batches: [1, 3, 5], partial: true");
  EXPECT_EQ(dataset->info().name, "cifar-10");
  EXPECT_EQ(dataset->info().classes, 10);
  EXPECT_TRUE(dataset->info().class_names.empty());
  ASSERT_EQ(dataset->size(Split::train), 13);
  ASSERT_EQ(dataset->size(Split::test), 5);
  const std::vector<double> mean = {.4914, .4822, .4465}, deviation = {.2470, .2435, .2616};
  for (std::int64_t i = 0; i < 13; ++i) {
    EXPECT_EQ(dataset->example(Split::train, i, nullptr).at("class").item<std::int64_t>(), i % 10);
    expect_image(*dataset, Split::train, i, std::size_t(i), mean, deviation);
  }
  expect_image(*dataset, Split::test, 4, 104, mean, deviation);
}

TEST_F(Cifar, GivesTheFineClassesOfCifar100) {
  const TempFolder hundred;
  hundred.write("train.bin", records(90, 15, true));
  hundred.write("test.bin", records(3, 2, true));
  const auto dataset =
      make_dataset("attnlab/cifar", "{classes: 100, partial: true, root: " + hundred.path() + "}");
  EXPECT_EQ(dataset->info().name, "cifar-100");
  EXPECT_EQ(dataset->info().classes, 100);
  ASSERT_EQ(dataset->size(Split::train), 15);
  EXPECT_EQ(dataset->example(Split::train, 9, nullptr).at("class").item<std::int64_t>(), 99);
  EXPECT_EQ(dataset->example(Split::train, 12, nullptr).at("class").item<std::int64_t>(), 2);
  expect_image(*dataset, Split::train, 12, 102, {.5071, .4867, .4408}, {.2675, .2565, .2761});

  std::string damaged = records(0, 4, true);
  damaged[3074 * 2] = 20;
  const std::string path = hundred.write("train.bin", damaged);
  EXPECT_THAT(message_of<DataError>([&] {
                make_dataset("attnlab/cifar", "{classes: 100, root: " + hundred.path() + "}");
              }),
              AllOf(HasSubstr(path), HasSubstr("record 2"), HasSubstr("byte 6148"),
                    HasSubstr("label 20"), HasSubstr("20 classes")));
}

TEST_F(Cifar, ReadsClassNamesWhereTheyAre) {
  std::string names;
  for (int i = 0; i < 10; ++i) names += "name " + std::to_string(i) + "\r\n";
  folder.write("batches.meta.txt", names + "\n");
  EXPECT_EQ(open()->info().class_names.at(7), "name 7");
  folder.write("batches.meta.txt", testing::marked(names));
  EXPECT_EQ(open()->info().class_names.at(0), "name 0");
  EXPECT_THAT(refusal("batches.meta.txt", testing::utf16(names)),
              mentions("batches.meta.txt:", "UTF-16", "convert"));
  EXPECT_THAT(refusal("batches.meta.txt", "one\ntwo\n"),
              AllOf(HasSubstr("2 classes"), HasSubstr("not 10")));
}

TEST_F(Cifar, HoldsOutLimitsAndAugments) {
  const auto dataset = open(", train_limit: 6, test_limit: 2, validation: 2");
  EXPECT_EQ(dataset->size(Split::train), 4);
  EXPECT_EQ(dataset->size(Split::validation), 2);
  EXPECT_EQ(dataset->size(Split::test), 2);
  const auto augmented = open(", augmentation: {crop_padding: 4, flip: true}");
  Random random(3);
  EXPECT_FALSE(augmented->example(Split::train, 0, &random)
                   .at("image")
                   .equal(augmented->example(Split::train, 0, nullptr).at("image")));
}

TEST_F(Cifar, RefusesFilesThatAreNoWholeNumberOfRecords) {
  const std::string whole = records(0, 8);
  EXPECT_THAT(refusal("data_batch_1.bin", whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("24583 bytes"), HasSubstr("3073"), HasSubstr("7 and 3072")));
  EXPECT_THAT(refusal("data_batch_1.bin", whole + "x"), HasSubstr("8 and 1"));
  EXPECT_THAT(refusal("data_batch_1.bin", ""), HasSubstr("0 bytes"));
  folder.write("data_batch_1.bin", whole);
  EXPECT_THAT(refusal("test_batch.bin", "x"), HasSubstr("0 and 1"));
}

TEST_F(Cifar, RefusesToTrainOnPartOfTheSetUnlessToldTo) {
  folder.write("data_batch_4.bin.gz", gzipped(records(0, 8)));
  EXPECT_THAT(message_of<DataMissingError>([&] { made("partial: true"); }),
              AllOf(HasSubstr("lacks data_batch_2.bin, data_batch_3.bin, data_batch_5.bin; "),
                    HasSubstr("cifar.html"), HasSubstr("batches: [1]")));
  EXPECT_EQ(made("batches: [1, 4], partial: true")->size(Split::train), 16);
  EXPECT_THAT(message_of<DataError>([&] { made("batches: [1]"); }),
              mentions("data_batch_1.bin:", "8 images", "10000", "partial: true"));
}

TEST_F(Cifar, RefusesAFileWithMoreThanThePublishedOne) {
  std::string many;
  for (int i = 0; i < 10001; ++i) many += '\1' + std::string(3072, 'p');
  EXPECT_THAT(refusal("test_batch.bin", many), HasSubstr("10001 images, the published file 10000"));
  EXPECT_THAT(refusal("test_batch.bin", gzipped(many)), HasSubstr("gzip stream goes on"));
}

TEST_F(Cifar, RefusesBatchesWithoutMeaning) {
  EXPECT_THAT(message_of<ConfigError>([&] { made("batches: [1, 1]"); }), HasSubstr("twice"));
  EXPECT_THAT(message_of<ConfigError>([&] { made("batches: []"); }), HasSubstr("no file"));
  EXPECT_THAT(message_of<ConfigError>([&] { made("batches: [6]"); }), HasSubstr("batches"));
  EXPECT_THAT(message_of<ConfigError>([&] { made("classes: 100, batches: [1]"); }),
              HasSubstr("one training file"));
}

TEST_F(Cifar, RefusesGzipThatIsCutOff) {
  const std::string packed = gzipped(records(0, 8));
  EXPECT_THAT(refusal("data_batch_1.bin", packed.substr(0, packed.size() / 2)),
              HasSubstr("cut off at byte " + std::to_string(packed.size() / 2)));
}

TEST_F(Cifar, RefusesLabelsOutOfRangeAndSaysWhere) {
  std::string damaged = records(0, 8);
  damaged[3073 * 5] = 10;
  EXPECT_THAT(refusal("data_batch_1.bin", damaged),
              AllOf(HasSubstr("record 5"), HasSubstr("byte 15365"), HasSubstr("label 10"),
                    HasSubstr("0 to 9")));
}

TEST_F(Cifar, SaysWhatIsMissingAndHowToGetIt) {
  std::filesystem::remove(folder / "data_batch_1.bin");
  EXPECT_THAT(
      message_of<DataMissingError>([&] { open(); }),
      AllOf(HasSubstr(folder.path()), HasSubstr("data_batch_1.bin"), HasSubstr("cifar.html")));
  std::filesystem::remove(folder / "test_batch.bin");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }),
              AllOf(HasSubstr(folder.path() + ": lacks test_batch.bin"),
                    HasSubstr("cifar-10-batches-bin"), HasSubstr("cifar.html")));
}

TEST_F(Cifar, NamesFilesThatCannotBeRead) {
  const std::string path = folder / "data_batch_2.bin";
  std::filesystem::create_directory(path);
  EXPECT_THAT(message_of<FileError>([&] { made("batches: [1, 2], partial: true"); }),
              HasSubstr(path));
}

TEST_F(Cifar, ExistsWithTenOrAHundredClasses) {
  EXPECT_THAT(message_of<ConfigError>([&] { open(", classes: 20"); }),
              AllOf(HasSubstr("classes"), HasSubstr("20"), HasSubstr("10 or 100")));
}

TEST(Cifar10, IsReadFromItsOfficialFiles) {
  const char* data = std::getenv("ATTNLAB_DATA");
  const std::string folder = std::string(data ? data : "") + "/cifar-10-batches-bin";
  if (data == nullptr || !std::filesystem::exists(folder)) {
    GTEST_SKIP() << "needs $ATTNLAB_DATA/cifar-10-batches-bin";
  }
  const auto dataset = make_dataset("attnlab/cifar", "{batches: [1], partial: true}");
  EXPECT_EQ(dataset->info().source, folder);
  EXPECT_EQ(dataset->info().class_names.at(0), "airplane");
  ASSERT_GE(dataset->size(Split::train), 10000);
  std::vector<int> counts(10);
  Tensor sum = at::zeros({3}, at::kDouble), squares = at::zeros({3}, at::kDouble);
  for (std::int64_t i = 0; i < 10000; ++i) {
    const NamedTensors example = dataset->example(Split::train, i, nullptr);
    ++counts.at(std::size_t(example.at("class").item<std::int64_t>()));
    const Tensor image = example.at("image").to(at::kDouble).flatten(1);
    sum += image.mean(1);
    squares += (image * image).mean(1);
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 100);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sum[c].item<double>() / 10000, 0, 0.03);
    EXPECT_NEAR(squares[c].item<double>() / 10000, 1, 0.05);
  }
}

}  // namespace
}  // namespace attnlab::cifar_test
