// Attacks on models whose weakest directions are known, and what the task makes of them.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "plugins/tasks/images/image_attack/attack.h"
#include "tests/support/data_files.h"
#include "tests/support/noise.h"
#include "tests/support/plugins.h"

namespace attnlab::image_attack_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::noise;

constexpr std::int64_t kClasses = 5, kPixels = 8;

DatasetInfo small_images(bool normalised = true) {
  DatasetInfo info;
  info.name = "small images";
  info.classes = kClasses;
  info.fields = {{"image", {1, 2, 4}, at::kFloat}, {"class", {}, at::kLong}};
  if (normalised) {
    info.fields[0].mean = {0.5};
    info.fields[0].deviation = {0.25};
  }
  return info;
}

/// logits = W2 f(W1 x); without W1 linear. It reads normalised images.
class Known final : public Model {
 public:
  explicit Known(Tensor weight, Tensor inner = {}) : inner_(std::move(inner)) {
    weight_ = register_parameter("weight", std::move(weight));
  }
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    Tensor x = batch.fields.at("image").flatten(1);
    if (steps > 0) x = (x * steps).round() / steps;  // its gradient is 0
    if (inner_.defined()) x = at::linear(x, inner_).tanh();
    return {{"logits", at::linear(x, weight_)}};
  }
  double steps = 0;

 private:
  Tensor weight_, inner_;
};

std::shared_ptr<Known> linear_model() {
  return std::make_shared<Known>(noise({kClasses, kPixels}, 3, at::kDouble));
}

std::shared_ptr<Known> curved_model() {
  return std::make_shared<Known>(noise({kClasses, 12}, 4, at::kDouble) * 2,
                                 noise({12, kPixels}, 5, at::kDouble) * 2);
}

/// Pixels well inside 0..1, and what the model answers of them.
struct Scene {
  std::shared_ptr<Known> model;
  Classifier classifier;
  Target target;

  explicit Scene(std::shared_ptr<Known> known, double eps, std::int64_t count = 24,
                 std::uint64_t seed = 9)
      : model(std::move(known)),
        classifier(*model, small_images().fields[0], /*pixel_space=*/true, 1),
        target{classifier, 0.5 + 0.3 * noise({count, 1, 2, 4}, seed, at::kDouble),
               {},         eps,
               {},         {},
               {},         RandomStreams(5)} {
    target.labels = classifier.logits(target.images).argmax(1);
    std::tie(target.low, target.high) = classifier.picture_range(target.images);
    for (std::int64_t i = 0; i < count; ++i) target.keys.push_back(static_cast<std::uint64_t>(i));
  }
  Tensor margins(const Tensor& images) const {
    return margin_of(classifier.logits(images), target.labels);
  }
  double fooled(const Tensor& images) const { return margins(images).le(0).sum().item<double>(); }
};

/// The model's weights seen from pixels.
Tensor pixel_weights(const Known& model) {
  return model.named_parameters()["weight"].detach() / 0.25;
}

TEST(ImageAttack, FgsmIsTheWorstOfALinearModelOfTwoClasses) {
  Scene scene(std::make_shared<Known>(noise({2, kPixels}, 3, at::kDouble)), 0.05, 6);
  const Tensor margins = scene.margins(fgsm(scene.target));
  Tensor worst = scene.margins(scene.target.images);
  for (int corner = 0; corner < 256; ++corner) {
    Tensor signs = at::empty({1, 1, 2, 4}, at::kDouble);
    for (int i = 0; i < 8; ++i) signs.view({-1})[i] = (corner >> i & 1) != 0 ? 1 : -1;
    worst = at::minimum(worst, scene.margins(scene.target.images + 0.05 * signs));
  }
  EXPECT_TRUE(margins.allclose(worst, 0, 1e-12)) << margins << worst;
  // By its formula: the margin falls by eps |w_y - w_other|_1.
  const Tensor weights = pixel_weights(*scene.model);
  const double fall = 0.05 * (weights[0] - weights[1]).abs().sum().item<double>();
  const Tensor expected = scene.margins(scene.target.images) - fall;
  EXPECT_TRUE(margins.allclose(expected, 0, 1e-12));
  // PGD ends in the same corner, since its steps are large enough to cross the ball.
  EXPECT_TRUE(scene.margins(pgd(scene.target, 20, 0.01)).allclose(worst, 0, 1e-12));
}

