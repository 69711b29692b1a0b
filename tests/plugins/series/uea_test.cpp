// The dataset of .ts files: scaling, gaps, padding, splits, and what it refuses.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "framework/data/loader.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::uea_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

std::string header(const std::string& labels = "@classLabel true a b", int channels = 2) {
  return "@dimensions " + std::to_string(channels) + "\n" + labels + "\n@data\n";
}

/// Three training series of lengths 3, 2, 4 and two test series of lengths 1, 3; two channels.
class UeaDataset : public ::testing::Test {
 protected:
  UeaDataset() {
    write("TRAIN", header() + "1,2,3:10,20,60:a\n4,8:30,40:b\n0,1,2,3:5,5,5,9:a\n");
    write("TEST", header("@classLabel true b a") + "7:70:b\n1,2,6:3,2,1:a\n");
  }

  std::string write(const std::string& part, const std::string& text) const {
    return folder_.write("Set/Set_" + part + ".ts", text);
  }
  std::shared_ptr<Dataset> open(const std::string& more = "", std::uint64_t seed = 0) const {
    return make_dataset("uea", "{name: Set, root: " + folder_.path() + more + "}", seed);
  }
  std::string refusal(const std::string& more = "") const {
    return message_of<DataError>([&] { open(more); });
  }
  static Batch batch_of(const Dataset& dataset, Split split) {
    std::vector<NamedTensors> examples;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      examples.push_back(dataset.example(split, i, nullptr));
    }
    return dataset.collate(examples);
  }

  testing::TempFolder folder_;
};

Tensor rows(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::kDouble).view({-1, 2});
}

/// All rows of a split's series, one below the other, in double.
Tensor all_rows(const Dataset& dataset, Split split) {
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    parts.push_back(dataset.example(split, i, nullptr).at("series").to(at::kDouble));
  }
  return at::cat(parts);
}

const std::vector<double> kTrain = {1, 10, 2, 20, 3, 60, 4, 30, 8, 40, 0, 5, 1, 5, 2, 5, 3, 9};
const std::vector<double> kTest = {7, 70, 1, 3, 2, 2, 6, 1};

void expect_near(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5);
}

TEST_F(UeaDataset, GivesEachSeriesWithItsLengthAndClass) {
  const auto dataset = open(", normalise: none");
  EXPECT_EQ(dataset->size(Split::train), 3);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  EXPECT_EQ(dataset->size(Split::test), 2);
  EXPECT_EQ(dataset->info().classes, 2);
  EXPECT_EQ(dataset->info().field("series").shape, (std::vector<std::int64_t>{-1, 2}));
  const NamedTensors one = dataset->example(Split::train, 1, nullptr);
  expect_near(one.at("series").to(at::kDouble), rows({4, 30, 8, 40}));
  EXPECT_EQ(one.at("length").item<std::int64_t>(), 2);
  EXPECT_EQ(one.at("class").item<std::int64_t>(), 1);
  expect_near(all_rows(*dataset, Split::train), rows(kTrain));
  // The test file lists its labels in another order: the training file's indices count.
  EXPECT_EQ(dataset->example(Split::test, 0, nullptr).at("class").item<std::int64_t>(), 1);
  EXPECT_EQ(dataset->example(Split::test, 1, nullptr).at("class").item<std::int64_t>(), 0);
}

TEST_F(UeaDataset, ScalesByTheTrainingSeries) {
  const auto dataset = open();
  const Tensor train = rows(kTrain);
  const Tensor mean = train.mean(0), deviation = train.std(0, /*unbiased=*/true);
  expect_near(all_rows(*dataset, Split::train), (train - mean) / deviation);
  expect_near(all_rows(*dataset, Split::test), (rows(kTest) - mean) / deviation);
}

TEST_F(UeaDataset, ScalesEachSplitByItselfAsPublished) {
  const auto dataset = open(", normalise: published");
  for (const Split split : {Split::train, Split::test}) {
    const Tensor raw = rows(split == Split::train ? kTrain : kTest);
    expect_near(all_rows(*dataset, split), (raw - raw.mean(0)) / raw.std(0, true));
  }
}

