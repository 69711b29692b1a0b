// Semantic segmentation: its loss and its answers against loops in double precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "framework/data/image/corruption.h"
#include "framework/data/image/pixels.h"
#include "framework/eval/segmentation/windows.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/plugins.h"

namespace attnlab::semantic_segmentation_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_task;
using testing::message_of;

constexpr std::int64_t kClasses = 3;

/// Pictures whose three channels are as likely each to be the largest; of several sizes, or of one.
DatasetInfo colours(std::int64_t side = -1) {
  DatasetInfo data;
  data.name = "colours";
  data.classes = kClasses;
  data.class_names = {"red", "green", "blue"};
  FieldInfo image{"image", {3, side, side}, at::kFloat};
  image.mean = {0.5, 0.5, 0.5};
  image.deviation = {0.25, 0.25, 0.25};
  data.fields = {image,
                 {"shown", {2}, at::kLong},
                 {"label_map", {-1, -1}, at::kLong, {}, kClasses},
                 {"size", {2}, at::kLong}};
  return data;
}

Tensor size_of(std::int64_t height, std::int64_t width) {
  return at::tensor({height, width}, at::kLong);
}

/// A random picture with labels of its own size, some of them absent.
NamedTensors example(std::int64_t height, std::int64_t width, std::int64_t label_height,
                     std::int64_t label_width) {
  return {{"image", at::randn({3, height, width}, at::kDouble)},
          {"shown", size_of(height, width)},
          {"label_map", at::randint(-1, kClasses, {label_height, label_width}, at::kLong)},
          {"size", size_of(label_height, label_width)}};
}

Batch batch_of(const std::vector<NamedTensors>& examples) {
  return collated(examples, colours().fields);
}

/// Mask logits that are the picture's own channels, in cells of two pixels, and a number that
/// depends on where a cell stands in what the model sees.
class OwnChannels final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor cells = at::avg_pool2d(batch.fields.at("image"), 2);
    const Tensor place = at::arange(cells.size(3), cells.options()) / double(cells.size(3));
    ++passes;
    return {{"mask_logits", at::cat({cells.narrow(1, 0, 2), cells.narrow(1, 2, 1) + place}, 1)}};
  }
  int passes = 0;
};

Metrics evaluated(const std::string& id, const std::string& options, const DatasetInfo& data,
                  const std::vector<Batch>& batches, int* passes = nullptr) {
  const auto task = make_task(id, data, options);
  OwnChannels model;
  Evaluation evaluation{model, data, Split::test, RandomStreams(0), {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) {
    for (const Batch& batch : batches) use(batch);
  };
  const Metrics metrics = task->evaluate(evaluation);
  if (passes != nullptr) *passes = model.passes;
  return metrics;
}

/// Between the four cells around a pixel's middle.
double interpolated(const Tensor& map, std::int64_t y, std::int64_t x, std::int64_t height,
                    std::int64_t width) {
  const auto along = [](std::int64_t i, std::int64_t cells, std::int64_t pixels) {
    const double at = std::max(0.0, (double(i) + 0.5) * double(cells) / double(pixels) - 0.5);
    const auto low = std::min<std::int64_t>(std::int64_t(at), cells - 1);
    return std::tuple{low, std::min(low + 1, cells - 1), at - double(low)};
  };
  const auto [top, bottom, down] = along(y, map.size(0), height);
  const auto [left, right, across] = along(x, map.size(1), width);
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return map[row][column].item<double>();
  };
  return (1 - down) * ((1 - across) * at(top, left) + across * at(top, right)) +
         down * ((1 - across) * at(bottom, left) + across * at(bottom, right));
}

/// Softmax of the interpolated logits at the labelled pixels of one picture, and their labels.
struct PixelShares {
  std::vector<std::array<double, kClasses>> shares;
  std::vector<std::int64_t> labels;
};