TEST(ImageAttack, StaysInsideTheBallAndAmongPictures) {
  Scene scene(curved_model(), 0.3);  // large: the range of a picture binds, too
  const std::pair<const char*, Tensor> all[] = {
      {"fgsm", fgsm(scene.target)},
      {"pgd", pgd(scene.target, 5, 0.2)},
      {"spsa", spsa(scene.target, {.steps = 3, .samples = 8, .rate = 0.2})},
      {"apgd_ce", apgd_ce(scene.target, 20)},
      {"apgd_t", apgd_targeted(scene.target, 20, 9)},
      {"fab_t", fab_targeted(scene.target, 20, 9)},
      {"square", square_attack(scene.target, 50)},
  };
  for (const auto& [name, images] : all) {
    EXPECT_LE((images - scene.target.images).abs().max().item<double>(), 0.3 + 1e-12) << name;
    EXPECT_GE(images.min().item<double>(), 0) << name;
    EXPECT_LE(images.max().item<double>(), 1) << name;
    EXPECT_GT((images - scene.target.images).abs().max().item<double>(), 0.01) << name;
  }
}

TEST(ImageAttack, ApgdIsNoWorseThanPgdOfAsManySteps) {
  // Of a linear model of two classes it fools all that can be fooled.
  Scene plain(std::make_shared<Known>(noise({2, kPixels}, 3, at::kDouble)), 0.05, 60);
  const double possible = plain.fooled(fgsm(plain.target));
  EXPECT_GT(possible, 5);
  EXPECT_LT(possible, 55);
  EXPECT_EQ(plain.fooled(apgd_ce(plain.target, 20)), possible);
  // Of a curved one single images may escape either; over many it wins.
  double all_by_pgd = 0, all_by_apgd = 0;
  for (const std::uint64_t seed : {9, 10, 11}) {
    for (const double eps : {0.02, 0.05}) {
      Scene scene(curved_model(), eps, 150, seed);
      const double by_pgd = scene.fooled(pgd(scene.target, 20, 0.15 * eps));
      EXPECT_GE(scene.fooled(apgd_targeted(scene.target, 20, 9)), by_pgd) << eps;
      all_by_pgd += by_pgd;
      all_by_apgd += scene.fooled(apgd_ce(scene.target, 20));
    }
  }
  EXPECT_GE(all_by_apgd, all_by_pgd);
}

TEST(ImageAttack, FabFindsTheDistanceToTheBoundaryOfALinearModel) {
  Scene scene(linear_model(), 1);
  const Tensor weights = pixel_weights(*scene.model);
  const Tensor found = fab_targeted(scene.target, 20, 4);
  const Tensor logits = scene.classifier.logits(scene.target.images);
  for (std::int64_t i = 0; i < found.size(0); ++i) {
    const auto label = scene.target.labels[i].item<std::int64_t>();
    // Towards the runner-up, as it is tried first; the range of a picture is far enough.
    const auto next = logits[i].argsort(0, true)[1].item<std::int64_t>();
    const double distance = (logits[i][label] - logits[i][next]).item<double>() /
                            (weights[label] - weights[next]).abs().sum().item<double>();
    const double moved = (found[i] - scene.target.images[i]).abs().max().item<double>();
    if (distance > 0.15) continue;
    EXPECT_GE(moved, distance * 0.999) << i;
    EXPECT_LE(moved, distance * 1.06) << i;  // 5 % overshoot
  }
}

TEST(ImageAttack, ProjectsOntoPlanesWithinABox) {
  const std::int64_t count = 50, values = 7;
  const Tensor points = 0.5 + 0.5 * noise({count, values}, 1, at::kDouble);
  Tensor weights = noise({count, values}, 2, at::kDouble);
  weights.select(1, 3).zero_();
  const Tensor offsets = (weights * points).sum(1) + 2 * noise({count}, 3, at::kDouble);
  const Tensor low = at::zeros_like(points), high = at::ones_like(points);
  const Tensor moves = onto_plane(points, weights, offsets, low, high);
  for (std::int64_t i = 0; i < count; ++i) {
    const double needed = (offsets[i] - (weights[i] * points[i]).sum()).item<double>();
    const auto reach = [&](double length) {  // by definition, with every coordinate moved so far
      const Tensor aim = points[i] + length * weights[i].sign() * (needed > 0 ? 1 : -1);
      return std::abs((weights[i] * (aim.clamp(0, 1) - points[i])).sum().item<double>());
    };
    double least = 0, most = 1;
    for (int k = 0; k < 60; ++k) {
      const double middle = (least + most) / 2;
      (reach(middle) < std::abs(needed) ? least : most) = middle;
    }
    const Tensor after = points[i] + moves[i];
    EXPECT_GE(after.min().item<double>(), -1e-12);
    EXPECT_LE(after.max().item<double>(), 1 + 1e-12);
    EXPECT_EQ(moves[i][3].item<double>(), 0);
    if (reach(1) > std::abs(needed)) {
      EXPECT_NEAR((weights[i] * moves[i]).sum().item<double>(), needed, 1e-9) << i;
      EXPECT_NEAR(moves[i].abs().max().item<double>(), most, 1e-9) << i;
    } else {
      EXPECT_NEAR(std::abs((weights[i] * moves[i]).sum().item<double>()), reach(1), 1e-9) << i;
    }
  }
}

