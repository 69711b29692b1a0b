// What the task makes of attacks: robust accuracy, warnings, what it refuses.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "plugins/tasks/images/image_attack/attack.h"
#include "tests/support/attacked_models.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::image_attack_test {
namespace {

using testing::curved_model;
using ::testing::HasSubstr;
using testing::kAttackedClasses;
using testing::Known;
using testing::linear_model;
using testing::message_of;
using testing::noise;
using testing::small_images;

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
                testing::mentions(std::string("fooled by ") + name, "gradients"));
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

// argmax takes the first of what is not a number: class 0, which would be right here.
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
  const auto wrong = [](const Tensor& answers) { return (answers + 1) % kAttackedClasses; };
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
    return (answers + second.to(at::kLong)) % kAttackedClasses;
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
       "[2, 2], stages: 1, mlp_ratio: 1, stem: linear}"},
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
        testing::mentions("attack: ", attack == std::string("auto") ? "auto's " : "", "apgd_t",
                          "four classes", "have 3"));
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
