// What `attnlab segment` and `attnlab show` ask a run of segmentation: answers by the run's own
// windows, sizes of pictures, what is kept for the report; label maps as pictures.
#include "runner/inspect/pixel_answers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/base64.h"
#include "runner/inspect/label_painting.h"
#include "runner/inspect/show_label_maps.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::pixel_answers_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kClasses = 3;

/// Pictures whose three channels are as likely each to be the largest.
class Colours final : public Dataset {
 public:
  /// @param height, width  of all pictures; -1: they differ
  Colours(std::int64_t height, std::int64_t width) {
    info_.name = "colours";
    info_.classes = kClasses;
    info_.class_names = {"red", "green", "blue"};
    FieldInfo image{"image", {3, height, width}, at::kFloat};
    image.mean = {0.5, 0.5, 0.5};
    image.deviation = {0.25, 0.25, 0.25};
    info_.fields = {image,
                    {"shown", {2}, at::kLong},
                    {"label_map", {-1, -1}, at::kLong, {}, kClasses},
                    {"size", {2}, at::kLong}};
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return 1; }
  NamedTensors one;  ///< what it gives

 protected:
  NamedTensors make_example(Split, std::int64_t, Random*) const override { return one; }

 private:
  DatasetInfo info_;
};

/// Mask logits that are the picture's own channels in cells of two pixels. The last channel is
/// raised to the right of what the model sees, so that windows show in the answers.
class OwnChannels final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor& images = batch.fields.at("image");
    const Tensor cells = at::avg_pool2d(images, 2);
    seen.insert({images.size(2), images.size(3)});
    const Tensor place = at::arange(cells.size(3), cells.options()) / double(cells.size(3));
    return {{"mask_logits", at::cat({cells.narrow(1, 0, 2), cells.narrow(1, 2, 1) + place}, 1)}};
  }
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
};

struct Asked {
  Asked(std::int64_t height, std::int64_t width, const std::string& task = "{}",
        const std::string& id = "semantic_segmentation")
      : data(std::make_shared<Colours>(height, width)), model(std::make_shared<OwnChannels>()) {
    run.dataset = data;
    run.model = model;
    run.task = testing::make_task(id, data->info(), task);
    run.experiment.task = testing::make_part(Kind::task, id, task);
  }
  LabelMap of(const Tensor& picture, const PictureSize& size) const {
    return PixelAnswers(run, "a/run").of("one.png", picture, size);
  }

  BuiltRun run;
  std::shared_ptr<Colours> data;
  std::shared_ptr<OwnChannels> model;
};

/// Between the four cells around a pixel's middle.
double between(const std::vector<std::vector<double>>& cells, double y, double x) {
  const auto rows = double(cells.size()), columns = double(cells[0].size());
  y = std::clamp(y, 0.0, rows - 1);
  x = std::clamp(x, 0.0, columns - 1);
  const auto top = std::size_t(y), left = std::size_t(x);
  const std::size_t bottom = std::min(top + 1, cells.size() - 1);
  const std::size_t right = std::min(left + 1, cells[0].size() - 1);
  const double down = y - double(top), across = x - double(left);
  return (1 - down) * ((1 - across) * cells[top][left] + across * cells[top][right]) +
         down * ((1 - across) * cells[bottom][left] + across * cells[bottom][right]);
}

/// Logits of a window at each of its pixels, by loops. @param picture  [3, H, W]
std::vector<std::vector<double>> of_window(const Tensor& picture, std::int64_t k, std::int64_t top,
                                           std::int64_t left, std::int64_t height,
                                           std::int64_t width) {
  std::vector<std::vector<double>> cells(std::size_t(height / 2));
  for (std::int64_t y = 0; y < height / 2; ++y) {
    for (std::int64_t x = 0; x < width / 2; ++x) {
      double sum = 0;
      for (int i = 0; i < 4; ++i) {
        sum += picture[k][top + 2 * y + i / 2][left + 2 * x + i % 2].item<double>();
      }
      cells[std::size_t(y)].push_back(sum / 4 + (k == 2 ? double(x) / double(width / 2) : 0));
    }
  }
  std::vector<std::vector<double>> pixels;
  pixels.resize(std::size_t(height), std::vector<double>(std::size_t(width), 0));
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      pixels[std::size_t(y)][std::size_t(x)] =
          between(cells, (double(y) + 0.5) / 2 - 0.5, (double(x) + 0.5) / 2 - 0.5);
    }
  }
  return pixels;
}