TEST(ImageAttack, DlrIsThatOfThePaper) {
  const Tensor logits = at::tensor({3.0, 1.0, 0.5, 7.0, 5.0}).view({1, 5});
  const auto loss = [&](std::int64_t label, std::int64_t towards) {
    return targeted_dlr(logits, at::tensor({label}), at::tensor({towards})).item<double>();
  };
  // sorted 7 5 3 1 0.5: -(z_y - z_t) / (7 - (3 + 1) / 2)
  EXPECT_NEAR(loss(3, 4), -(7 - 5) / 5.0, 1e-9);
  EXPECT_NEAR(loss(0, 3), (7 - 3) / 5.0, 1e-9);
  EXPECT_NEAR(margin_of(logits, at::tensor({std::int64_t{3}})).item<double>(), 2, 1e-12);
  EXPECT_NEAR(margin_of(logits, at::tensor({std::int64_t{1}})).item<double>(), -6, 1e-12);
}

TEST(ImageAttack, SpsaFollowsTheMarginAndPublishedCodeLooksElsewhere) {
  Scene scene(linear_model(), 0.05, 4);
  const Tensor before = scene.margins(scene.target.images);
  const SpsaSettings settings{.steps = 20, .samples = 64, .rate = 0.01};
  const Tensor after = scene.margins(spsa(scene.target, settings));
  EXPECT_TRUE(after.lt(before).all().item<bool>()) << before << after;
  // Of a linear model within one face of the margin the gradient is the same everywhere.
  Scene curved(curved_model(), 0.05, 4);
  SpsaSettings published = settings;
  published.published = true;
  EXPECT_FALSE(spsa(curved.target, settings).equal(spsa(curved.target, published)));
}

/// Always class 0. Keeps what it was asked of.
class Unmoved final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor& x = batch.fields.at("image");
    asked.push_back(x.clone());
    const Tensor none = at::zeros({x.size(0), 1}, x.options());
    return {{"logits", at::cat({none + 5, none, none, none, none}, 1)}};
  }
  std::vector<Tensor> asked;
};

// AutoAttack's standard version has resc_schedule=False: 0.8 of the image is halved behind queries
// 10, 50, 200, 500, 1000, 2000 and 4000, whatever the budget; a side is sqrt(0.8 * 32 * 32 / 2^k),
// rounded.
TEST(ImageAttack, SquareHasTheSidesOfAutoAttacksStandardVersion) {
  const std::pair<std::int64_t, std::int64_t> sides[] = {{0, 29},  {20, 20},  {150, 14}, {300, 10},
                                                         {700, 7}, {1500, 5}, {2500, 4}, {4500, 3}};
  for (const std::int64_t queries : {701, 4501}) {
    Unmoved model;
    FieldInfo field = small_images().fields[0];
    field.mean = {0};
    field.deviation = {1};
    const Classifier classifier(model, field, /*pixel_space=*/true, 1);
    const std::int64_t count = 4;
    Target target{classifier,
                  at::full({count, 1, 32, 32}, 0.5),
                  at::zeros({count}, at::kLong),
                  0.1,
                  {},
                  {},
                  {},
                  RandomStreams(5)};
    std::tie(target.low, target.high) = classifier.picture_range(target.images);
    for (std::uint64_t i = 0; i < 4; ++i) target.keys.push_back(i);
    square_attack(target, queries);
    ASSERT_EQ(std::ssize(model.asked), 1 + queries);
    for (const auto& [query, side] : sides) {
      if (query >= queries) continue;
      // Nothing is kept, so each is the start but for one square, where columns turn that had the
      // other sign: of four images some do.
      const Tensor turned = (model.asked[std::size_t(1 + query)] - model.asked[0]).abs().gt(0.1);
      const Tensor rows = turned.any(3).sum(2);
      EXPECT_EQ(rows.max().item<std::int64_t>(), side) << query << " of " << queries;
    }
  }
}

TEST(ImageAttack, DrawsByTheImageNotByItsBatch) {
  Scene scene(curved_model(), 0.1);
  const Tensor rows = at::tensor({7, 2}, at::kLong);
  const Target two = scene.target.part(rows);
  const auto same = [&](const Tensor& all, const Tensor& some) {
    return all.index_select(0, rows).allclose(some, 0, 1e-12);
  };
  EXPECT_TRUE(same(pgd(scene.target, 5, 0.02), pgd(two, 5, 0.02)));
  EXPECT_TRUE(same(apgd_ce(scene.target, 10), apgd_ce(two, 10)));
  EXPECT_TRUE(same(square_attack(scene.target, 30), square_attack(two, 30)));
  const SpsaSettings settings{.steps = 2, .samples = 4};
  EXPECT_TRUE(same(spsa(scene.target, settings), spsa(two, settings)));
}

