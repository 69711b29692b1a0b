// Explanations against their definitions, computed here by other means, and what is measured of
// them.
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "framework/eval/explanation.h"
#include "tests/support/data_files.h"
#include "tests/support/noise.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::explanation_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::noise;

DatasetInfo pictures(bool boxes = false) {
  DatasetInfo info;
  info.name = "pictures";
  info.classes = 3;
  info.fields = {{"image", {1, 8, 12}, at::kFloat}, {"class", {}, at::kLong}};
  if (boxes) info.fields.push_back({"boxes@box", {-1, 4}, at::kFloat});
  return info;
}

Batch batch_of(const Tensor& image) {
  Batch batch;
  batch.size = image.size(0);
  batch.fields.set("image", image);
  return batch;
}

std::shared_ptr<Model> vit(const std::string& more = "",
                           const std::string& attention = "standard") {
  auto model = testing::make_model(
      "vit", pictures(), "{dim: 8, depth: 3, heads: 2, patch_size: 4" + more + "}", attention);
  model->eval();
  return model;
}

void record(AttentionTrace& trace, const Tensor& weights, const Tensor& logits = {}) {
  LayerTrace layer;
  layer.weights = weights;
  layer.logits = logits;
  trace.layers.push_back(layer);
}

/// Layers whose weights are set by hand, and a logit for each class: its numbers . the weights of
/// row 0.
class ByHand final : public Model {
 public:
  Tensor scores, classes;  ///< [1, H, 7, 7] logits of the attention, [K, 7]
  std::int64_t layers = 1;

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const std::int64_t count = batch.size;
    Tensor sum = at::zeros({count, classes.size(0)}, scores.options());
    for (std::int64_t i = 0; i < layers; ++i) {
      const Tensor logits = (scores * double(i + 1)).expand({count, -1, -1, -1});
      Tensor weights = logits.softmax(-1);
      if (pass.trace != nullptr) {
        const at::AutoGradMode on(true);
        weights = weights.clone().set_requires_grad(pass.trace->attached);
        record(*pass.trace, weights, logits);
      }
      sum = sum + at::matmul(weights.select(2, 0).sum(1), classes.t());
    }
    return {{"logits", sum}};
  }
};

TEST(Explanation, AgCamIsWhatThePaperSays) {
  ByHand model;
  model.scores = noise({1, 2, 7, 7}, 1, at::kDouble);
  model.classes = noise({3, 7}, 2, at::kDouble);
  model.layers = 2;
  const Batch batch = batch_of(at::zeros({1, 1, 8, 12}, at::kDouble));
  for (std::int64_t c = 0; c < 3; ++c) {
    const Explanation found = explain(model, batch, "ag_cam", at::tensor({c}));
    ASSERT_EQ(found.map.sizes(), (std::vector<std::int64_t>{1, 2, 3}));
    for (std::int64_t patch = 0; patch < 6; ++patch) {
      // The logit's slope by every head's weight of a patch is the class's number for that patch.
      const double slope = std::max(0.0, model.classes[c][patch + 1].item<double>());
      double expected = 0;
      for (int layer = 1; layer <= 2; ++layer) {
        for (int head = 0; head < 2; ++head) {
          const double score = layer * model.scores[0][head][0][patch + 1].item<double>();
          expected += slope / (1 + std::exp(-score));
        }
      }
      EXPECT_NEAR(found.map.view({-1})[patch].item<double>(), expected, 1e-12) << patch;
    }
  }
  const Explanation own = explain(model, batch, "ag_cam");
  const Tensor answer = own.logits.argmax(1);
  EXPECT_TRUE(own.map.equal(explain(model, batch, "ag_cam", answer).map));
}

TEST(Explanation, RolloutIsTheProductOfHalvesOfTheIdentity) {
  ByHand model;
  model.scores = noise({1, 2, 7, 7}, 3, at::kDouble);
  model.classes = noise({3, 7}, 4, at::kDouble);
  model.layers = 3;
  const Explanation found =
      explain(model, batch_of(at::zeros({1, 1, 8, 12}, at::kDouble)), "rollout");
  Tensor product = at::eye(7, at::kDouble);
  for (int layer = 1; layer <= 3; ++layer) {
    const Tensor mean = (model.scores[0] * layer).softmax(-1).mean(0);
    product = at::matmul(0.5 * mean + 0.5 * at::eye(7, at::kDouble), product);
  }
  EXPECT_TRUE(found.map.view({-1}).allclose(product[0].narrow(0, 1, 6), 0, 1e-12));
}

