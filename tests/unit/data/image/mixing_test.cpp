// Mixup and CutMix by their definitions.
#include "framework/data/image/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"

namespace attnlab::mixing_test {
namespace {

TEST(Beta, HasItsMoments) {
  for (const double a : {0.2, 0.8, 1.0, 3.0}) {
    Random random(11);
    double sum = 0, squares = 0;
    constexpr int kTimes = 40000;
    for (int i = 0; i < kTimes; ++i) {
      const double x = draw_beta(a, random);
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kTimes;
    EXPECT_NEAR(mean, 0.5, 0.01) << a;
    EXPECT_NEAR(squares / kTimes - mean * mean, 1 / (4 * (2 * a + 1)), 0.005) << a;
  }
}

TEST(Beta, OfVerySmallNumbersIsAtItsEnds) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const double x = draw_beta(1e-3, random);
    EXPECT_TRUE(x >= 0 && x <= 1);
  }
  double sum = 0;
  for (int i = 0; i < 100; ++i) {
    const double end = draw_beta(1e-310, random);
    EXPECT_TRUE(end == 0 || end == 1) << end;
    sum += end;
  }
  EXPECT_TRUE(sum > 20 && sum < 80) << sum;
}

TEST(ClassTargets, ShareTheSmoothing) {
  const Tensor targets = class_targets(at::tensor({2, 0}, at::kLong), 4, 0.2);
  const Tensor expected =
      at::tensor({0.05, 0.05, 0.85, 0.05, 0.85, 0.05, 0.05, 0.05}).view({2, 4}).to(at::kFloat);
  EXPECT_TRUE(at::allclose(targets, expected));
  EXPECT_THROW(class_targets(at::tensor({4}, at::kLong), 4, 0), DataError);
}

/// Image i is i + 1 everywhere; class i.
struct Given {
  Tensor images = at::arange(1, 5).to(at::kFloat).view({4, 1, 1, 1}).expand({4, 3, 12, 16});
  Tensor targets = class_targets(at::arange(4), 4, 0);
};

TEST(Mixup, MixesImagesAndTargetsAlike) {
  const Given given;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const MixedBatch batch = mixed(given.images, given.targets, {.mixup = 0.8}, random);
    for (int i = 0; i < 4; ++i) {
      const double keep = batch.targets[i][i].item<double>();
      EXPECT_NEAR(batch.targets[i][3 - i].item<double>(), 1 - keep, 1e-6);
      EXPECT_NEAR(batch.targets[i].sum().item<double>(), 1, 1e-6);
      const double expected = keep * (i + 1) + (1 - keep) * (4 - i);
      EXPECT_LT((batch.images[i] - expected).abs().max().item<double>(), 1e-5);
    }
  }
}

TEST(CutMix, TakesABoxAndCountsWhatIsLeft) {
  const Given given;
  bool some = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const MixedBatch batch = mixed(given.images, given.targets, {.cutmix = 1}, random);
    const Tensor of_other = batch.images[0][0].eq(4);
    EXPECT_TRUE(of_other.logical_or(batch.images[0][0].eq(1)).all().item<bool>());
    const Tensor rows = of_other.any(1), columns = of_other.any(0);
    const auto area = of_other.sum().item<std::int64_t>();
    EXPECT_EQ(area, rows.sum().item<std::int64_t>() * columns.sum().item<std::int64_t>());
    EXPECT_NEAR(batch.targets[0][0].item<double>(), 1 - double(area) / (12 * 16), 1e-6);
    some = some || (area > 0 && area < 12 * 16);
  }
  EXPECT_TRUE(some);
  EXPECT_TRUE(given.images[0].eq(1).all().item<bool>()) << "the batch itself has changed";
}

// Yun et al.: sides are sqrt(1 - l) of the image's about a point drawn uniformly, cut at its edges.
TEST(CutMix, BoxesHaveTheImagesFormAboutAnyPoint) {
  const std::int64_t height = 90, width = 200;
  const Tensor images = at::ones({2, 1, height, width});
  images[1].fill_(2);
  const Tensor targets = at::eye(2);
  double areas = 0;
  int whole = 0;
  constexpr int kTimes = 1500;
  for (std::uint64_t seed = 0; seed < kTimes; ++seed) {
    Random random(seed * 17);
    const MixedBatch batch = mixed(images, targets, {.cutmix = 1}, random);
    const Tensor other = batch.images[0][0].eq(2);
    const auto extent = [&](std::int64_t dim) {
      const Tensor lines = other.any(dim).nonzero().view({-1});
      return std::make_pair(lines[0].item<std::int64_t>(), lines[-1].item<std::int64_t>() + 1);
    };
    areas += other.sum().item<double>() / double(height * width) / kTimes;
    if (!other.any().item<bool>()) continue;
    const auto [top, bottom] = extent(1);
    const auto [left, right] = extent(0);
    if (top == 0 || left == 0 || bottom == height || right == width) continue;
    ++whole;
    EXPECT_NEAR(double(bottom - top) / double(height), double(right - left) / double(width), 0.025);
  }
  EXPECT_GT(whole, kTimes / 10);
  // Of a side s about a uniform point s - s^2 / 4 is left; s^2 = 1 - l is uniform where a is 1:
  // the integral of 2 s (s - s^2 / 4)^2.
  EXPECT_NEAR(areas, 0.3208, 0.02);
}

TEST(Mixing, TakesBothByTheirProbabilities) {
  const Given given;
  int cut = 0, untouched = 0;
  constexpr int kTimes = 2000;
  for (std::uint64_t seed = 0; seed < kTimes; ++seed) {
    Random random(seed * 31);
    const MixingOptions options{.mixup = 0.8, .cutmix = 1, .probability = 0.75, .switching = 0.4};
    const MixedBatch batch = mixed(given.images, given.targets, options, random);
    const Tensor first = batch.images[0];
    if (batch.images.is_same(given.images)) {
      ++untouched;
    } else if (first.eq(1).logical_or(first.eq(4)).all().item<bool>()) {
      ++cut;
    }
  }
  EXPECT_NEAR(untouched / double(kTimes), 0.25, 0.04);
  EXPECT_NEAR(cut / double(kTimes), 0.75 * 0.4, 0.04);
}

}  // namespace
}  // namespace attnlab::mixing_test