/// What the task measures of a model on some images.
/// @param classes  the images' classes from the model's answers; none: these are right
Metrics measured(Model& model, const std::string& options, const DatasetInfo& info = small_images(),
                 std::int64_t count = 40,
                 const std::function<Tensor(const Tensor&)>& classes = nullptr) {
  const auto task = testing::make_task("image_attack", info, "{" + options + "}");
  task->to(at::kDouble);
  Batch all;
  all.size = count;
  all.fields.set("image", 1.2 * noise({count, 1, 2, 4}, 9, at::kDouble));
  ForwardPass pass;
  const c10::NoGradGuard no_grad;
  const Tensor answers = model.forward(all, pass).at("logits").argmax(1);
  all.fields.set("class", classes ? classes(answers) : answers);
  Evaluation evaluation{model, info, Split::test, RandomStreams(5), {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) {
    use(slice(all, 0, std::min<std::int64_t>(15, count)));
    if (count > 15) use(slice(all, 15, count - 15));
  };
  return task->evaluate(evaluation);
}

TEST(ImageAttack, AutoNeverRaisesRobustAccuracy) {
  const auto model = curved_model();
  const Metrics found = measured(*model, "attack: auto, eps: 0.03, steps: 20");
  EXPECT_EQ(found.at("clean_accuracy"), 1);
  double before = 1;
  for (const char* stage : {"apgd_ce", "apgd_t", "fab_t", "square"}) {
    EXPECT_LE(found.at(std::string("after/") + stage), before) << stage;
    before = found.at(std::string("after/") + stage);
  }
  EXPECT_EQ(found.at("accuracy"), before);
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 1);
  EXPECT_LE(before, measured(*model, "attack: pgd, eps: 0.03").at("accuracy"));
  EXPECT_LE(found.at("distance"), 0.03 + 1e-9);
  EXPECT_EQ(found.at("black_box_only"), 0);
  EXPECT_GT(found.at("queries"), 20);
  EXPECT_EQ(found.at("steps/square"), 20);
  EXPECT_EQ(measured(*model, "attack: pgd, eps: 0.03").at("steps/pgd"), 20);
}

/// A linear model whose logits have noise: another one at each pass.
class Noisy final : public Model {
 public:
  explicit Noisy(std::shared_ptr<Known> exact) : exact_(register_module("exact", exact)) {}
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor logits = exact_->forward(batch, pass).at("logits");
    ++passes;
    return {{"logits", logits + 0.8 * noise(logits.sizes().vec(), ++seed_, at::kDouble)}};
  }
  std::int64_t passes = 0;

 private:
  std::shared_ptr<Known> exact_;
  int seed_ = 100;
};

TEST(ImageAttack, OfAModelWithRandomnessIsOverDrawsAndJudgedBySeveral) {
  Noisy model(linear_model());
  Batch batch;
  batch.size = 1;
  const FieldInfo field = small_images().fields[0];
  const Tensor images = 0.5 + 0.3 * noise({12, 1, 2, 4}, 9, at::kDouble);
  const auto spread = [&](std::int64_t draws) {
    const Classifier classifier(model, field, /*pixel_space=*/true, draws);
    return (classifier.logits(images) - classifier.logits(images)).pow(2).mean().item<double>();
  };
  EXPECT_LT(spread(100), 0.03 * spread(1)) << "a mean over 100 passes";
  model.passes = 0;
  const Metrics found = measured(model, "attack: pgd, steps: 3, eps: 0.02, draws: 5");
  // One pass names the classes; then for each of two batches 5 together and 5 by themselves before
  // the attack, 3 steps of 5, and 5 by themselves behind it.
  EXPECT_EQ(model.passes, 1 + 2 * (10 + 15 + 5));
  EXPECT_EQ(std::fmod(found.at("accuracy") * 40 * 5 + 1e-9, 1) < 1e-6, true)
      << "a share of 40 images times 5 judgements";
  EXPECT_NEAR(found.at("queries"), 10 + 15 + 5, 1e-9);
}

TEST(ImageAttack, ReportsMaskedGradients) {
  const auto model = linear_model();
  model->steps = 8;
  ::testing::internal::CaptureStderr();
  const Metrics found = measured(*model, "attack: auto, eps: 0.1, steps: 200, targets: 1");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("gradients of this model"));
  EXPECT_GT(found.at("black_box_only"), 0.1);
}

// The same warning where an attack without gradients stands alone: what it is compared to is made
// beside it, and counts for nothing else.
TEST(ImageAttack, ReportsMaskedGradientsOfBlackBoxAttacksAlone) {
  const auto masked = linear_model();
  masked->steps = 8;
  const std::pair<const char*, const char*> attacks[] = {
      {"Square", "attack: square, eps: 0.1, steps: 200"},
      {"SPSA", "attack: spsa, eps: 0.1, steps: 30, samples: 64, delta: 0.1, step_size: 0.02"}};
  for (const auto& [name, options] : attacks) {
    ::testing::internal::CaptureStderr();
    const Metrics found = measured(*masked, options);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr(std::string("fooled by ") + name + " and by no attack with gradients"));
    EXPECT_GT(found.at("black_box_only"), 0.1) << name;
    EXPECT_LE(found.at("black_box_only"), 1 - found.at("accuracy")) << name;
    ::testing::internal::CaptureStderr();
    const Metrics sound = measured(*linear_model(), options);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << name;
    EXPECT_EQ(sound.at("black_box_only"), 0) << name;
    EXPECT_LT(sound.at("accuracy"), 1) << name;
  }
  // 40 images; 3 steps of 2 * 4 directions and a look before and behind.
  EXPECT_EQ(measured(*linear_model(), "attack: spsa, steps: 3, samples: 4").at("queries"),
            3 * 8 + 2);
  EXPECT_EQ(measured(*linear_model(), "attack: pgd").count("black_box_only"), 0U);
}