PixelShares labelled_pixels(const Tensor& logits, const Tensor& labels) {
  PixelShares all;
  for (std::int64_t y = 0; y < labels.size(0); ++y) {
    for (std::int64_t x = 0; x < labels.size(1); ++x) {
      const auto label = labels[y][x].item<std::int64_t>();
      if (label < 0) continue;
      std::array<double, kClasses> shares{};
      double sum = 0;
      for (std::int64_t k = 0; k < kClasses; ++k) {
        shares[std::size_t(k)] =
            std::exp(interpolated(logits[k], y, x, labels.size(0), labels.size(1)));
        sum += shares[std::size_t(k)];
      }
      for (double& share : shares) share /= sum;
      all.shares.push_back(shares);
      all.labels.push_back(label);
    }
  }
  return all;
}

double cross_entropy_by_loops(const PixelShares& pixels) {
  double sum = 0;
  for (std::size_t i = 0; i < pixels.labels.size(); ++i) {
    sum -= std::log(pixels.shares[i][std::size_t(pixels.labels[i])]);
  }
  return sum;
}

double dice_by_loops(const PixelShares& pixels) {
  double losses = 0, classes = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    double both = 0, sum = 0, there = 0;
    for (std::size_t i = 0; i < pixels.labels.size(); ++i) {
      const bool is = pixels.labels[i] == std::int64_t(c);
      both += is ? pixels.shares[i][c] : 0;
      sum += pixels.shares[i][c] + (is ? 1 : 0);
      there += is ? 1 : 0;
    }
    if (there == 0) continue;
    losses += 1 - 2 * both / sum;
    ++classes;
  }
  return losses / classes;
}

/// Lovász's extension of 1 - IoU: errors from the largest on, each with what the set gains by it.
double lovasz_by_loops(const PixelShares& pixels) {
  double losses = 0, classes = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    std::vector<double> errors;
    double there = 0;
    for (std::size_t i = 0; i < pixels.labels.size(); ++i) {
      const bool is = pixels.labels[i] == std::int64_t(c);
      errors.push_back(std::abs((is ? 1.0 : 0.0) - pixels.shares[i][c]));
      there += is ? 1 : 0;
    }
    if (there == 0) continue;
    std::vector<std::size_t> order(errors.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return errors[a] > errors[b]; });
    double missed = 0, added = 0, before = 0;
    for (const std::size_t i : order) {
      (pixels.labels[i] == std::int64_t(c) ? missed : added) += 1;
      const double now = 1 - (there - missed) / (there + added);
      losses += errors[i] * (now - before);
      before = now;
    }
    ++classes;
  }
  return losses / classes;
}

/// Two pictures' labels, and logits of cells for them.
struct Training {
  Training() {
    at::manual_seed(11);
    logits = at::randn({2, kClasses, 3, 4}, at::kDouble);
    batch = batch_of({example(7, 8, 7, 8), example(7, 8, 7, 8)});
  }
  double loss(const std::string& options) const {
    return make_task("semantic_segmentation", colours(8), options)
        ->loss({{"mask_logits", logits}}, batch)
        .item<double>();
  }
  PixelShares pixels(std::int64_t picture) const {
    return labelled_pixels(logits[picture], batch.fields.at("label_map")[picture]);
  }

  Tensor logits;
  Batch batch;
};

TEST(SemanticSegmentation, LearnsByTheLossesOfPlainLoops) {
  const Training training;
  const PixelShares first = training.pixels(0), second = training.pixels(1);
  const double a = double(first.labels.size()), b = double(second.labels.size());
  const double entropy = (cross_entropy_by_loops(first) + cross_entropy_by_loops(second)) / (a + b);
  const double dice = (a * dice_by_loops(first) + b * dice_by_loops(second)) / (a + b);
  const double lovasz = (a * lovasz_by_loops(first) + b * lovasz_by_loops(second)) / (a + b);
  EXPECT_NEAR(training.loss("{}"), entropy, 1e-10);
  EXPECT_NEAR(training.loss("{cross_entropy: 0, dice: 1}"), dice, 1e-10);
  EXPECT_NEAR(training.loss("{cross_entropy: 0, lovasz: 1}"), lovasz, 1e-10);
  EXPECT_NEAR(training.loss("{cross_entropy: 2, dice: 3, lovasz: 0.5}"),
              2 * entropy + 3 * dice + 0.5 * lovasz, 1e-10);
}