/// Answers of windows at places, each side by side with the next, by loops.
LabelMap by_loops(const Tensor& picture, const std::vector<std::int64_t>& rows,
                  const std::vector<std::int64_t>& columns, std::int64_t height,
                  std::int64_t width) {
  LabelMap map(picture.size(1), picture.size(2));
  std::vector<std::vector<double>> sums(kClasses, std::vector<double>(map.classes.size(), 0));
  std::vector<double> windows(map.classes.size(), 0);
  for (const std::int64_t top : rows) {
    for (const std::int64_t left : columns) {
      for (std::int64_t k = 0; k < kClasses; ++k) {
        const auto pixels = of_window(picture, k, top, left, height, width);
        for (std::int64_t i = 0; i < height * width; ++i) {
          const auto at = std::size_t((top + i / width) * map.width + left + i % width);
          sums[std::size_t(k)][at] += pixels[std::size_t(i / width)][std::size_t(i % width)];
          if (k == 0) windows[at] += 1;
        }
      }
    }
  }
  for (std::size_t i = 0; i < map.classes.size(); ++i) {
    EXPECT_GT(windows[i], 0);
    for (std::int16_t k = 0; k < kClasses; ++k) {
      const auto best = std::size_t(std::max<std::int16_t>(map.classes[i], 0));
      if (k == 0 || sums[std::size_t(k)][i] / windows[i] > sums[best][i] / windows[i]) {
        map.classes[i] = k;
      }
    }
  }
  return map;
}

Tensor random_picture(std::int64_t height, std::int64_t width) {
  at::manual_seed(2);
  return at::randn({3, height, width}, at::kDouble);
}

TEST(PixelAnswers, AreThoseOfTheRunsOwnWindows) {
  const Asked asked(-1, -1, "{window: 8, stride: 4}");
  const Tensor picture = random_picture(14, 18);
  const LabelMap found = asked.of(picture, {14, 18});
  EXPECT_EQ(found.classes, by_loops(picture, {0, 4, 6}, {0, 4, 8, 10}, 8, 8).classes);
  EXPECT_THAT(asked.model->seen, ElementsAre(std::pair<std::int64_t, std::int64_t>{8, 8}));
}

TEST(PixelAnswers, OfAPictureOfTheDatasOwnSizeAreInOnePass) {
  const Asked asked(8, 12);
  const Tensor picture = random_picture(8, 12);
  EXPECT_EQ(asked.of(picture, {8, 12}).classes, by_loops(picture, {0}, {0}, 8, 12).classes);
}

TEST(PixelAnswers, OfAPictureOfAnotherSizeAreByWindowsOfTheDatasShorterSide) {
  const Asked asked(8, 12);
  const Tensor picture = random_picture(20, 9);
  EXPECT_EQ(asked.of(picture, {20, 9}).classes,
            by_loops(picture, {0, 8, 12}, {0, 1}, 8, 8).classes);
  // A smaller one is enlarged to a window.
  asked.model->seen.clear();
  const LabelMap small = asked.of(random_picture(4, 6), {4, 6});
  EXPECT_EQ(small.height, 4);
  EXPECT_EQ(small.width, 6);
  EXPECT_THAT(asked.model->seen, ElementsAre(std::pair<std::int64_t, std::int64_t>{8, 8}));
}