// CleverHans' code estimates around 2 x, wherever the perturbation is; corrected, around where it
// is, which changes from step to step.
TEST(ImageAttack, SpsaLooksWhereThePublishedCodeLooks) {
  for (const bool published : {true, false}) {
    Unmoved model;
    FieldInfo field = small_images().fields[0];
    field.mean = {0};
    field.deviation = {1};
    const Classifier classifier(model, field, /*pixel_space=*/true, 1);
    Target target{classifier,
                  at::full({1, 1, 4, 4}, 0.3, at::kDouble),
                  at::zeros({1}, at::kLong),
                  0.2,
                  {},
                  {},
                  {7},
                  RandomStreams(5)};
    std::tie(target.low, target.high) = classifier.picture_range(target.images);
    spsa(target, {.steps = 3, .samples = 5, .delta = 0.01, .published = published});
    ASSERT_EQ(model.asked.size(), 3U);
    for (const Tensor& asked : model.asked) {
      ASSERT_EQ(asked.size(0), 10);
      // Directions come with their opposites: their mean is where it looks, and each is delta off.
      const Tensor middle = asked.mean(0);
      EXPECT_TRUE((asked - middle).abs().allclose(at::full_like(asked, 0.01), 0, 1e-9));
      const double away = (middle - 0.6).abs().max().item<double>();
      if (published) {
        EXPECT_LT(away, 1e-9);
      } else {
        EXPECT_GT(away, 0.05);
        EXPECT_LE((middle - 0.3).abs().max().item<double>(), 0.2 + 1e-9);
      }
    }
  }
}

// AutoAttack's standard version: 100 steps, 5000 queries, nine classes.
TEST(ImageAttack, AutoHasTheStandardOrderAndBudget) {
  DatasetInfo info = small_images();
  info.classes = 12;
  std::vector<std::string> after;
  for (const MetricInfo& metric :
       testing::make_task("image_attack", info, "{attack: auto}")->metrics()) {
    if (metric.name.starts_with("after/")) after.push_back(metric.name.substr(6));
  }
  EXPECT_EQ(after, (std::vector<std::string>{"apgd_ce", "apgd_t", "fab_t", "square"}));
  // Nothing fools it, so that every step is made.
  class Certain final : public Model {
   public:
    NamedTensors forward(const Batch& batch, ForwardPass&) override {
      const Tensor x = batch.fields.at("image").flatten(1);
      const Tensor first = at::zeros({12}, x.options());
      first[0] = 100;
      queries += x.size(0);
      return {{"logits", first + 0.01 * x.narrow(1, 0, 1) * at::arange(12, x.options())}};
    }
    std::int64_t queries = 0;
  } model;
  const Metrics found = measured(model, "attack: auto, eps: 0.01", info, 1);
  EXPECT_EQ(found.at("steps/apgd_ce"), 100);
  EXPECT_EQ(found.at("steps/apgd_t"), 100);
  EXPECT_EQ(found.at("steps/fab_t"), 100);
  EXPECT_EQ(found.at("steps/square"), 5000);
  EXPECT_EQ(found.at("accuracy"), 1);
  // 5000 of Square, 100 of APGD-CE and 9 * 100 of each targeted attack, and what looks between.
  EXPECT_GT(found.at("queries"), 5000 + 100 + 2 * 900);
  EXPECT_LT(found.at("queries"), 5000 + 102 + 2 * 9 * 103 + 20 + 9 * 300);
}

