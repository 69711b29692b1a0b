// The revisited Oxford and Paris: what is read of their ground truth, how pictures are shown, and
// what is refused before anything runs.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "framework/data/image/png.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/kept_contract.h"
#include "tests/support/pickles.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::oxford_paris_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using namespace testing::pickles;

Pixels picture(std::int64_t height, std::int64_t width, int seed) {
  Pixels image(height, width, 3);
  for (std::size_t i = 0; i < image.bytes.size(); ++i) {
    image.bytes[i] =
        static_cast<std::uint8_t>((37 * i + i / 11 * 3 + 50 * std::size_t(seed)) % 253);
  }
  return image;
}

std::string real(double value) {
  std::string bytes = raw(value);
  std::reverse(bytes.begin(), bytes.end());
  return "G" + bytes;
}

std::string numbers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return list(items);
}

std::string names(const std::vector<std::string>& values) {
  std::vector<std::string> items;
  for (const std::string& value : values) items.push_back(text(value));
  return list(items);
}

/// A query's truth, its lists of Python's.
std::string query(const std::vector<double>& box, const std::vector<std::int64_t>& easy,
                  const std::vector<std::int64_t>& hard, const std::vector<std::int64_t>& junk) {
  std::vector<std::string> sides;
  for (const double side : box) sides.push_back(real(side));
  return map({{text("bbx"), list(sides)},
              {text("easy"), numbers(easy)},
              {text("hard"), numbers(hard)},
              {text("junk"), numbers(junk)}});
}

class OxfordParis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::is_installed(Kind::dataset, "oxford_paris")) {
      GTEST_SKIP() << "the datasets of pictures are left out of this build";
    }
    int seed = 0;
    for (const auto& [name, size] :
         std::vector<std::pair<std::string, Box>>{{"hall_1", {0, 0, 20, 40}},
                                                  {"hall_2", {0, 0, 45, 30}},
                                                  {"tower_1", {0, 0, 12, 12}},
                                                  {"asked_1", {0, 0, 30, 40}},
                                                  {"asked_2", {0, 0, 24, 24}}}) {
      folder_.write("jpg/" + name + ".jpg", png_of(picture(size.height, size.width, ++seed)));
    }
    write({query({3.5, 2.5, 19.4, 18.4}, {0}, {1}, {2}), query({0, 0, 24, 12}, {2}, {}, {0, 1})});
  }

  void write(const std::vector<std::string>& queries,
             const std::vector<std::string>& asked = {"asked_1", "asked_2"}) const {
    folder_.write("gnd_toy.pkl", file(map({{text("imlist"), names({"hall_1", "hall_2", "tower_1"})},
                                           {text("qimlist"), names(asked)},
                                           {text("gnd"), list(queries)}})));
  }
  std::string options(const std::string& more = "") const {
    return "{root: " + folder_.path() + ", name: toy, size: 16, multiple: 4" + more + "}";
  }
  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return testing::make_dataset("oxford_paris", options(more));
  }
  std::string refusal(const std::string& more = "") const {
    return message_of<DataError>([&] { open(more); });
  }
  static std::vector<std::int64_t> list_of(const NamedTensors& example, const std::string& name) {
    const Tensor values = example.at(name);
    return {values.data_ptr<std::int64_t>(), values.data_ptr<std::int64_t>() + values.numel()};
  }

  testing::TempFolder folder_;
};

TEST_F(OxfordParis, HasTheDatabaseToTrainOnAndQueriesToTest) {
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::train), 3);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  EXPECT_EQ(dataset->size(Split::test), 2);
  const NamedTensors first = dataset->example(Split::test, 0, nullptr);
  EXPECT_EQ(list_of(first, "easy@easy"), std::vector<std::int64_t>{0});
  EXPECT_EQ(list_of(first, "hard@hard"), std::vector<std::int64_t>{1});
  EXPECT_EQ(list_of(first, "junk@junk"), std::vector<std::int64_t>{2});
  EXPECT_EQ(list_of(dataset->example(Split::test, 1, nullptr), "junk@junk"),
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(dataset->example(Split::train, 2, nullptr).at("junk@junk").numel(), 0);
}

TEST_F(OxfordParis, ReadsArraysAsLists) {
  const auto lists = open();
  const std::string info = map({{text("bbx"), array<double>("f8", {4}, {3.5, 2.5, 19.4, 18.4})},
                                {text("easy"), array<std::int64_t>("i8", {1}, {0})},
                                {text("hard"), array<std::int64_t>("i8", {1}, {1})},
                                {text("junk"), array<double>("f8", {0}, {})}});
  write({info, query({0, 0, 24, 12}, {2}, {}, {0, 1})});
  const NamedTensors found = open()->example(Split::test, 0, nullptr);
  EXPECT_TRUE(found.at("image").equal(lists->example(Split::test, 0, nullptr).at("image")));
  EXPECT_EQ(list_of(found, "hard@hard"), std::vector<std::int64_t>{1});
  EXPECT_EQ(list_of(found, "junk@junk"), std::vector<std::int64_t>{});
}