TEST(Explanation, OfAVitHasTheSlopesOfItsOwnWeights) {
  // Through every attention that records logits: the map is not flat, and depends on the class.
  const Batch batch = batch_of(noise({4, 1, 8, 12}, 5));
  for (const char* attention :
       {"standard", "quest", "sigmoid", "doubly_stochastic", "elliptical"}) {
    const auto model = vit("", attention);
    const Explanation first = explain(*model, batch, "ag_cam", at::zeros({4}, at::kLong));
    const Explanation other = explain(*model, batch, "ag_cam", at::ones({4}, at::kLong));
    EXPECT_EQ(first.map.sizes(), (std::vector<std::int64_t>{4, 2, 3}));
    EXPECT_GT(first.map.max().item<double>(), first.map.min().item<double>()) << attention;
    EXPECT_FALSE(first.map.allclose(other.map)) << attention;
    ForwardPass pass;
    const c10::NoGradGuard no_grad;
    EXPECT_TRUE(first.logits.allclose(model->forward(batch, pass).at("logits"), 1e-4, 1e-5));
    for (const Tensor& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
  EXPECT_EQ(explain(*vit(", pool: mean"), batch, "rollout").map.size(2), 3);
}

/// Two layers over patches of two sizes, as CrossViT's branches are.
class TwoGrids final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    for (const std::int64_t tokens : {7, 25}) {
      record(*pass.trace, at::ones({batch.size, 1, tokens, tokens}));
    }
    return {{"logits", at::zeros({batch.size, 3})}};
  }
};

TEST(Explanation, RefusesModelsWithoutOneGrid) {
  TwoGrids model;
  EXPECT_THAT(message_of<ShapeError>([&] {
                explain(model, batch_of(at::zeros({1, 1, 8, 12})), "rollout");
              }),
              HasSubstr("the same tokens"));
}

TEST(Explanation, HeatIsStretchedAndBoxesAreFilled) {
  const Tensor map = at::tensor({1.0, 3.0, 2.0, 1.0}).view({1, 2, 2});
  const Tensor heat = heat_of(map, 4, 4)[0];
  EXPECT_EQ(heat.min().item<double>(), 0);
  EXPECT_EQ(heat.max().item<double>(), 1);
  EXPECT_NEAR(heat[0][1].item<double>(), 0.25, 1e-12);  // (1 + 0.25 (3 - 1) - 1) / (3 - 1)
  EXPECT_EQ(heat_of(at::ones({1, 2, 2}), 4, 4).abs().max().item<double>(), 0);
  // Two parts: one of a diagonal (8 neighbours), one alone.
  Tensor hot = at::zeros({6, 8});
  hot[0][0] = hot[1][1] = hot[2][1] = 1;
  hot[4][6] = 1;
  Tensor expected = at::zeros({6, 8}, at::kBool);
  expected.narrow(0, 0, 3).narrow(1, 0, 2).fill_(true);
  expected[4][6] = true;
  EXPECT_TRUE(boxed(hot, 0.5).equal(expected)) << boxed(hot, 0.5);
}

/// What a task measures of a model in one batch.
Metrics measured(const std::string& task_id, const std::string& options, Model& model,
                 const Batch& batch, const DatasetInfo& info) {
  const auto task = testing::make_task(task_id, info, "{" + options + "}");
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) { use(batch); };
  const c10::NoGradGuard no_grad;
  return task->evaluate(evaluation);
}

/// Looks at the first patch of two rows of three, and answers class 1 as far as it is bright.
class FirstPatch final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor image = batch.fields.at("image");
    const at::AutoGradMode on(pass.trace != nullptr);
    Tensor weights = at::zeros({batch.size, 1, 7, 7}, image.options());
    weights.select(3, 1).fill_(1);
    const Tensor bright = image.narrow(2, 0, 4).narrow(3, 0, 4).mean({1, 2, 3}).view({-1, 1});
    if (pass.trace != nullptr) {
      weights.set_requires_grad(pass.trace->attached);
      record(*pass.trace, weights, at::zeros_like(weights));
    }
    const Tensor seen = weights.select(1, 0).select(1, 0).select(1, 1).view({-1, 1}) * bright;
    return {{"logits", at::cat({at::zeros_like(seen), 8 * seen, at::zeros_like(seen)}, 1)}};
  }
};

Batch bright(std::int64_t count) {
  Batch batch = batch_of(at::ones({count, 1, 8, 12}));
  batch.fields.set("class", at::ones({count}, at::kLong));
  return batch;
}