TEST(PixelAnswers, AreNoneWhereAScoreIsNotANumber) {
  const Asked asked(8, 8);
  Tensor picture = random_picture(8, 8);
  picture[0][0][0] = std::nan("");
  const LabelMap found = asked.of(picture, {8, 8});
  EXPECT_EQ(found.classes.front(), kUnlabelled);
  EXPECT_GE(found.classes.back(), 0);
}

TEST(PixelAnswers, OfEnormousPicturesAreEnlarged) {
  const Asked asked(8, 8);
  Tensor picture = at::zeros({3, 8, 8}, at::kDouble);
  picture[0].narrow(1, 0, 4).fill_(9);
  picture[1].narrow(1, 4, 4).fill_(9);
  // Scores of 200 x 100 pixels and three classes are more than 20 x 10 x 3 numbers.
  const LabelMap found = PixelAnswers(asked.run, "a/run").of("one.png", picture, {200, 100}, 600);
  ASSERT_EQ(found.height, 200);
  ASSERT_EQ(found.width, 100);
  for (std::int64_t y = 0; y < 200; ++y) {
    for (std::int64_t x = 0; x < 100; ++x) {
      // The edge lies between two of the ten columns of answers.
      ASSERT_EQ(found.row(y)[x], x < 50 ? 0 : 1) << y << " " << x;
    }
  }
}

TEST(PixelAnswers, RefuseWhatIsNoSegmentationAndWhatIsTooNarrow) {
  Asked asked(-1, -1, "{window: 512}");
  EXPECT_THAT(message_of<DataError>([&] {
                asked.of(at::zeros({3, 1, 8192}), {1, 8192});
              }),
              AllOf(HasSubstr("one.png: 8192 x 1 pixels"), HasSubstr("windows of 512"),
                    HasSubstr("cut a part out")));
  DatasetInfo images;
  images.name = "images";
  images.classes = 2;
  images.fields = {{"image", {3, 8, 8}, at::kFloat}, {"class", {}, at::kLong, {}, 2}};
  asked.run.task = testing::make_task("image_classification", images);
  asked.run.experiment.task.name = "image_classification";
  EXPECT_THAT(message_of<ConfigError>([&] { PixelAnswers(asked.run, "a/run"); }),
              mentions("a/run:", "'image_classification'", "take a run of segmentation"));
}

TEST(LabelMapPicture, KeepsWhatTheReportDraws) {
  const Asked asked(8, 8);
  const Tensor picture = random_picture(8, 8).to(at::kFloat);
  at::manual_seed(6);
  const Tensor labels = at::randint(-1, kClasses, {8, 8}, at::kLong);
  asked.data->one = {{"image", picture}, {"label_map", labels}};
  const PixelAnswers answers(asked.run, "a/run");
  const nlohmann::json kept = picture_of_label_map(asked.run, answers, 0);
  const LabelMap said = asked.of(picture, {8, 8});
  std::int64_t labelled = 0, wrong = 0;
  std::vector<std::int64_t> real(kClasses, 0), answered(kClasses, 0);
  for (std::int64_t i = 0; i < 64; ++i) {
    const auto label = labels[i / 8][i % 8].item<std::int64_t>();
    ++answered[std::size_t(said.classes[std::size_t(i)])];
    if (label < 0) continue;
    ++labelled;
    ++real[std::size_t(label)];
    wrong += label != said.classes[std::size_t(i)] ? 1 : 0;
  }
  EXPECT_EQ(kept.at("labelled"), labelled);
  EXPECT_EQ(kept.at("wrong"), wrong);
  EXPECT_EQ(kept.at("height"), 8);
  ASSERT_EQ(kept.at("classes").size(), 3U);
  const char* names[] = {"red", "green", "blue"};
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(kept.at("classes")[k].at("name"), names[k]);
    EXPECT_DOUBLE_EQ(kept.at("classes")[k].at("true").get<double>(), double(real[k]) / 64);
    EXPECT_DOUBLE_EQ(kept.at("classes")[k].at("said").get<double>(), double(answered[k]) / 64);
  }
  EXPECT_EQ(kept.at("classes")[0].at("colour"), "#800000");
  for (const char* name : {"image", "truth", "answer", "errors"}) {
    EXPECT_THAT(base64_bytes(kept.at(name).get<std::string>()), HasSubstr("PNG")) << name;
  }
}

