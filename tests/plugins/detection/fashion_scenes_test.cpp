// Fashion scenes: boxes are where the pieces are seen, and the data keep the contract.
#include <algorithm>

#include "plugins/datasets/detection/fashion_scenes/scene.h"
#include "tests/plugins/detection/small_sets.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::fashion_scenes_test {
namespace {

/// Two images of 28 x 28: white squares of 20 and of 12 in the middle.
LabelledImages squares() {
  LabelledImages images;
  images.stride = 28 * 28;
  images.bytes.assign(2 * 28 * 28, '\0');
  for (const auto& [image, side] : {std::pair{0, 20}, {1, 12}}) {
    for (int y = (28 - side) / 2; y < (28 + side) / 2; ++y) {
      for (int x = (28 - side) / 2; x < (28 + side) / 2; ++x) {
        images.bytes[std::size_t(image * 784 + y * 28 + x)] = char(0xff);
      }
    }
  }
  images.labels = {0, 1};
  return images;
}

TEST(FashionScenes, BoxesAreWhereAPieceIsPainted) {
  const LabelledImages images = squares();
  SceneOptions options;
  options.canvas = 96;
  options.most = 1;
  options.turn = 0;
  options.clutter = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed), behind(5);
    const SceneLayout layout = lay_out(options, images, {{0}, {1}}, random);
    ASSERT_EQ(layout.pieces.size(), 1u);
    const Piece& piece = layout.pieces[0];
    const ObjectBox& box = layout.boxes[0];
    EXPECT_EQ(box.label, piece.label);
    // The square's side, and the part of a pixel that is smoothed around it.
    const double side = (piece.label == 0 ? 20 : 12) * piece.scale;
    if (box.x0 > 0 && box.x1 < 96) {
      EXPECT_NEAR(box.x1 - box.x0, side, 2 + piece.scale);
    }
    // Bright where the box says, dark (the background is at most 110 and noise) beside it.
    const Pixels pixels = paint(options, images, layout, behind);
    for (std::int64_t y = 0; y < 96; ++y) {
      for (std::int64_t x = 0; x < 96; ++x) {
        const int red = pixels.row(y)[3 * x];
        const bool inside =
            double(x) >= box.x0 && double(x) < box.x1 && double(y) >= box.y0 && double(y) < box.y1;
        if (!inside) {
          ASSERT_LT(red, 145) << x << " " << y;
        }
      }
    }
    const auto middle_x = std::int64_t((box.x0 + box.x1) / 2);
    const auto middle_y = std::int64_t((box.y0 + box.y1) / 2);
    EXPECT_NEAR(pixels.row(middle_y)[3 * middle_x], 255 * piece.red, 1);
  }
}

/// How many pixels of a scene one piece shows: those that follow its colour.
std::int64_t seen_pixels(const SceneOptions& options, const LabelledImages& images,
                         SceneLayout layout, std::size_t piece) {
  const auto painted = [&](double colour) {
    Piece& one = layout.pieces[piece];
    one.red = one.green = one.blue = colour;
    Random behind(5);
    return paint(options, images, layout, behind);
  };
  const Pixels bright = painted(1), dark = painted(0.5);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < bright.bytes.size(); i += 3) seen += bright.bytes[i] != dark.bytes[i];
  return seen;
}

// Boxes are of what is seen: turned, cut by the canvas, or behind another piece.
TEST(FashionScenes, BoxesAreTightAroundWhatIsSeen) {
  const LabelledImages images = squares();
  SceneOptions options;
  options.canvas = 96;
  options.most = 3;
  options.turn = 45;
  options.clutter = 0;
  int behind_others = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const SceneLayout layout = lay_out(options, images, {{0}, {1}}, random);
    for (std::size_t i = 0; i < layout.pieces.size(); ++i) {
      const auto painted = [&](double colour) {
        SceneLayout one = layout;
        one.pieces[i].red = one.pieces[i].green = one.pieces[i].blue = colour;
        Random behind(5);
        return paint(options, images, one, behind);
      };
      const Pixels bright = painted(1), dark = painted(0.2);
      std::int64_t x0 = 96, x1 = 0, y0 = 96, y1 = 0, seen = 0;
      for (std::int64_t y = 0; y < 96; ++y) {
        for (std::int64_t x = 0; x < 96; ++x) {
          if (bright.row(y)[3 * x] == dark.row(y)[3 * x]) continue;
          x0 = std::min(x0, x);
          x1 = std::max(x1, x + 1);
          y0 = std::min(y0, y);
          y1 = std::max(y1, y + 1);
          ++seen;
        }
      }
      const ObjectBox& box = layout.boxes[i];
      ASSERT_GT(seen, 0);
      EXPECT_EQ(box.x0, double(x0)) << seed << ", piece " << i;
      EXPECT_EQ(box.x1, double(x1)) << seed << ", piece " << i;
      EXPECT_EQ(box.y0, double(y0)) << seed << ", piece " << i;
      EXPECT_EQ(box.y1, double(y1)) << seed << ", piece " << i;
      const double side = (layout.pieces[i].label == 0 ? 20 : 12) * layout.pieces[i].scale;
      behind_others += double(seen) < 0.85 * side * side ? 1 : 0;
    }
  }
  EXPECT_GT(behind_others, 2);
}