TEST_F(UeaDataset, DoesNotScaleByWhatIsHeldOut) {
  const auto dataset = open(", validation: 0.5");
  ASSERT_EQ(dataset->size(Split::train), 2);
  ASSERT_EQ(dataset->size(Split::validation), 1);
  const Tensor train = all_rows(*dataset, Split::train);
  EXPECT_LT(train.mean(0).abs().max().item<double>(), 1e-6);
  EXPECT_LT((train.std(0, true) - 1).abs().max().item<double>(), 1e-6);
}

TEST_F(UeaDataset, HoldsSomeOutWhereAShareIsAskedFor) {
  write("TRAIN", header() + "1:10:a\n2:20:b\n");
  EXPECT_THAT(message_of<Error>([&] { open(", validation: 0.5"); }),
              mentions("validation:", "no series"));
}

TEST_F(UeaDataset, ScalesSeriesByThemselvesOnRequest) {
  const auto dataset = open(", normalise: none, instance_norm: true");
  const Tensor raw = rows({1, 10, 2, 20, 3, 60});
  const Tensor centred = raw - raw.mean(0, true);
  const Tensor expected = centred / (centred.var(1, false, true) + 1e-5).sqrt();
  expect_near(dataset->example(Split::train, 0, nullptr).at("series").to(at::kDouble), expected);
}

TEST_F(UeaDataset, LeavesConstantChannelsAtZero) {
  write("TRAIN", header() + "0.1,0.1,0.1:1,2,3:a\n0.1:4:b\n");
  const Tensor train = all_rows(*open(), Split::train);
  EXPECT_LT(train.select(1, 0).abs().max().item<double>(), 1e-6);
}

TEST_F(UeaDataset, PadsABatchToItsLongestAndMarksWhatIsReal) {
  const auto dataset = open(", normalise: none");
  const Batch batch = batch_of(*dataset, Split::train);
  EXPECT_EQ(batch.size, 3);
  EXPECT_EQ(batch.fields.at("series").sizes(), (std::vector<std::int64_t>{3, 4, 2}));
  const Tensor valid = batch.fields.at("valid");
  EXPECT_TRUE(valid.sum(1).equal(batch.fields.at("length")));
  EXPECT_TRUE(valid.equal(at::arange(4) < batch.fields.at("length").unsqueeze(1)));
  const Tensor padding = batch.fields.at("series").masked_select(valid.logical_not().unsqueeze(-1));
  EXPECT_EQ(padding.numel(), 6);
  EXPECT_EQ(padding.abs().max().item<float>(), 0);
  EXPECT_EQ(batch_of(*dataset, Split::test).fields.at("series").size(1), 3);
  EXPECT_TRUE(batch.fields.at("class").equal(at::tensor(std::vector<std::int64_t>{0, 1, 0})));
}

TEST_F(UeaDataset, PadsToTheSetsLongestOnRequest) {
  const auto masked = open(", padding: maximum");
  EXPECT_EQ(masked->info().field("series").shape, (std::vector<std::int64_t>{4, 2}));
  const Batch test = batch_of(*masked, Split::test);
  EXPECT_EQ(test.fields.at("series").size(1), 4);
  EXPECT_EQ(test.fields.at("valid").sum().item<std::int64_t>(), 4);

  const auto published = open(", padding: published");
  EXPECT_THROW(published->info().field("valid"), DataError);
  const Batch unmarked = batch_of(*published, Split::test);
  EXPECT_EQ(unmarked.fields.find("valid"), nullptr);
  EXPECT_TRUE(unmarked.fields.at("series").equal(test.fields.at("series")));
}