// Where values are normalised the ball is of those values, in single precision to its rounding, and
// candidates stay pictures: channels have ranges of their own.
TEST(ImageAttack, StaysInsideTheBallOfNormalisedValuesToo) {
  FieldInfo field{"image", {2, 2, 4}, at::kFloat};
  field.mean = {0.5, 0.2};
  field.deviation = {0.25, 0.5};
  const auto model = std::make_shared<Known>(2 * noise({kClasses, 12}, 4, at::kFloat),
                                             2 * noise({12, 16}, 5, at::kFloat));
  const Classifier classifier(*model, field, /*pixel_space=*/false, 1);
  const Tensor pixels = at::clamp(0.5 + 0.5 * noise({24, 2, 2, 4}, 9, at::kFloat), 0, 1);
  const Tensor mean = at::tensor({0.5F, 0.2F}).view({1, 2, 1, 1});
  const Tensor deviation = at::tensor({0.25F, 0.5F}).view({1, 2, 1, 1});
  Target target{classifier, (pixels - mean) / deviation, {}, 0.3, {}, {}, {}, RandomStreams(5)};
  target.labels = classifier.logits(target.images).argmax(1);
  std::tie(target.low, target.high) = classifier.picture_range(target.images);
  for (std::uint64_t i = 0; i < 24; ++i) target.keys.push_back(i);
  const double before =
      margin_of(classifier.logits(target.images), target.labels).mean().item<double>();
  const std::pair<const char*, Tensor> all[] = {
      {"fgsm", fgsm(target)},
      {"pgd", pgd(target, 10, 0.05)},
      {"spsa", spsa(target, {.steps = 10, .samples = 16, .rate = 0.05})},
      {"apgd_ce", apgd_ce(target, 20)},
      {"apgd_t", apgd_targeted(target, 20, 4)},
      {"fab_t", fab_targeted(target, 20, 4)},
      {"square", square_attack(target, 200)}};
  for (const auto& [name, images] : all) {
    EXPECT_EQ(images.scalar_type(), at::kFloat) << name;
    EXPECT_LE((images - target.images).abs().max().item<double>(), 0.3 + 2e-6) << name;
    const Tensor back = images * deviation + mean;
    EXPECT_GE(back.min().item<double>(), -1e-6) << name;
    EXPECT_LE(back.max().item<double>(), 1 + 1e-6) << name;
    EXPECT_LT(margin_of(classifier.logits(images), target.labels).mean().item<double>(), before)
        << name;
  }
}

/// Always class 0, but class 1 of one image where its first two pixels are at an upper corner of
/// the ball: nothing leads there, and only random search looks at corners.
class Corner final : public Model {
 public:
  static constexpr double kEps = 0.01 / 0.25;  // of normalised pixels

  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor x = batch.fields.at("image").flatten(1);
    const Tensor way = x - special_;
    const Tensor there = way.abs().amax(1).le(1.01 * kEps);
    const Tensor corner = way.narrow(1, 0, 2).amin(1).ge(0.99 * kEps);
    const Tensor fooled = there.logical_and(corner).to(at::kDouble).view({-1, 1});
    const Tensor none = 0 * x.narrow(1, 0, 1);
    return {{"logits", at::cat({none + 5, 9 * fooled + none, none, none, none}, 1)}};
  }

 private:
  const Tensor special_ = 1.2 * noise({1, 1, 2, 4}, 9, at::kDouble).flatten(1);  // the first image
};

TEST(ImageAttack, WarnsOfMaskedGradientsWhereMoreThanAFewImagesSaySo) {
  Corner model;
  const auto said = [&](std::int64_t count) {
    ::testing::internal::CaptureStderr();
    const Metrics found =
        measured(model, "attack: auto, eps: 0.01, steps: 300, targets: 1", small_images(), count);
    EXPECT_NEAR(found.at("black_box_only"), 1.0 / double(count), 1e-12);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(40), HasSubstr("1 of 40 images"));
  EXPECT_EQ(said(600), "") << "one in 600 is less than 0.2 %";
}

/// Class 0 by a logit that falls with the first pixel; above a threshold no logit is a number.
class Overflows final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor first = batch.fields.at("image").flatten(1).narrow(1, 0, 1);
    const Tensor none = at::zeros_like(first);
    const Tensor logits = at::cat({5 - first, none + 1, none, none, none}, 1);
    return {{"logits", at::where(first.gt(0.2), at::full_like(logits, NAN), logits)}};
  }
};

