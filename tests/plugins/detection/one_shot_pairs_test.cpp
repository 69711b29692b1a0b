// One-shot pairs: which classes are asked for, and where prompts come from.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "framework/data/detection/one_shot.h"
#include "tests/plugins/detection/small_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::one_shot_pairs_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

/// Pictures whose objects, all in one place, are of one grey, picture i's of grey i, so that a
/// prompt tells where it came from; what lies beside them is white.
class GreyPictures final : public PictureSet {
 public:
  static constexpr std::uint8_t kBeside = 255;
  explicit GreyPictures(std::vector<std::vector<std::int64_t>> labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      PictureNotes notes{std::int64_t(100 + i), 20, 20, {}};
      for (const std::int64_t label : labels[i]) {
        notes.objects.push_back({2, 2, 12, 12, label, 100, BoxKind::counted});
      }
      notes_.push_back(notes);
    }
  }
  std::int64_t size() const override { return std::int64_t(notes_.size()); }
  const PictureNotes& notes(std::int64_t index) const override {
    return notes_[std::size_t(index)];
  }
  Part part(std::int64_t index, const Box& box, std::int64_t, std::int64_t) const override {
    Pixels pixels(20, 20, 3);
    std::fill(pixels.bytes.begin(), pixels.bytes.end(), kBeside);
    for (std::int64_t y = 2; y < 12; ++y) {
      std::fill_n(pixels.row(y) + 3 * 2, 3 * 10, std::uint8_t(index));
    }
    return {pixels, box};
  }

 private:
  std::vector<PictureNotes> notes_;
};

OneShotPairs pairs(OneShotOptions options = {}) {
  options.size = 20;
  options.prompt_size = 8;
  options.mean = {0, 0, 0};
  options.deviation = {1, 1, 1};
  options.prompts = 3;
  if (options.novel.empty()) options.novel = {"cow"};
  PictureSplits splits;
  splits.name = "grey";
  splits.class_names = {"dog", "cat", "cow"};
  splits.train = std::make_shared<GreyPictures>(
      std::vector<std::vector<std::int64_t>>{{0, 1, 2}, {0, 0}, {2}, {1}, {0}});
  splits.test = std::make_shared<GreyPictures>(
      std::vector<std::vector<std::int64_t>>{{2, 0}, {2, 2}, {2}, {0, 1}, {2}});
  return OneShotPairs(splits, options);
}

/// The picture that the prompt was cut from.
std::int64_t origin(const NamedTensors& example) {
  return std::llround(example.at("prompt").mean().item<double>() * 255);
}