TEST(ImageExplanation, NamesWhatTheAnswerRestsOn) {
  FirstPatch model;
  const Metrics found = measured("image_explanation", "", model, bright(2), pictures());
  EXPECT_EQ(found.at("explained"), 1);
  // 16 of 96 pixels matter. In the worst order they go within the first fifth.
  EXPECT_LT(found.at("morf"), 0.5);
  EXPECT_GT(found.at("lerf"), 0.85);
  EXPECT_NEAR(found.at("abpc"), found.at("lerf") - found.at("morf"), 1e-12);
}

TEST(ImageExplanation, ComparesWithBoxes) {
  FirstPatch model;
  Batch batch = bright(2);
  // The map is 1 on the first patch, 0 elsewhere; bilinearly enlarged it is above 1/2 on 4 x 4
  // pixels, which published code fills one pixel further.
  batch.fields.set("boxes@box", at::tensor({0.f, 0.f, 4.f, 4.f, 0.f, 0.f, 9.f, 4.f}).view({2, 4}));
  batch.offsets.set("box", at::tensor({0, 1, 2}, at::kLong));
  const Metrics found =
      measured("image_explanation", "perturb: false", model, batch, pictures(/*boxes=*/true));
  EXPECT_NEAR(found.at("iou"), (1 + 0.5) / 2, 1e-5);
  EXPECT_NEAR(found.at("dice"), (1 + 2 * 25.0 / 75) / 2, 1e-5);
  EXPECT_NEAR(found.at("pixel_accuracy"), (1 + (96 - 25.0) / 96) / 2, 1e-5);
  // A box far beyond the image ends with it: it is all of it.
  batch.fields.set("boxes@box",
                   at::tensor({-1e30f, 0.f, 1e30f, 1e30f, 0.f, 0.f, 4.f, 4.f}).view({2, 4}));
  EXPECT_NEAR(
      measured("image_explanation", "perturb: false", model, batch, pictures(true)).at("iou"),
      (25.0 / 96 + 1) / 2, 1e-5);
  batch.fields.set("boxes@box", at::tensor({0.f, 0.f, 4.f, 4.f, 0.f, 0.f, 9.f, 4.f}).view({2, 4}));
  // An image that is classified wrongly does not count.
  batch.fields.set("class", at::tensor({1, 0}, at::kLong));
  const Metrics one =
      measured("image_explanation", "perturb: false", model, batch, pictures(/*boxes=*/true));
  EXPECT_NEAR(one.at("iou"), 1, 1e-5);
  EXPECT_EQ(one.at("explained"), 0.5);
}

TEST(ImageOcclusion, BlanksPatchesInItsOrder) {
  FirstPatch model;
  DatasetInfo info = pictures();
  info.fields[0].shape = {1, 12, 12};
  Batch batch = batch_of(at::ones({40, 1, 12, 12}));
  for (std::int64_t i = 0; i < 40; ++i)
    batch.fields.at("image")[i][0][11][11] = double(i);  // differ
  batch.fields.set("class", at::ones({40}, at::kLong));
  const Metrics random =
      measured("image_occlusion", "grid: 3, shares: [0, 0.5, 1]", model, batch, info);
  EXPECT_EQ(random.at("clean_accuracy"), 1);
  EXPECT_EQ(random.at("at/0"), 1);
  EXPECT_EQ(random.at("at/1"), 0);
  EXPECT_NEAR(random.at("at/0.5"), 5 / 9.0, 0.25);  // 4 of 9 patches are blanked
  EXPECT_NEAR(random.at("accuracy"), (1 + random.at("at/0.5")) / 3, 1e-12);
  EXPECT_THAT(
      message_of<ConfigError>([&] { measured("image_occlusion", "grid: 5", model, batch, info); }),
      HasSubstr("common divisor"));
  // By salience, on the 2 x 3 patches that the model looks at.
  const auto at = [&](const std::string& order) {
    DatasetInfo wide = pictures();
    Batch all = bright(3);
    return measured("image_occlusion", "grid: 2, shares: [0.3, 0.8], order: " + order, model, all,
                    wide);
  };
  EXPECT_EQ(at("salient").at("at/0.3"), 0);
  EXPECT_EQ(at("least_salient").at("at/0.3"), 1);
  EXPECT_EQ(at("least_salient").at("at/0.8"), 1);
}

/// Class 1 where an image's mean is above the threshold.
class Brightness final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor mean = batch.fields.at("image").mean({1, 2, 3}).view({-1, 1});
    return {{"logits", at::cat({at::zeros_like(mean), mean, at::full_like(mean, -9)}, 1)}};
  }
};