TEST(SemanticSegmentation, HasTheGradientOfItsLoss) {
  const Training training;
  const auto task =
      make_task("semantic_segmentation", colours(8), "{dice: 1, lovasz: 1, label_smoothing: 0.1}");
  const auto f = [&](const std::vector<Tensor>& in) {
    return task->loss({{"mask_logits", in[0]}}, training.batch);
  };
  EXPECT_LT(testing::gradient_error(f, {training.logits}), 1e-6);
}

TEST(SemanticSegmentation, WeighsPartsOfAStepByTheirLabelledPixels) {
  const Training training;
  for (const char* options : {"{}", "{dice: 1, lovasz: 1}"}) {
    const auto task = make_task("semantic_segmentation", colours(8), options);
    double sum = 0, weights = 0;
    for (std::int64_t i = 0; i < 2; ++i) {
      const Batch part = slice(training.batch, i, 1);
      const double weight = task->weight(part);
      EXPECT_EQ(weight, double(training.pixels(i).labels.size()));
      sum += weight *
             task->loss({{"mask_logits", training.logits.narrow(0, i, 1)}}, part).item<double>();
      weights += weight;
    }
    EXPECT_NEAR(sum / weights, training.loss(options), 1e-12);
    EXPECT_EQ(task->weight(training.batch), weights);
  }
}

TEST(SemanticSegmentation, LeavesOutWhatIsPaddedAndWhatHasNoLabel) {
  const auto task = make_task("semantic_segmentation", colours(8));
  at::manual_seed(5);
  Batch batch = batch_of({example(8, 8, 8, 8), example(8, 8, 5, 6)});
  const Tensor logits = at::randn({2, kClasses, 4, 4}, at::kDouble);
  const double before = task->loss({{"mask_logits", logits}}, batch).item<double>();
  Tensor labels = batch.fields.at("label_map").clone();
  labels[1].narrow(0, 5, 3).fill_(2);
  labels[1].narrow(1, 6, 2).fill_(1);
  batch.fields.set("label_map", labels);
  EXPECT_EQ(task->loss({{"mask_logits", logits}}, batch).item<double>(), before);
  batch.fields.set("label_map", at::full({2, 8, 8}, -1, at::kLong));
  const Tensor leaf = logits.clone().requires_grad_();
  const Tensor none = task->loss({{"mask_logits", leaf}}, batch);
  EXPECT_EQ(none.item<double>(), 0);
  none.backward();
  EXPECT_EQ(leaf.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(task->weight(batch), 0);
}

// --- answers ------------------------------------------------------------------------------------

/// Metrics of answers, one label map beside one map of answers.
std::map<std::string, double> by_loops(const std::vector<Tensor>& labels,
                                       const std::vector<Tensor>& answers) {
  std::map<std::string, double> metrics;
  const std::vector<std::string> names = {"red", "green", "blue"};
  double right = 0, all = 0, iou_sum = 0, recall_sum = 0;
  for (std::int64_t c = 0; c < kClasses; ++c) {
    double both = 0, either = 0, labelled = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      for (std::int64_t y = 0; y < labels[i].size(0); ++y) {
        for (std::int64_t x = 0; x < labels[i].size(1); ++x) {
          const auto label = labels[i][y][x].item<std::int64_t>();
          const auto answer = answers[i][y][x].item<std::int64_t>();
          if (label < 0) continue;
          both += label == c && answer == c;
          either += label == c || answer == c;
          labelled += label == c;
        }
      }
    }
    metrics["iou_" + names[std::size_t(c)]] = both / either;
    iou_sum += both / either;
    recall_sum += both / labelled;
    right += both;
    all += labelled;
  }
  metrics["miou"] = iou_sum / kClasses;
  metrics["macc"] = recall_sum / kClasses;
  metrics["accuracy"] = right / all;
  return metrics;
}