// argmax takes the first of what is no number: class 0, which would be right here.
TEST(ImageAttack, CountsLogitsThatAreNoNumbersAsWrong) {
  Overflows model;
  const Classifier classifier(model, small_images().fields[0], /*pixel_space=*/true, 1);
  Target target{classifier,
                at::full({16, 1, 2, 4}, 0.5, at::kDouble),
                at::zeros({16}, at::kLong),
                0.6,
                {},
                {},
                {},
                RandomStreams(5)};
  std::tie(target.low, target.high) = classifier.picture_range(target.images);
  for (std::uint64_t i = 0; i < 16; ++i) target.keys.push_back(i);
  const std::pair<const char*, Tensor> all[] = {{"apgd_ce", apgd_ce(target, 20)},
                                                {"apgd_t", apgd_targeted(target, 20, 1)},
                                                {"fab_t", fab_targeted(target, 20, 1)},
                                                {"square", square_attack(target, 60)}};
  for (const auto& [name, images] : all) {
    EXPECT_TRUE(images.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(images.flatten(1).select(1, 0).gt(0.55).all().item<bool>()) << name << images;
  }
  EXPECT_TRUE(spsa(target, {.steps = 3, .samples = 8}).isfinite().all().item<bool>());
  const Metrics found = measured(model, "attack: fgsm, eps: 0.6");
  EXPECT_GT(found.at("clean_accuracy"), 0.2);
  EXPECT_LT(found.at("clean_accuracy"), 0.8);
  EXPECT_EQ(found.at("accuracy"), 0);
}

TEST(ImageAttack, CountsNoImageAsRobustThatIsWrongWithoutAnAttack) {
  const auto model = linear_model();
  model->steps = 8;  // no gradient: PGD stays where it starts, at random
  const auto wrong = [](const Tensor& answers) { return (answers + 1) % kClasses; };
  const std::string pgd = "attack: pgd, steps: 1, eps: 0.5";
  const Metrics found = measured(*model, pgd, small_images(), 40, wrong);
  EXPECT_EQ(found.at("clean_accuracy"), 0);
  EXPECT_EQ(found.at("accuracy"), 0);
  const Metrics published =
      measured(*model, pgd + ", protocol: published", small_images(), 40, wrong);
  EXPECT_GT(published.at("accuracy"), 0);
}

TEST(ImageAttack, DrawsTheImagesOfAPartByTheirNumbers) {
  const auto model = linear_model();
  // The first half is right: as where a folder's classes stand one after the other.
  const auto half = [](const Tensor& answers) {
    const Tensor second = at::arange(answers.size(0), at::kLong).ge(answers.size(0) / 2);
    return (answers + second.to(at::kLong)) % kClasses;
  };
  const auto clean = [&](Model& of) {
    return measured(of, "attack: fgsm, images: 20", small_images(), 40, half).at("clean_accuracy");
  };
  std::vector<std::int64_t> order = permutation(40, RandomStreams(0).stream("attacked"));
  order.resize(20);
  const auto right = std::count_if(order.begin(), order.end(), [](auto i) { return i < 20; });
  EXPECT_EQ(clean(*model), double(right) / 20);
  EXPECT_GT(right, 4);
  EXPECT_LT(right, 16);
  EXPECT_EQ(clean(*curved_model()), clean(*model)) << "the same images of every model";
}

TEST(ImageAttack, SaysWhereAModelAnswersDifferentlyEachTime) {
  const auto said = [](Model& model, const std::string& options) {
    ::testing::internal::CaptureStderr();
    measured(model, "attack: fgsm" + options);
    return ::testing::internal::GetCapturedStderr();
  };
  Noisy noisy(linear_model());
  EXPECT_THAT(said(noisy, ""), HasSubstr("set task.draws"));
  EXPECT_EQ(said(noisy, ", draws: 2"), "");
  EXPECT_EQ(said(*curved_model(), ""), "");
}

TEST(ImageAttack, PublishedProtocolHasNoRangeAndAutoCutsToOne) {
  const auto model = curved_model();
  const std::string eps = ", eps: 0.1, space: normalised";
  // Normalised pixels below 0 are cut to 0 by AutoAttack: far more than eps.
  const Metrics cut = measured(*model, "attack: auto, steps: 5, protocol: published" + eps);
  EXPECT_GT(cut.at("distance"), 0.5);
  const Metrics free = measured(*model, "attack: pgd, protocol: published" + eps);
  EXPECT_NEAR(free.at("distance"), 0.1, 1e-9);
  // The same ball in pixels is a quarter of it.
  EXPECT_NEAR(measured(*model, "attack: fgsm, eps: 0.025").at("accuracy"),
              measured(*model, "attack: fgsm" + eps).at("accuracy"), 1e-12);
}

TEST(ImageAttack, LeavesTheModelAsItWas) {
  const auto model = curved_model();
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  measured(*model, "attack: auto, steps: 3");
  EXPECT_TRUE(generator.get_state().equal(before));
  for (const Tensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.requires_grad());
    EXPECT_FALSE(parameter.grad().defined());
  }
}

/// Gradients of the cross entropies by the images, as attacks get them.
Tensor slopes(Model& model, const FieldInfo& field, const Tensor& images, const Tensor& labels) {
  const Classifier classifier(model, field, /*pixel_space=*/true, 1);
  return classifier
      .step(images, [&](const Tensor& logits) { return cross_entropies(logits, labels); })
      .gradient.to(at::kDouble);
}