TEST(ImageCorruptions, WeighErrorsByThoseOfAlexNet) {
  Brightness model;
  DatasetInfo info = pictures();
  EXPECT_THAT(message_of<DataError>([&] { testing::make_task("image_corruptions", info, "{}"); }),
              HasSubstr("how its images are normalised"));
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  // Of levels a little below the middle: brightness makes them class 1, contrast keeps class 0.
  Batch batch = batch_of(((at::full({4, 1, 8, 12}, 120 / 255.0) - 0.5) / 0.25));
  batch.fields.set("class", at::zeros({4}, at::kLong));
  const Metrics found =
      measured("image_corruptions", "corruptions: [brightness, contrast], severities: [1, 5]",
               model, batch, info);
  EXPECT_EQ(found.at("error/brightness"), 1);
  EXPECT_EQ(found.at("error/contrast"), 0);
  EXPECT_NEAR(found.at("error"), 0.5, 1e-12);
  EXPECT_NEAR(found.at("accuracy"), 0.5, 1e-12);
  EXPECT_NEAR(found.at("error_over_alexnet"), 0.5 / 0.564592, 1e-9);
  EXPECT_EQ(found.count("mce"), 0U) << "mCE is of fifteen corruptions at five severities";
  const Metrics extra =
      measured("image_corruptions", "corruptions: [gaussian_blur]", model, batch, info);
  EXPECT_EQ(extra.count("mce"), 0U);
  EXPECT_EQ(extra.count("error_over_alexnet"), 0U) << "AlexNet's error is not published";
  EXPECT_EQ(extra.at("error"), 0);
}

TEST(ImageCorruptions, HaveAnMceOfTheWholeSetAlone) {
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  const auto third = [&](const std::string& options) {
    return testing::make_task("image_corruptions", info, "{" + options + "}")->metrics()[2].name;
  };
  EXPECT_EQ(third(""), "mce");
  EXPECT_EQ(third("severities: [5, 4, 3, 2, 1]"), "mce");
  EXPECT_EQ(third("severities: [1, 2, 3, 4]"), "error_over_alexnet");
  EXPECT_EQ(third("corruptions: [fog, snow]"), "error_over_alexnet");
  EXPECT_EQ(third("corruptions: [fog, spatter]"), "error/fog");
}

// Errors are all 1 of a model that is always wrong, so mCE is the mean of one over AlexNet's
// errors: those of Hendrycks & Dietterich, table 1's caption and code, read anew.
TEST(ImageCorruptions, HaveTheMceOfAlexNetsErrors) {
  constexpr double kAlexNet[] = {.886428, .894468, .922640, .819880, .826268,
                                 .785948, .798360, .866816, .826572, .819324,
                                 .564592, .853204, .717840, .646056, .606500};
  double expected = 0;
  for (const double error : kAlexNet) expected += 1 / error / 15;
  testing::TempFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("frost" + std::to_string(i) + ".ppm", "P6\n20 20\n255\n" + std::string(1200, 'x'));
  }
  Brightness model;
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  Batch batch = bright(2);
  batch.fields.set("class", at::full({2}, 2, at::kLong));
  const Metrics found =
      measured("image_corruptions", "constants: imagenet, frost: '" + folder.path() + "'", model,
               batch, info);
  EXPECT_EQ(found.at("error"), 1);
  EXPECT_NEAR(found.at("mce"), expected, 1e-9);
}

/// No logit is a number.
class NoNumbers final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    if (pass.trace != nullptr) {
      const at::AutoGradMode on(true);
      const Tensor weights = at::full({batch.size, 1, 7, 7}, 1 / 7.0).set_requires_grad(true);
      record(*pass.trace, weights, at::zeros_like(weights));
      return {{"logits", weights.sum() * at::full({batch.size, 3}, NAN)}};
    }
    return {{"logits", at::full({batch.size, 3}, NAN)}};
  }
};

// argmax takes the first of what is no number: class 0, which would be right here.
TEST(ImageTasks, CountLogitsThatAreNoNumbersAsWrong) {
  NoNumbers model;
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  Batch batch = bright(3);
  batch.fields.set("class", at::zeros({3}, at::kLong));
  EXPECT_EQ(
      measured("image_corruptions", "corruptions: [contrast]", model, batch, info).at("error"), 1);
  const Metrics occluded =
      measured("image_occlusion", "grid: 4, shares: [0.5]", model, batch, info);
  EXPECT_EQ(occluded.at("clean_accuracy"), 0);
  EXPECT_EQ(occluded.at("at/0.5"), 0);
  EXPECT_EQ(measured("image_explanation", "", model, batch, info).at("explained"), 0);
}

}  // namespace
}  // namespace attnlab::explanation_test