TEST_F(OxfordParis, ReducesPicturesToASquareAndCutsThemToWholePatches) {
  const auto dataset = open();
  const auto shape = [&](Split split, std::int64_t index) {
    const Tensor image = dataset->example(split, index, nullptr).at("image");
    return std::pair{image.size(1), image.size(2)};
  };
  EXPECT_EQ(shape(Split::train, 0), (std::pair<std::int64_t, std::int64_t>{8, 16}));
  EXPECT_EQ(shape(Split::train, 1), (std::pair<std::int64_t, std::int64_t>{16, 8})) << "of 11";
  EXPECT_EQ(shape(Split::train, 2), (std::pair<std::int64_t, std::int64_t>{12, 12}))
      << "is not enlarged";
  EXPECT_EQ(shape(Split::test, 1), (std::pair<std::int64_t, std::int64_t>{8, 16}));
  const NamedTensors example = dataset->example(Split::train, 1, nullptr);
  EXPECT_TRUE(example.at("shown").equal(at::tensor({16, 8}, at::kLong)));
}

TEST_F(OxfordParis, CutsQueriesToTheirBoxes) {
  const auto dataset = open(", mean: [0, 0, 0], std: [1, 1, 1]");
  // Rounded to even as Python's round: left 4, top 2, right 19, bottom 18; 16 x 15, cut to 16 x 12.
  const Tensor image = dataset->example(Split::test, 0, nullptr).at("image").contiguous();
  ASSERT_EQ(image.sizes(), (at::IntArrayRef{3, 16, 12}));
  const Pixels whole = picture(30, 40, 4);
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < 16; ++y) {
      for (std::int64_t x = 0; x < 12; ++x) {
        EXPECT_NEAR(image[c][y][x].item<double>(), whole.row(2 + y)[3 * (4 + x) + c] / 255.0, 1e-6);
      }
    }
  }
  const auto uncut = open(", queries: whole");
  EXPECT_EQ(uncut->example(Split::test, 0, nullptr).at("image").sizes(),
            (at::IntArrayRef{3, 12, 16}));
  EXPECT_NE(uncut->info().fingerprint, open()->info().fingerprint);
}

TEST_F(OxfordParis, KeepsTheContract) {
  const auto outcomes = testing::expect_contract_kept("oxford_paris", options());
  EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
}

// --- bad input ----------------------------------------------------------------------------------

TEST_F(OxfordParis, RefusesGroundTruthThatNamesAbsentPictures) {
  std::filesystem::remove(folder_ / "jpg/hall_2.jpg");
  std::filesystem::remove(folder_ / "jpg/asked_2.jpg");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }),
              mentions("gnd_toy.pkl:", "5 pictures", "2 are not there", "jpg/hall_2.jpg first",
                       "fetch the pictures again"));
  std::filesystem::remove(folder_ / "gnd_toy.pkl");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }), HasSubstr("gnd_toy.pkl"));
}

TEST_F(OxfordParis, RefusesADamagedPickle) {
  const std::string whole = read_text(folder_ / "gnd_toy.pkl");
  folder_.write("gnd_toy.pkl", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal(), HasSubstr("gnd_toy.pkl"));
  folder_.write("gnd_toy.pkl", file(map({{text("imlist"), names({"hall_1"})}})));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("gnd_toy.pkl"), HasSubstr("'qimlist'")));
  write({query({0, 0, 9, 9}, {0}, {}, {})});
  EXPECT_THAT(refusal(), mentions("2 in qimlist", "1 queries in gnd"));
}

TEST_F(OxfordParis, RefusesNumbersAndBoxesOfNoPicture) {
  const std::string sound = query({0, 0, 24, 12}, {2}, {}, {0, 1});
  write({sound, query({0, 0, 24, 12}, {2}, {3}, {})});
  EXPECT_THAT(refusal(),
              mentions("gnd_toy.pkl: query 1 'asked_2'", "'hard'", "picture 3", "has 3"));
  write({sound, query({5, 0, 5, 12}, {2}, {}, {})});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("query 1 'asked_2'"), HasSubstr("'bbx' is not a box")));
  write({sound, query({30, 0, 60, 12}, {2}, {}, {})});
  EXPECT_THAT(refusal(), mentions("'asked_2'", "outside", "24 x 24"));
  write({sound, query({0, 0, 24, 3}, {2}, {}, {})});
  EXPECT_THAT(refusal(), mentions("jpg/asked_2.jpg:", "2 x 16 pixels", "dataset.multiple (4)"));
}

}  // namespace
}  // namespace attnlab::oxford_paris_test