// Parameters need no gradient under attack, which must not lead to kernels for inference alone; and
// what kernels for single precision give is what the equations give in double precision.
TEST(ImageAttack, GradientsAreTheModelsOwnThroughEveryKernel) {
  DatasetInfo info = small_images();
  info.fields[0].shape = {1, 16, 24};
  const Tensor images = 0.5 + 0.3 * noise({3, 1, 16, 24}, 21, at::kFloat);
  const Tensor labels = at::tensor({0, 3, 4}, at::kLong);
  int tried = 0;
  for (const std::string& name : testing::registry().catalogue().names(Kind::attention)) {
    const auto make = [&] {
      at::manual_seed(3);
      return testing::make_model(
          "vit", info, "{dim: 32, depth: 2, heads: 2, patch_size: 4, start: pytorch}", name);
    };
    const auto single = make(), exact = make();
    single->eval();
    exact->to(at::kDouble);
    exact->eval();
    const Tensor found = slopes(*single, info.fields[0], images, labels);
    const Tensor expected = slopes(*exact, info.fields[0], images.to(at::kDouble), labels);
    const double scale = expected.abs().max().item<double>();
    EXPECT_GT(scale, 1e-3) << name;
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-3 * scale) << name;
    // Central differences along one direction. Elliptical attention estimates its metric without a
    // gradient, as published: there the gradient is not that of the whole model.
    if (name.starts_with("elliptical")) continue;
    const Tensor way = noise({3, 1, 16, 24}, 22, at::kDouble);
    const auto loss = [&](double step) {
      const Classifier classifier(*exact, info.fields[0], true, 1);
      return cross_entropies(classifier.logits(images.to(at::kDouble) + step * way), labels)
          .sum()
          .item<double>();
    };
    EXPECT_NEAR((expected * way).sum().item<double>(), (loss(1e-5) - loss(-1e-5)) / 2e-5,
                1e-4 * scale * way.abs().sum().item<double>())
        << name;
    ++tried;
  }
  EXPECT_GT(tried, 8);
}

// Every classifier of images of the tree, with layers that share no one grid and queries of one
// token among them.
TEST(ImageAttack, TurnsClassifiersOfEveryKind) {
  DatasetInfo info = small_images();
  info.fields[0].shape = {3, 32, 32};
  info.fields[0].mean = {0.5, 0.4, 0.3};
  info.fields[0].deviation = {0.25, 0.2, 0.3};
  const std::pair<const char*, const char*> models[] = {
      {"vit", "{dim: 16, depth: 2, heads: 2, patch_size: 8}"},
      {"crossvit",
       "{preset: '', sizes: [36, 32], patch_sizes: [12, 16], dims: [8, 16], depths: [1, 1], heads: "
       "[2, 2], "
       "stages: 1, mlp_ratio: 1, stem: linear}"},
      {"resnet", "{depth: 18, stages: 1}"},
      {"swin", "{preset: nano, window: 2, stages: 2}"}};
  Batch batch;
  batch.size = 4;
  batch.fields.set("image", noise({4, 3, 32, 32}, 7, at::kFloat));
  for (const auto& [name, options] : models) {
    at::manual_seed(3);
    const auto model = testing::make_model(name, info, options);
    model->eval();
    const c10::NoGradGuard no_grad;
    ForwardPass pass;
    const Tensor logits = model->forward(batch, pass).at("logits");
    batch.fields.set("class", logits.argmax(1));
    const double before = cross_entropies(logits, logits.argmax(1)).mean().item<double>();
    Evaluation evaluation{*model, info, Split::test, RandomStreams(5), {}};
    evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) { use(batch); };
    const Metrics found = testing::make_task("image_attack", info,
                                             "{attack: pgd, steps: 4, eps: 0.5, step_size: 0.2}")
                              ->evaluate(evaluation);
    EXPECT_EQ(found.at("clean_accuracy"), 1) << name;
    EXPECT_GT(found.at("nll"), before) << name;
    EXPECT_NEAR(found.at("distance"), 0.5, 1e-3) << name;
  }
}

TEST(ImageAttack, RefusesTooFewClassesWhenItIsBuilt) {
  DatasetInfo three = small_images();
  three.classes = 3;
  for (const char* attack : {"auto", "apgd_t"}) {
    const std::string options = std::string("{attack: ") + attack + "}";
    EXPECT_THAT(
        message_of<ConfigError>([&] { testing::make_task("image_attack", three, options); }),
        HasSubstr("attack: " + std::string(attack == std::string("auto") ? "auto's " : "") +
                  "apgd_t compares four classes (DLR); the data have 3"));
  }
  EXPECT_NO_THROW(testing::make_task("image_attack", three, "{attack: fab_t}"));
  three.classes = 4;
  EXPECT_NO_THROW(testing::make_task("image_attack", three, "{attack: auto}"));
}

TEST(ImageAttack, SaysWhatItLacks) {
  const auto model = linear_model();
  EXPECT_THAT(message_of<DataError>([&] { measured(*model, "", small_images(false)); }),
              HasSubstr("no pixel space"));
  EXPECT_THAT(
      message_of<DataError>([&] { measured(*model, "space: normalised", small_images(false)); }),
      HasSubstr("protocol to published"));
  EXPECT_EQ(measured(*model, "images: 17").at("clean_accuracy"), 1);
  EXPECT_EQ(measured(*model, "images: 170").at("clean_accuracy"), 1);
}

}  // namespace
}  // namespace attnlab::image_attack_test