TEST(OneShotPairs, TrainOnBaseClassesAlone) {
  const OneShotPairs data = pairs();
  EXPECT_EQ(data.info().class_groups.at("base"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(data.info().class_groups.at("novel"), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(data.size(Split::train), 4);  // the picture of a cow alone is left out
  Random random(1);
  std::set<std::int64_t> asked, from;
  for (int i = 0; i < 60; ++i) {
    const NamedTensors example = data.example(Split::train, 0, &random);
    EXPECT_TRUE(example.at("label@box").equal(at::tensor({0, 1}, at::kLong)));
    const auto label = example.at("prompt_class").item<std::int64_t>();
    asked.insert(label);
    if (label == 0) from.insert(origin(example));
  }
  EXPECT_EQ(asked, (std::set<std::int64_t>{0, 1}));
  EXPECT_EQ(from, (std::set<std::int64_t>{1, 4}));  // never its own picture, 0
}

TEST(OneShotPairs, PromptsAreTheObjectAlone) {
  const OneShotPairs data = pairs();
  Random random(2);
  for (std::int64_t i = 0; i < 12; ++i) {
    for (const NamedTensors& example :
         {data.example(Split::test, i, nullptr), data.example(Split::train, i % 4, &random)}) {
      const Tensor prompt = example.at("prompt") * 255;
      EXPECT_LT(prompt.max().item<double>(), 6) << "nothing of what is beside it";
      EXPECT_LT((prompt - prompt.mean()).abs().max().item<double>(), 1e-3);
      EXPECT_GT(example.at("image").max().item<double>(), 0.99);
    }
  }
}

// What the model sees of an object lies where its box says, however the picture was cut and
// mirrored.
TEST(OneShotPairs, PixelsAndBoxesMoveTogether) {
  OneShotOptions options;
  options.jitter = {0.6, 2};
  options.flip = true;
  const OneShotPairs data = pairs(options);
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const NamedTensors example = data.example(Split::train, 3, &random);
    const Tensor image = example.at("image")[0] * 255;
    const auto height = double(image.size(0)), width = double(image.size(1));
    ASSERT_LE(example.at("box@box").size(0), 1);
    if (example.at("box@box").size(0) == 0) continue;
    const auto edge = [&](int k) { return example.at("box@box")[0][k].item<double>(); };
    // Of whole dark rows and columns: the filter blurs a pixel or two at the edges.
    const Tensor dark = image.lt(100);
    const Tensor rows = dark.any(1).nonzero().view({-1}),
                 columns = dark.any(0).nonzero().view({-1});
    ASSERT_GT(rows.size(0), 0);
    EXPECT_NEAR(rows[0].item<double>(), edge(1) * height, 2.1) << seed;
    EXPECT_NEAR(rows[-1].item<double>() + 1, edge(3) * height, 2.1) << seed;
    EXPECT_NEAR(columns[0].item<double>(), edge(0) * width, 2.1) << seed;
    EXPECT_NEAR(columns[-1].item<double>() + 1, edge(2) * width, 2.1) << seed;
    moved += edge(0) > 0.3 ? 1 : 0;
  }
  EXPECT_GT(moved, 20) << "mirrored";
}

TEST(OneShotPairs, AskInEvaluationsForEachClassThatIsThere) {
  const OneShotPairs data = pairs();
  EXPECT_EQ(data.size(Split::test), (2 + 1 + 1 + 1 + 1) * 3);
  EXPECT_THAT(data.info().source, HasSubstr("'cat' in test"));
  std::set<std::int64_t> prompts;
  for (std::int64_t number = 0; number < 3; ++number) {
    const NamedTensors example = data.example(Split::test, 3 + number, nullptr);
    EXPECT_EQ(example.at("prompt_class").item<std::int64_t>(), 2);
    EXPECT_EQ(example.at("prompt_number").item<std::int64_t>(), number);
    EXPECT_EQ(example.at("label@box").numel(), 2);  // boxes of every class
    EXPECT_NE(origin(example), 0);
    prompts.insert(origin(example));
  }
  // Four cows elsewhere, two of them in picture 1: at least two pictures among three prompts.
  EXPECT_GE(prompts.size(), 2u);
  EXPECT_TRUE(data.example(Split::test, 4, nullptr)
                  .at("prompt")
                  .equal(data.example(Split::test, 4, nullptr).at("prompt")));
}

TEST(OneShotPairs, AskForAllClassesWhereThatIsWanted) {
  OneShotOptions options;
  options.ask = "all";
  // The only cat has no other one to be its prompt.
  EXPECT_EQ(pairs(options).size(Split::test), 5 * 2 * 3);
}

TEST(OneShotPairs, RefuseClassesThatDoNotFit) {
  OneShotOptions options;
  options.novel = {"cows"};
  EXPECT_THAT(message_of<OptionError>([&] { pairs(options); }), HasSubstr("did you mean 'cow'"));
  options.novel = {"dog", "cat", "cow"};
  EXPECT_THAT(message_of<OptionError>([&] { pairs(options); }), HasSubstr("no class to train on"));
}

/// Prompts of the test split by picture, class and number, and where that example stands.
std::map<std::vector<std::int64_t>, std::pair<Tensor, std::int64_t>> prompts_of(
    const Dataset& data) {
  std::map<std::vector<std::int64_t>, std::pair<Tensor, std::int64_t>> prompts;
  for (std::int64_t i = 0; i < data.size(Split::test); ++i) {
    const NamedTensors one = data.example(Split::test, i, nullptr);
    const auto number = [&](const char* name) { return one.at(name).item<std::int64_t>(); };
    prompts[{number("image_id"), number("prompt_class"), number("prompt_number")}] = {
        one.at("prompt"), i};
  }
  return prompts;
}

TEST(OneShotPairs, KeepTheirPromptsWhereVocsListHasAnotherOrder) {
  const testing::TempFolder folder;
  testing::write_small_voc(folder);
  for (const char* name : {"c1", "c2"}) {
    testing::write_voc(folder, name, 40, 40, {{"dog", 1, 1, 20, 20}});
  }
  folder.write("ImageSets/Main/train.txt", "c1\nc2\n");
  const auto prompts = [&](const std::string& list) {
    folder.write("ImageSets/Main/val.txt", list);
    return prompts_of(*testing::make_dataset(
        "one_shot_pairs", "{voc: {root: " + folder.path() + ", " + testing::kSmallSets +
                              "}, novel: [cow], size: 48, prompt_size: 16, prompts: 3}"));
  };
  const auto before = prompts("a1\na2\na3\na4\nb1\nb2\n");
  const auto after = prompts("b2\na4\nb1\na2\na3\na1\n");
  ASSERT_EQ(before.size(), after.size());
  int moved = 0;
  for (const auto& [asked, prompt] : before) {
    ASSERT_EQ(after.count(asked), 1u);
    EXPECT_TRUE(prompt.first.equal(after.at(asked).first)) << "of picture " << asked[0];
    moved += prompt.second != after.at(asked).second ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
}

TEST(OneShotPairs, NeverShowAPictureItselfThoughItIsListedTwice) {
  const testing::TempFolder folder;
  testing::write_voc(folder, "a", 40, 40, {{"dog", 1, 1, 20, 20}});
  testing::write_voc(folder, "b", 40, 40, {{"dog", 11, 11, 30, 30}});
  testing::write_voc(folder, "c", 40, 40, {{"dog", 1, 1, 20, 20}});
  testing::write_voc(folder, "d", 40, 40, {{"dog", 11, 11, 30, 30}});
  folder.write("ImageSets/Main/train.txt", "c\nd\nc\n");
  folder.write("ImageSets/Main/test.txt", "a\nb\na\n");
  const auto data = testing::make_dataset(
      "one_shot_pairs", "{voc: {root: " + folder.path() +
                            ", train_sets: [train], test_sets: [test, test]}, size: 40, "
                            "prompt_size: 16, prompts: 4}");
  // The one dog elsewhere is every prompt.
  EXPECT_EQ(data->size(Split::train), 2);
  ASSERT_EQ(data->size(Split::test), 8);
  const auto prompt = [&](std::int64_t i) {
    return data->example(Split::test, i, nullptr).at("prompt");
  };
  for (std::int64_t number = 1; number < 4; ++number) {
    EXPECT_TRUE(prompt(number).equal(prompt(0)));
    EXPECT_FALSE(prompt(4 + number).equal(prompt(0)));
  }
}

/// Two pictures, each with a box of every one of eight categories.
void write_small_coco(const testing::TempFolder& folder) {
  std::string images, categories, boxes;
  const auto add = [](std::string& list, const std::string& entry) {
    list += (list.empty() ? "" : ", ") + entry;
  };
  for (int k = 0; k < 8; ++k) {
    add(categories, "{\"id\": " + std::to_string(10 * k + 3) + ", \"name\": \"kind " +
                        std::string(1, char('a' + k)) + "\"}");
  }
  for (int i = 1; i < 3; ++i) {
    const std::string id = std::to_string(i);
    add(images,
        "{\"id\": " + id + ", \"file_name\": \"" + id + ".jpg\", \"height\": 40, \"width\": 60}");
    for (int k = 0; k < 8; ++k) {
      add(boxes, "{\"image_id\": " + id + ", \"category_id\": " + std::to_string(10 * k + 3) +
                     ", \"area\": 100, \"iscrowd\": 0, \"bbox\": [" + std::to_string(5 * k) +
                     ", 2, 10, 10]}");
    }
    for (const std::string set : {"train2017", "val2017"}) {
      folder.write(set + "/" + id + ".jpg", testing::jpeg_of(testing::photograph(40, 60, i)));
    }
  }
  for (const std::string set : {"train2017", "val2017"}) {
    folder.write("annotations/instances_" + set + ".json",
                 "{\"images\": [" + images + "], \"categories\": [" + categories +
                     "], \"annotations\": [" + boxes + "]}");
  }
}

TEST(OneShotPairs, SplitCocoAsPublished) {
  const testing::TempFolder folder;
  write_small_coco(folder);
  const auto open = [&](const std::string& more) {
    return testing::make_dataset("one_shot_pairs", "{layout: coco, coco: {root: " + folder.path() +
                                                       "}, size: 60, prompt_size: 16" + more + "}");
  };
  const auto data = open(", coco_split: 2, prompts: 1");
  EXPECT_EQ(data->info().class_groups.at("novel"), (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(data->info().class_groups.at("base"), (std::vector<std::int64_t>{0, 2, 3, 4, 6, 7}));
  EXPECT_EQ(data->size(Split::train), 2);
  EXPECT_EQ(data->size(Split::test), 2 * 8);
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    const NamedTensors example = data->example(Split::train, i % 2, &random);
    const auto asked = example.at("prompt_class").item<std::int64_t>();
    EXPECT_TRUE(asked != 1 && asked != 5) << asked;
    EXPECT_EQ(example.at("label@box").numel(), 6);
  }
  EXPECT_EQ(open(", coco_split: 4")->info().class_groups.at("novel"),
            (std::vector<std::int64_t>{3, 7}));
  EXPECT_THAT(message_of<ConfigError>([&] { open(", coco_split: 1, novel: [kind a]"); }),
              mentions("coco_split:", "`novel`"));
}

TEST(OneShotPairs, LeaveOutDifficultBoxesAsPublishedAndCountThem) {
  const testing::TempFolder folder;
  testing::write_small_voc(folder);
  const auto open = [&](const std::string& more) {
    return testing::make_dataset(
        "one_shot_pairs", "{voc: {root: " + folder.path() + ", " + testing::kSmallSets + more +
                              "}, novel: [cow], size: 48, prompt_size: 16}");
  };
  const auto boxes = [](const Dataset& data) {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < data.size(Split::test); ++i) {
      most = std::max(most, data.example(Split::test, i, nullptr).at("label@box").numel());
    }
    return most;
  };
  const auto published = open("");
  EXPECT_THAT(published->info().source, HasSubstr("1 difficult boxes"));
  EXPECT_EQ(boxes(*published), 2);
  EXPECT_EQ(boxes(*open(", difficult: ignore")), 3);
}

void expect_contract(const std::string& options) {
  // Damage is voc's and coco's own, and the folder is not under `root` here.
  testing::expect_contract_kept("one_shot_pairs", options, "damage");
}

TEST(OneShotPairs, KeepTheContractOverVoc) {
  const testing::TempFolder folder;
  testing::write_small_voc(folder);
  expect_contract("{voc: {root: " + folder.path() + ", " + testing::kSmallSets +
                  "}, novel: [cow], size: 48, prompt_size: 16, jitter: [0.5, 2], flip: true, "
                  "prompt_augmentation: true}");
}

TEST(OneShotPairs, KeepTheContractOverCoco) {
  const testing::TempFolder folder;
  write_small_coco(folder);
  expect_contract("{layout: coco, coco: {root: " + folder.path() +
                  "}, coco_split: 2, size: 48, prompt_size: 16, jitter: [0.5, 2], flip: true}");
}

}  // namespace
}  // namespace attnlab::one_shot_pairs_test