void expect_metrics(const Metrics& found, const std::map<std::string, double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_NEAR(found.at(name), value, 1e-12) << name;
}

/// Logits of one picture in one pass, at its size. @returns [K, h, w]
Tensor pass_of(const Tensor& picture) {
  OwnChannels model;
  Batch batch;
  batch.size = 1;
  batch.fields.set("image", picture.unsqueeze(0));
  ForwardPass pass;
  const Tensor masks = model.forward(batch, pass).at("mask_logits");
  return at_size(masks, picture.size(1), picture.size(2))[0];
}

Tensor resized_to(const Tensor& map, std::int64_t height, std::int64_t width) {
  return at_size(map.unsqueeze(0), height, width)[0];
}

TEST(SemanticSegmentation, AnswersAtTheLabelMapsOwnSize) {
  at::manual_seed(2);
  const std::vector<NamedTensors> examples = {example(12, 12, 20, 9), example(12, 12, 12, 12),
                                              example(12, 12, 5, 31)};
  std::vector<Tensor> labels, answers;
  for (const NamedTensors& one : examples) {
    labels.push_back(one.at("label_map"));
    answers.push_back(
        resized_to(pass_of(one.at("image")), labels.back().size(0), labels.back().size(1))
            .argmax(0));
  }
  const auto expected = by_loops(labels, answers);
  int together = 0, alone = 0;
  expect_metrics(
      evaluated("semantic_segmentation", "{}", colours(12), {batch_of(examples)}, &together),
      expected);
  expect_metrics(evaluated("semantic_segmentation", "{}", colours(12),
                           {batch_of({examples[2]}), batch_of({examples[0], examples[1]})}, &alone),
                 expected);
  EXPECT_EQ(together, 1) << "a batch of one size is one pass";
  EXPECT_EQ(alone, 2);
}

TEST(SemanticSegmentation, SlidesWindowsOverPicturesOfAllSizes) {
  at::manual_seed(3);
  const std::vector<NamedTensors> examples = {example(10, 14, 10, 14), example(8, 8, 16, 16),
                                              example(8, 20, 8, 20)};
  std::vector<Tensor> labels, answers;
  for (const NamedTensors& one : examples) {
    const Tensor& picture = one.at("image");
    labels.push_back(one.at("label_map"));
    Tensor sum = at::zeros({kClasses, picture.size(1), picture.size(2)}, at::kDouble);
    Tensor count = at::zeros({picture.size(1), picture.size(2)}, at::kDouble);
    std::vector<std::int64_t> places[2];
    for (const int side : {0, 1}) {
      const std::int64_t length = picture.size(side + 1);
      for (std::int64_t at = 0; at + 8 < length; at += 4) places[side].push_back(at);
      places[side].push_back(length - 8);
    }
    for (const std::int64_t top : places[0]) {
      for (const std::int64_t left : places[1]) {
        const Tensor window = picture.narrow(1, top, 8).narrow(2, left, 8).contiguous();
        sum.narrow(1, top, 8).narrow(2, left, 8).add_(pass_of(window));
        count.narrow(0, top, 8).narrow(1, left, 8).add_(1);
      }
    }
    answers.push_back(
        resized_to(sum / count, labels.back().size(0), labels.back().size(1)).argmax(0));
  }
  const std::string options = "{window: 8, stride: 4}";
  expect_metrics(evaluated("semantic_segmentation", options, colours(), {batch_of(examples)}),
                 by_loops(labels, answers));
}

