// Painted scenes: what they hold, and that labels lie where shapes are.
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::painted_scenes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_dataset;

NamedTensors scene(const Dataset& dataset, std::int64_t index) {
  return dataset.example(Split::train, index, nullptr);
}

TEST(PaintedScenes, HoldAllShapesAndPixelsWithoutALabel) {
  const auto dataset = make_dataset("painted_scenes", "{train: 60, size: 32}");
  EXPECT_THAT(dataset->info().class_names,
              ElementsAre("background", "disc", "square", "triangle", "ring", "cross"));
  EXPECT_EQ(dataset->info().field("image").shape, (std::vector<std::int64_t>{3, 32, 32}));
  std::set<std::int64_t> found;
  double background = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    const Tensor labels = scene(*dataset, i).at("label_map");
    for (std::int64_t k = -1; k < 6; ++k) {
      if (labels.eq(k).any().item<bool>()) found.insert(k);
    }
    background += labels.eq(0).to(at::kDouble).mean().item<double>() / 60;
  }
  EXPECT_THAT(found, ElementsAre(-1, 0, 1, 2, 3, 4, 5));
  EXPECT_GT(background, 0.3);
  EXPECT_LT(background, 0.9);
}

/// One large shape without noise: it has one colour, and all labelled pixels of it have that.
TEST(PaintedScenes, LabelWhatTheyPaint) {
  const auto dataset = make_dataset(
      "painted_scenes",
      "{train: 40, size: 48, most: 1, noise: 0, least_radius: 0.3, largest_radius: 0.4, "
      "mean: [0, 0, 0], std: [1, 1, 1]}");
  int painted = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    const NamedTensors example = scene(*dataset, i);
    const Tensor shape = example.at("label_map").gt(0);
    if (!shape.any().item<bool>()) continue;  // it lies beyond the edge
    ++painted;
    const Tensor colours = example.at("image").masked_select(shape).view({3, -1});
    EXPECT_LT((colours - colours.select(1, 0).unsqueeze(1)).abs().max().item<double>(), 1e-6) << i;
    // The background is a blend of two colours, and no plane of one.
    const Tensor ground =
        example.at("image").masked_select(example.at("label_map").eq(0)).view({3, -1});
    EXPECT_GT(ground.std(1).max().item<double>(), 0.003) << i;
  }
  EXPECT_GT(painted, 30);
}

TEST(PaintedScenes, LeaveABorderWithoutLabels) {
  const auto unlabelled = [](const std::string& border) {
    const auto dataset =
        make_dataset("painted_scenes", "{train: 20, size: 32, border: " + border + "}");
    double share = 0;
    for (std::int64_t i = 0; i < 20; ++i) {
      share += scene(*dataset, i).at("label_map").lt(0).to(at::kDouble).mean().item<double>() / 20;
    }
    return share;
  };
  EXPECT_EQ(unlabelled("0"), 0);
  EXPECT_GT(unlabelled("0.5"), 0.01);
  EXPECT_GT(unlabelled("2"), 2 * unlabelled("0.5"));
}

TEST(PaintedScenes, FollowTheRunsSeedOrTheirOwn) {
  const auto first = [](const std::string& more, std::uint64_t seed) {
    const auto dataset = make_dataset("painted_scenes", "{train: 3, size: 16" + more + "}", seed);
    return std::pair{scene(*dataset, 2).at("image"), dataset->info().fingerprint};
  };
  const auto a = first("", 1), b = first("", 2);
  EXPECT_FALSE(a.first.equal(b.first));
  EXPECT_NE(a.second, b.second);
  const auto c = first(", data_seed: 5", 1), d = first(", data_seed: 5", 2);
  EXPECT_TRUE(c.first.equal(d.first));
  EXPECT_EQ(c.second, d.second);
}

TEST(PaintedScenes, RefuseSizesThatCrossEachOther) {
  EXPECT_THAT(testing::message_of<ConfigError>([] {
                make_dataset("painted_scenes", "{least_radius: 0.5, largest_radius: 0.2}");
              }),
              HasSubstr("is above largest_radius"));
}

}  // namespace
}  // namespace attnlab::painted_scenes_test