TEST_F(UeaDataset, MarksNothingWhereAllAreOfOneLength) {
  write("TRAIN", header() + "1,2:3,4:a\n5,6:7,8:b\n");
  write("TEST", header() + "1,2:3,4:a\n");
  const auto dataset = open();
  EXPECT_EQ(dataset->info().field("series").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(batch_of(*dataset, Split::train).fields.find("valid"), nullptr);
}

TEST_F(UeaDataset, FillsGapsAlongTime) {
  write("TRAIN", header() + "?,2,?,?,5,?:1,2,3,4,5,6:a\n1,2:7:b\n:1,2:a\n");
  const auto dataset = open(", normalise: none");
  const auto channel = [&](std::int64_t index, std::int64_t c) {
    return dataset->example(Split::train, index, nullptr).at("series").select(1, c);
  };
  EXPECT_TRUE(channel(0, 0).equal(at::tensor(std::vector<float>{2, 2, 3, 4, 5, 5})));
  EXPECT_TRUE(channel(1, 1).equal(at::tensor(std::vector<float>{7, 7}))) << "a shorter channel";
  // A channel without any value: the mean of that channel, here of 2 2 3 4 5 5 1 2.
  EXPECT_TRUE(channel(2, 0).equal(at::tensor(std::vector<float>{3, 3})));
}

TEST_F(UeaDataset, FillsGapsByTheMeanOrRefusesThem) {
  const std::string path = write("TRAIN", header() + "?,2,4:1,2,3:a\n6:7:b\n");
  EXPECT_EQ(open(", normalise: none, missing: mean")
                ->example(Split::train, 0, nullptr)
                .at("series")[0][0]
                .item<float>(),
            4);
  EXPECT_EQ(
      open(", missing: mean")->example(Split::train, 0, nullptr).at("series")[0][0].item<float>(),
      0);
  EXPECT_THAT(refusal(", missing: refuse"),
              AllOf(HasSubstr(path), HasSubstr("1 values are missing and 0 channels"),
                    HasSubstr("interpolate")));
}

TEST_F(UeaDataset, HoldsOutTheSameShareOfEveryClass) {
  std::string text = header("@classLabel true a b c", 1);
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ":" + (i < 10 ? "a" : "b") + "\n";
  text += "20:c\n";
  write("TRAIN", text);
  write("TEST", header("@classLabel true a b c", 1) + "1:a\n");
  const auto values = [&](const Dataset& dataset, Split split) {
    std::set<int> found;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      found.insert(int(dataset.example(split, i, nullptr).at("series").item<float>()));
    }
    return found;
  };
  const auto first = open(", normalise: none, validation: 0.3", 1);
  const std::set<int> held = values(*first, Split::validation);
  std::set<int> all = values(*first, Split::train);
  EXPECT_EQ(held.size(), 6U);
  EXPECT_EQ(std::distance(held.begin(), held.lower_bound(10)), 3);
  EXPECT_EQ(held.count(20), 0U) << "the only series of its class is for training";
  EXPECT_EQ(all.size(), 15U);
  all.insert(held.begin(), held.end());
  EXPECT_EQ(all.size(), 21U);
  EXPECT_EQ(values(*open(", normalise: none, validation: 0.3", 1), Split::validation), held);
  EXPECT_NE(values(*open(", normalise: none, validation: 0.3", 2), Split::validation), held);
}

TEST_F(UeaDataset, GivesTargetsOfRegressionSets) {
  write("TRAIN", header("@targetLabel true") + "1:2:0.5\n3,4:5,6:-2\n");
  write("TEST", header("@targetLabel true") + "1:2:8\n");
  const auto dataset = open();
  EXPECT_EQ(dataset->info().classes, 0);
  EXPECT_EQ(dataset->example(Split::test, 0, nullptr).at("target").item<float>(), 8);
  EXPECT_TRUE(batch_of(*dataset, Split::train)
                  .fields.at("target")
                  .equal(at::tensor(std::vector<float>{0.5, -2})));
  EXPECT_THAT(message_of<DataError>(
                  [&] { testing::make_task("sequence_classification", dataset->info()); }),
              HasSubstr("no classes"));
}

TEST_F(UeaDataset, RefusesTargetsThatDoNotFitInFloat32) {
  write("TRAIN", header("@targetLabel true") + "1:2:0.5\n3,4:5,6:-2\n");
  const std::string path = write("TEST", header("@targetLabel true") + "1:2:1e300\n");
  EXPECT_THAT(refusal(), mentions(path, ":4:5:", "'1e300'", "float32"));
}