TEST(SemanticSegmentation, GivesOneWindowsAnswerWhereThePictureFits) {
  at::manual_seed(4);
  const std::vector<Batch> batches = {batch_of({example(8, 8, 8, 8), example(8, 8, 11, 7)})};
  const Metrics whole = evaluated("semantic_segmentation", "{}", colours(8), batches);
  for (const char* options : {"{window: 8}", "{window: 8, stride: 2}"}) {
    const Metrics windows = evaluated("semantic_segmentation", options, colours(8), batches);
    for (const auto& [name, value] : whole) EXPECT_EQ(windows.at(name), value) << name;
  }
}

TEST(SemanticSegmentation, EnlargesAPictureThatIsSmallerThanAWindow) {
  at::manual_seed(6);
  const NamedTensors one = example(4, 6, 4, 6);
  const Tensor enlarged = resized_to(one.at("image"), 8, 12);
  Tensor sum = at::zeros({kClasses, 8, 12}, at::kDouble), count = at::zeros({12}, at::kDouble);
  for (const std::int64_t left : {0, 4}) {
    sum.narrow(2, left, 8).add_(pass_of(enlarged.narrow(2, left, 8).contiguous()));
    count.narrow(0, left, 8).add_(1);
  }
  expect_metrics(evaluated("semantic_segmentation", "{window: 8}", colours(), {batch_of({one})}),
                 by_loops({one.at("label_map")}, {resized_to(sum / count, 4, 6).argmax(0)}));
}

TEST(SemanticSegmentation, AveragesScalesAndMirrorImages) {
  at::manual_seed(7);
  const NamedTensors one = example(8, 12, 9, 10);
  Tensor shares = at::zeros({kClasses, 9, 10}, at::kDouble);
  for (const std::int64_t factor : {1, 2}) {
    const Tensor picture = resized_to(one.at("image"), 8 * factor, 12 * factor);
    shares += resized_to(pass_of(picture), 9, 10).softmax(0);
    shares += resized_to(pass_of(picture.flip({2})).flip({2}), 9, 10).softmax(0);
  }
  expect_metrics(evaluated("semantic_segmentation", "{scales: [1, 2], flip: true}", colours(12),
                           {batch_of({one})}),
                 by_loops({one.at("label_map")}, {shares.argmax(0)}));
}

TEST(SemanticSegmentation, CountsLogitsThatAreNoNumbersAsWrong) {
  at::manual_seed(8);
  NamedTensors one = example(8, 8, 8, 8);
  one.at("image").fill_(std::nan(""));
  EXPECT_EQ(evaluated("semantic_segmentation", "{}", colours(8), {batch_of({one})}).at("accuracy"),
            0);
}

// --- bad input ----------------------------------------------------------------------------------

TEST(SemanticSegmentation, RefusesOptionsBeforeAnythingRuns) {
  const auto refusal = [](const std::string& options, const DatasetInfo& data) {
    return message_of<Error>([&] { make_task("semantic_segmentation", data, options); });
  };
  EXPECT_THAT(refusal("{window: 8, stride: 9}", colours()),
              AllOf(HasSubstr("9 is more than the window's 8"), HasSubstr("no answer")));
  EXPECT_THAT(refusal("{stride: 4}", colours(8)), HasSubstr("more than the window's 0"));
  EXPECT_THAT(refusal("{}", colours()), AllOf(HasSubstr("window"), HasSubstr("differ in size"),
                                              HasSubstr("${dataset.crop}")));
  EXPECT_THAT(refusal("{cross_entropy: 0}", colours(8)), HasSubstr("nothing would be learned"));
  EXPECT_THAT(refusal("{scales: []}", colours(8)), HasSubstr("[1] is the picture as it is"));
  DatasetInfo without = colours(8);
  without.fields.erase(without.fields.begin() + 2);
  EXPECT_THAT(refusal("{}", without), HasSubstr("label_map"));
  without = colours(8);
  without.class_names = {"a b", "a-b", "c"};
  EXPECT_THAT(refusal("{}", without), mentions("'iou_a_b'", "rename one"));
}

