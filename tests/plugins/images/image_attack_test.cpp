// Attacks on models whose weakest directions are known.
#include <gtest/gtest.h>

#include <cmath>

#include "plugins/tasks/images/image_attack/attack.h"
#include "tests/support/attacked_models.h"
#include "tests/support/plugins.h"

namespace attnlab::image_attack_test {
namespace {

using testing::curved_model;
using testing::kAttackedClasses;
using testing::kAttackedPixels;
using testing::Known;
using testing::linear_model;
using testing::noise;
using testing::small_images;

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
  Scene scene(std::make_shared<Known>(noise({2, kAttackedPixels}, 3, at::kDouble)), 0.05, 6);
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
  Scene plain(std::make_shared<Known>(noise({2, kAttackedPixels}, 3, at::kDouble)), 0.05, 60);
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

// LibTorch's sort alone keeps the order of equals for up to sixteen numbers.
TEST(ImageAttack, ClassesThatAreEquallyLikelyComeInTheirOrder) {
  const Tensor equal = at::zeros({2, 40});
  EXPECT_TRUE(by_likelihood(equal).equal(at::arange(40).expand({2, 40})));
  equal.select(1, 25).fill_(1);
  EXPECT_TRUE(by_likelihood(equal).narrow(1, 0, 4).equal(
      at::tensor({25, 0, 1, 2}, at::kLong).expand({2, 4})));
  // So it is with the loss: of eighteen third ones it is the last two that it pulls at.
  Tensor logits = at::ones({1, 20}, at::kDouble);
  logits[0][0] = 5, logits[0][1] = 4;
  logits.requires_grad_();
  targeted_dlr(logits, at::zeros({1}, at::kLong), at::ones({1}, at::kLong)).sum().backward();
  EXPECT_TRUE(logits.grad()[0].nonzero().view({-1}).equal(at::tensor({0, 1, 18, 19}, at::kLong)));
}

TEST(ImageAttack, RoomsThatAreEqualAreAddedUpInTheirOrder) {
  const std::int64_t alike = 40;
  Tensor weights = (7 * noise({1, alike + 1}, 4, at::kDouble)).round().abs() + 1;
  const Tensor points = at::zeros_like(weights), high = at::full_like(weights, 0.1);
  high[0][alike] = 1, weights[0][alike] = 1;
  double given = 0;
  for (std::int64_t i = 0; i < alike; ++i) given += 0.1 * weights[0][i].item<double>();
  const double wanted = given + 0.5;
  const Tensor moves = onto_plane(points, weights, at::full({1}, wanted, at::kDouble), -high, high);
  EXPECT_TRUE(moves.narrow(1, 0, alike).eq(0.1).all().item<bool>());
  EXPECT_EQ(moves[0][alike].item<double>(), wanted - given);
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

// Where values are normalised the ball is of those values, in single precision to its rounding, and
// candidates stay pictures: channels have ranges of their own.
TEST(ImageAttack, StaysInsideTheBallOfNormalisedValuesToo) {
  FieldInfo field{"image", {2, 2, 4}, at::kFloat};
  field.mean = {0.5, 0.2};
  field.deviation = {0.25, 0.5};
  const auto model = std::make_shared<Known>(2 * noise({kAttackedClasses, 12}, 4, at::kFloat),
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
  for (const std::string& name : testing::attentions_without("ordered")) {
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

}  // namespace
}  // namespace attnlab::image_attack_test