TEST_F(UeaDataset, RefusesFilesThatDoNotBelongTogether) {
  const std::string path = write("TEST", header("@classLabel true a b", 3) + "1:2:3:a\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("3 channels"), HasSubstr("2")));
  write("TEST", header("@targetLabel true") + "1:2:3\n");
  EXPECT_THAT(refusal(), HasSubstr("other labels"));
  write("TEST", header("@classLabel true a bb") + "1:2:bb\n");
  EXPECT_THAT(refusal(), mentions("'bb'", "training file"));
  write("TEST", header() + "1:2\n");
  EXPECT_THAT(refusal(), HasSubstr(path + ":4:4: "));
}

TEST_F(UeaDataset, RefusesATableOfMissingValuesAlone) {
  constexpr int kChannels = 9000;
  std::string data;
  for (int t = 0; t < kChannels; ++t) data += t == 0 ? "1" : ",1";
  for (int c = 1; c < kChannels; ++c) data += ":1";
  const std::string path =
      write("TRAIN", header("@classLabel true a b", kChannels) + data + ":a\n");
  write("TEST", header("@classLabel true a b", kChannels) + data + ":a\n");
  EXPECT_THAT(refusal(", missing: mean"),
              mentions(path, "17999 values", "9000 steps of 9000 channels"));
}

TEST_F(UeaDataset, SaysWhereItLookedForData) {
  const std::string message = message_of<DataMissingError>(
      [&] { make_dataset("uea", "{name: Absent, root: " + folder_.path() + "}"); });
  EXPECT_THAT(message, AllOf(HasSubstr(folder_.path() + "/Absent"),
                             HasSubstr("timeseriesclassification.com"), HasSubstr("Absent")));
  EXPECT_THAT(message_of<ConfigError>([] { make_dataset("uea", "{name: a/b}"); }),
              HasSubstr("name of a set"));
}

TEST_F(UeaDataset, ChangesItsFingerprintWithEitherFile) {
  const std::string before = open()->info().fingerprint;
  EXPECT_EQ(open()->info().fingerprint, before);
  write("TEST", header() + "7:71:b\n");
  EXPECT_NE(open()->info().fingerprint, before);
}

// The sets of the archive that stand below $ATTNLAB_DATA.
TEST(UeaArchive, HasThePublishedSizes) {
  struct Size {
    const char *archive, *name;
    std::int64_t train, test, channels, length, classes;  ///< length -1: unequal
  };
  const char* home = std::getenv("ATTNLAB_DATA");
  if (home == nullptr) GTEST_SKIP() << "ATTNLAB_DATA is not set";
  int seen = 0;
  for (const Size& size :
       {Size{"uea", "JapaneseVowels", 270, 370, 12, -1, 9},
        Size{"uea", "Handwriting", 150, 850, 3, 152, 26},
        Size{"uea", "BasicMotions", 40, 40, 6, 100, 4}, Size{"ucr", "GunPoint", 50, 150, 1, 150, 2},
        Size{"ucr", "ItalyPowerDemand", 67, 1029, 1, 24, 2},
        Size{"ucr", "PLAID", 537, 537, 1, -1, 11}}) {
    if (!std::filesystem::exists(std::string(home) + "/" + size.archive + "/" + size.name))
      continue;
    ++seen;
    const auto dataset = make_dataset(
        "uea", std::string("{name: ") + size.name + ", archive: " + size.archive + "}");
    EXPECT_EQ(dataset->size(Split::train), size.train) << size.name;
    EXPECT_EQ(dataset->size(Split::test), size.test) << size.name;
    EXPECT_EQ(dataset->info().classes, size.classes) << size.name;
    EXPECT_EQ(dataset->info().field("series").shape,
              (std::vector<std::int64_t>{size.length, size.channels}))
        << size.name;
  }
  if (seen == 0) GTEST_SKIP() << "no set of the archive is in " << home;
}

}  // namespace
}  // namespace attnlab::uea_test