TEST(SemanticSegmentation, RefusesLabelsAndLogitsThatDoNotFit) {
  const Training training;
  const auto task = make_task("semantic_segmentation", colours(8));
  Batch wrong = training.batch;
  Tensor labels = wrong.fields.at("label_map").clone();
  labels[1][2][3] = kClasses;
  wrong.fields.set("label_map", labels);
  EXPECT_THAT(message_of<DataError>([&] {
                task->loss({{"mask_logits", training.logits}}, wrong);
              }),
              mentions("label_map:", "not below 3"));
  EXPECT_THAT(
      message_of<DataError>([&] { evaluated("semantic_segmentation", "{}", colours(8), {wrong}); }),
      mentions("label_map:", "label 3", "not below 3"));
  const Tensor few = training.logits.narrow(1, 0, 2);
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->loss({{"mask_logits", few}}, training.batch);
              }),
              HasSubstr("mask_logits: expected [2, 3, h, w], found [2, 2, 3, 4]"));
}

// --- corruptions --------------------------------------------------------------------------------

TEST(SegmentationCorruptions, AreThoseOfCorruptedPictures) {
  at::manual_seed(9);
  // Bytes, so that what is corrupted is the picture itself.
  std::vector<NamedTensors> examples = {example(16, 16, 16, 16), example(16, 16, 10, 12)};
  for (NamedTensors& one : examples) {
    const Tensor bytes = at::randint(256, {3, 16, 16}, at::kFloat);
    one.set("image", (bytes / 255 - 0.5) / 0.25);
  }
  const auto corrupted = [&](const std::string& kind, std::int64_t severity) {
    std::vector<NamedTensors> all = examples;
    for (NamedTensors& one : all) {
      Pixels pixels(16, 16, 3);
      const Tensor bytes = ((one.at("image") * 0.25 + 0.5) * 255)
                               .round()
                               .to(at::kByte)
                               .permute({1, 2, 0})
                               .contiguous();
      std::copy_n(bytes.data_ptr<std::uint8_t>(), pixels.bytes.size(), pixels.bytes.begin());
      CorruptionOptions options;
      options.corruption = kind;
      options.severity = severity;
      Corruption(options, 16, 16).apply(pixels);
      const Tensor image = at::empty({3, 16, 16});
      write_image(pixels, PixelMap({0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}), false,
                  image.data_ptr<float>());
      one.set("image", image);
    }
    return evaluated("semantic_segmentation", "{}", colours(16), {batch_of(all)}).at("miou");
  };
  const Metrics found =
      evaluated("segmentation_corruptions", "{corruptions: [fog, pixelate], severities: [1, 5]}",
                colours(16), {batch_of(examples)});
  const double fog = (corrupted("fog", 1) + corrupted("fog", 5)) / 2;
  const double pixelate = (corrupted("pixelate", 1) + corrupted("pixelate", 5)) / 2;
  EXPECT_NEAR(found.at("miou/fog"), fog, 1e-12);
  EXPECT_NEAR(found.at("miou/pixelate"), pixelate, 1e-12);
  EXPECT_NEAR(found.at("miou"), (fog + pixelate) / 2, 1e-12);
  EXPECT_EQ(found.size(), 3U);
}

TEST(SegmentationCorruptions, RefuseListsThatAskForNothing) {
  const auto refusal = [](const std::string& options) {
    return message_of<Error>([&] { make_task("segmentation_corruptions", colours(8), options); });
  };
  EXPECT_THAT(refusal("{corruptions: []}"), HasSubstr("is empty; name some"));
  EXPECT_THAT(refusal("{corruptions: [fog, fog]}"), HasSubstr("names fog more than once"));
  EXPECT_THAT(refusal("{corruptions: [fog], severities: []}"), HasSubstr("is empty; name some"));
  EXPECT_THAT(refusal("{corruptions: [fog, frost], frost: /nowhere}"), HasSubstr("frost1"))
      << "before hours of training";
}

}  // namespace
}  // namespace attnlab::semantic_segmentation_test