TEST(LabelMapPicture, IsSmall) {
  const Asked asked(-1, -1, "{window: 600}");
  at::manual_seed(6);
  asked.data->one = {{"image", at::zeros({3, 600, 900})},
                     {"label_map", at::zeros({600, 900}, at::kLong)}};
  const nlohmann::json kept = picture_of_label_map(asked.run, PixelAnswers(asked.run, "a/run"), 0);
  EXPECT_EQ(kept.at("width"), 900) << "the label map's own";
  for (const char* name : {"image", "truth", "answer", "errors"}) {
    const std::string png = base64_bytes(kept.at(name).get<std::string>());
    const auto number = [&](std::size_t at) {  // of the file's header
      return (std::uint8_t(png.at(at + 2)) << 8) + std::uint8_t(png.at(at + 3));
    };
    EXPECT_EQ(number(16), 256) << name;
    EXPECT_EQ(number(20), 171) << name;
  }
}

TEST(LabelPainting, CountsTheClassesThatAreThere) {
  LabelMap labels(2, 4);
  labels.classes = {1, 1, 2, kUnlabelled, 1, 2, 0, kUnlabelled};
  const std::vector<ShownClass> shown = classes_in(labels, 4);
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[0].label, 1);
  EXPECT_DOUBLE_EQ(shown[0].share, 3.0 / 8);
  EXPECT_EQ(shown[1].label, 2);
  EXPECT_EQ(shown[2].label, 0);
}

TEST(LabelPainting, PaintsAndMixesColours) {
  LabelMap labels(1, 3);
  labels.classes = {1, kUnlabelled, 0};
  const std::vector<ClassColour> colours = {{10, 20, 30}, {200, 100, 0}};
  const Pixels painted = painted_labels(labels, colours);
  EXPECT_THAT(painted.bytes, ElementsAre(200, 100, 0, 255, 255, 255, 10, 20, 30));
  Pixels picture(1, 3, 3);
  std::fill(picture.bytes.begin(), picture.bytes.end(), std::uint8_t{100});
  EXPECT_THAT(painted_over(picture, labels, colours).bytes,
              ElementsAre(150, 100, 50, 178, 178, 178, 55, 60, 65));
}

TEST(LabelPainting, PutsALegendBelowThePicture) {
  Pixels picture(40, 200, 3);
  std::fill(picture.bytes.begin(), picture.bytes.end(), std::uint8_t{7});
  const std::vector<LegendEntry> entries = {{{1, 2, 3}, "road"}, {{4, 5, 6}, "sky"}};
  const Pixels out = with_legend(picture, entries);
  EXPECT_EQ(out.width, 200);
  ASSERT_GT(out.height, 45);
  EXPECT_EQ(out.row(39)[3 * 199], 7);
  EXPECT_EQ(out.row(0)[0], 7);
  for (const LegendEntry& entry : entries) {
    bool there = false;
    for (std::int64_t i = 40 * 200; i < out.height * out.width; ++i) {
      there |= std::equal(entry.colour.begin(), entry.colour.end(), out.bytes.begin() + 3 * i);
    }
    EXPECT_TRUE(there) << entry.text;
  }
  // A narrow picture gets room for the words.
  const Pixels narrow = with_legend(Pixels(40, 8, 3), entries);
  EXPECT_GT(narrow.width, 4 * 6);
  EXPECT_GT(narrow.height, 40 + 2 * 7) << "a line each";
  EXPECT_EQ(at_most(picture, 100).height, 20);
  EXPECT_EQ(at_most(picture, 100).width, 100);
  EXPECT_EQ(at_most(picture, 300).bytes, picture.bytes);
}

}  // namespace
}  // namespace attnlab::pixel_answers_test