TEST(FashionScenes, PiecesLeaveEnoughOfEachOther) {
  const LabelledImages images = squares();
  SceneOptions options;
  options.most = 8;
  options.least_seen = 0.6;
  std::size_t pieces = 0;
  int hidden = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const SceneLayout layout = lay_out(options, images, {{0}, {1}}, random);
    pieces += layout.pieces.size();
    for (const ObjectBox& box : layout.boxes) {
      EXPECT_GT(box.x1, box.x0);
      EXPECT_GT(box.y1, box.y0);
    }
    for (std::size_t i = 0; seed < 8 && i < layout.pieces.size(); ++i) {
      const std::int64_t whole = seen_pixels(options, images, {{layout.pieces[i]}, {}}, 0);
      const std::int64_t seen = seen_pixels(options, images, layout, i);
      EXPECT_GE(double(seen), 0.6 * double(whole)) << "piece " << i << " of scene " << seed;
      hidden += seen < whole ? 1 : 0;
    }
  }
  EXPECT_GT(pieces, 60u);
  EXPECT_GT(hidden, 0) << "no piece hides another, so nothing was asked";
}

/// A few scenes whose pixels are what was painted.
std::shared_ptr<Dataset> scenes(const testing::TempFolder& folder, const std::string& more) {
  return testing::make_dataset("fashion_scenes",
                               "{root: " + folder.path() +
                                   ", train: 30, test: 30, canvas: 64, size: 64, prompt_size: 16, "
                                   "clutter: 0, mean: [0, 0, 0], std: [1, 1, 1], data_seed: 1" +
                                   more + "}");
}

TEST(FashionScenes, TrainingScenesShowNoNovelClass) {
  // Dresses, sneakers and bags are white, all else is dark. A background is seldom above 200, and a
  // piece's colour makes white 140 to 255.
  const testing::TempFolder folder;
  for (const std::string prefix : {"train", "t10k"}) {
    testing::write_fashion_files(folder, prefix, [](int i, int) {
      return i % 10 == 3 || i % 10 == 7 || i % 10 == 8 ? 255 : 60;
    });
  }
  const auto data = scenes(folder, "");
  const auto brightest = [&](Split split) {
    double most = 0;
    for (std::int64_t i = 0; i < data->size(split); ++i) {
      most = std::max(most, data->example(split, i, nullptr).at("image").max().item<double>());
    }
    return most * 255;
  };
  EXPECT_LT(brightest(Split::train), 235);
  EXPECT_GT(brightest(Split::test), 235);
}

TEST(FashionScenes, EachSplitShowsImagesOfItsOwnArchive) {
  const auto stripes = [](int shift) {
    return [shift](int i, int k) { return 120 + (k * (i + 3) + shift) % 136; };
  };
  /// The images of a split's scenes, where the archives are of such images.
  const auto images = [&](int train, int test, Split split) {
    const testing::TempFolder folder;
    testing::write_fashion_files(folder, "train", stripes(train));
    testing::write_fashion_files(folder, "t10k", stripes(test));
    const auto data = scenes(folder, ", one_shot: false");
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < 5; ++i) {
      all.push_back(data->example(split, i, nullptr).at("image"));
    }
    return at::stack(all);
  };
  EXPECT_TRUE(images(1, 2, Split::train).equal(images(1, 9, Split::train)));
  EXPECT_FALSE(images(1, 2, Split::train).equal(images(9, 2, Split::train)));
  EXPECT_TRUE(images(1, 2, Split::test).equal(images(9, 2, Split::test)));
  EXPECT_FALSE(images(1, 2, Split::test).equal(images(1, 9, Split::test)));
}

TEST(FashionScenes, AreTheSameWhereTheyAreKept) {
  const testing::TempFolder folder;
  testing::write_small_fashion(folder);
  // A scene of 2048 pixels takes 12 MiB: 21 of them are kept, 22 are not.
  const auto images = [&](const std::string& count) {
    const auto data = testing::make_dataset(
        "fashion_scenes", "{root: " + folder.path() + ", one_shot: false, train: " + count +
                              ", test: 1, canvas: 2048, size: 64, clutter: 0}");
    const Tensor first = data->example(Split::train, 0, nullptr).at("image");
    EXPECT_TRUE(data->example(Split::train, 0, nullptr).at("image").equal(first)) << count;
    return at::stack({first, data->example(Split::train, 1, nullptr).at("image")});
  };
  const Tensor kept = images("21");
  EXPECT_FALSE(kept[0].equal(kept[1]));
  EXPECT_TRUE(kept.equal(images("22")));
}

TEST(FashionScenes, KeepTheContract) {
  const testing::TempFolder folder;
  testing::write_small_fashion(folder);
  for (const std::string form : {"true", "false"}) {
    const auto outcomes = testing::expect_contract_kept(
        "fashion_scenes",
        "{root: " + folder.path() + ", one_shot: " + form +
            ", train: 16, test: 16, canvas: 32, size: 32, prompt_size: 16, prompts: 2}");
    // Its source is a rule, its `root` the folder.
    EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
  }
}

}  // namespace
}  // namespace attnlab::fashion_scenes_test
