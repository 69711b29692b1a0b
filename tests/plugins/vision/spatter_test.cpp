// Spatter against OpenCV, whose functions the public code of ImageNet-C calls one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/imgproc.hpp>

#include "framework/base/random.h"
#include "framework/data/image/corruption.h"
#include "framework/data/image/spatter.h"

namespace attnlab::spatter_test {
namespace {

/// The public code's liquid: noise, blurred, without what is below the threshold.
FloatImage liquid_of(std::int64_t size, double deviation, double sigma, double threshold,
                     std::uint64_t seed) {
  Random random(seed);
  FloatImage liquid(size, size, 1);
  for (double& value : liquid.values) value = 0.65 + deviation * random.normal();
  liquid = gaussian(liquid, sigma);
  for (double& value : liquid.values) value = value < threshold ? 0 : value;
  return liquid;
}

Pixels bytes(const FloatImage& image) {
  Pixels out(image.height, image.width, 1);
  for (std::size_t i = 0; i < out.bytes.size(); ++i) {
    out.bytes[i] = static_cast<std::uint8_t>(image.values[i] * 255);
  }
  return out;
}

cv::Mat mat_of(const Pixels& image) {
  cv::Mat out(int(image.height), int(image.width), CV_8UC1);
  std::copy(image.bytes.begin(), image.bytes.end(), out.data);
  return out;
}

std::vector<std::uint8_t> levels_of(const cv::Mat& mat) {
  return {mat.data, mat.data + mat.total()};
}

struct Case {
  std::int64_t size;
  double deviation, sigma, threshold;
  std::uint64_t seed;
};

/// Drops as ImageNet-C and CIFAR-10-C have them, and a picture without any.
const Case kCases[] = {{32, .1, .7, .7, 1},  {32, .3, 1, .69, 2},  {224, .3, 4, .69, 3},
                       {224, .3, 2, .68, 4}, {61, .3, 1.2, .6, 5}, {40, .3, 3, .99, 6},
                       {96, .4, .5, .65, 7}};

TEST(Spatter, FindsTheEdgesOfCanny) {
  int edges = 0;
  for (const Case& one : kCases) {
    const Pixels grey =
        bytes(liquid_of(one.size, one.deviation, one.sigma, one.threshold, one.seed));
    cv::Mat expected;
    cv::Canny(mat_of(grey), expected, 50, 150);
    EXPECT_EQ(corruptions::canny_edges(grey, 50, 150).bytes, levels_of(expected)) << one.seed;
    edges += cv::countNonZero(expected);
  }
  EXPECT_GT(edges, 1000);
}

TEST(Spatter, MeasuresDistancesAndEqualisesAsOpenCv) {
  for (const Case& one : kCases) {
    Pixels far = corruptions::canny_edges(
        bytes(liquid_of(one.size, one.deviation, one.sigma, one.threshold, one.seed)), 50, 150);
    for (std::uint8_t& byte : far.bytes) byte = std::uint8_t(255 - byte);
    cv::Mat distance;
    cv::distanceTransform(mat_of(far), distance, cv::DIST_L2, 5);
    const std::vector<double> found = corruptions::distances_to_zero(far);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double expected = distance.at<float>(int(i));
      if (expected > 8000) {
        EXPECT_GT(found[i], 8000);
      } else {
        ASSERT_NEAR(found[i], expected, 1e-4) << one.seed << ", pixel " << i;
      }
    }
    Pixels levels(far.height, far.width, 1);
    for (std::size_t i = 0; i < found.size(); ++i) {
      levels.bytes[i] = std::uint8_t(std::min(found[i], 20.0) * 3);
    }
    cv::Mat equal;
    cv::equalizeHist(mat_of(levels), equal);
    corruptions::equalise_levels(levels);
    EXPECT_EQ(levels.bytes, levels_of(equal)) << one.seed;
  }
}

/// What is added to black, in the public code's steps.
cv::Mat water_by_opencv(const Pixels& liquid, double amount) {
  cv::Mat edges, far, mean, light;
  cv::Canny(mat_of(liquid), edges, 50, 150);
  cv::distanceTransform(255 - edges, far, cv::DIST_L2, 5);
  cv::threshold(far, far, 20, 20, cv::THRESH_TRUNC);
  cv::blur(far, mean, {3, 3});
  cv::Mat levels(mean.size(), CV_8UC1);
  for (std::size_t i = 0; i < mean.total(); ++i) {
    levels.data[i] = std::uint8_t(mean.at<float>(int(i)));
  }
  cv::equalizeHist(levels, levels);
  const cv::Mat kernel = (cv::Mat_<float>(3, 3) << -2, -1, 0, -1, 1, 1, 0, 1, 2);
  cv::filter2D(levels, light, CV_8U, kernel);
  cv::blur(light, light, {3, 3});
  cv::Mat m(light.size(), CV_32FC1);
  for (std::size_t i = 0; i < m.total(); ++i) {
    m.at<float>(int(i)) = float(liquid.bytes[i]) * float(light.data[i]);
  }
  double most = 0;
  cv::minMaxLoc(m, nullptr, &most);
  return most > 0 ? m * (amount / most) : m;
}

TEST(Spatter, AddsTheWaterOfThePublicCode) {
  for (const Case& one : kCases) {
    const FloatImage liquid =
        liquid_of(one.size, one.deviation, one.sigma, one.threshold, one.seed);
    const cv::Mat expected = water_by_opencv(bytes(liquid), 0.6);
    FloatImage x(one.size, one.size, 3);
    corruptions::add_water(x, liquid, 0.6);
    double differ = 0;
    for (std::size_t i = 0; i < expected.total(); ++i) {
      const double m = expected.at<float>(int(i));
      // A mean of nine distances that is a whole number may be rounded to either side.
      differ += std::abs(x.values[3 * i] - m * 175 / 255) > 1e-5 ? 1 : 0;
      ASSERT_NEAR(x.values[3 * i + 1], x.values[3 * i] * 238 / 175, 1e-12);
    }
    EXPECT_LE(differ, 0.01 * double(expected.total())) << one.seed;
  }
}

TEST(Spatter, CoversWithMudWhereThereIsEnough) {
  FloatImage liquid(9, 9, 1), x(9, 9, 3), grey(9, 9, 1);
  std::fill(x.values.begin(), x.values.end(), 0.5);
  std::fill(grey.values.begin(), grey.values.end(), 0.5);
  for (std::int64_t y = 0; y < 9; ++y) {
    for (std::int64_t at = 4; at < 9; ++at) liquid.at(y, at) = 0.7;
  }
  liquid.at(4, 0) = 0.7;  // alone: less than 0.8 after the blur
  corruptions::add_mud(x, liquid, 0.65, 0.6);
  EXPECT_NEAR(x.at(4, 8, 0), 63 / 255.0, 1e-6);
  EXPECT_NEAR(x.at(4, 8, 2), 20 / 255.0, 1e-6);
  EXPECT_EQ(x.at(4, 0, 0), 0.5);
  EXPECT_EQ(x.at(4, 2, 1), 0.5);
  corruptions::add_mud(grey, liquid, 0.65, 0.6);
  EXPECT_NEAR(grey.at(4, 8), (0.299 * 63 + 0.587 * 42 + 0.114 * 20) / 255, 1e-6);
}

TEST(Spatter, IsWaterAtLowSeveritiesAndMudAtHighOnes) {
  for (const std::int64_t size : {32, 224}) {
    const Pixels black(size, size, 3);
    for (const std::int64_t severity : {1, 3, 5}) {
      CorruptionOptions options;
      options.corruption = "spatter";
      options.severity = severity;
      const Corruption corruption(options, size, size);
      Pixels once = black, again = black;
      corruption.apply(once);
      corruption.apply(again);
      EXPECT_EQ(once.bytes, again.bytes);
      double red = 0, blue = 0;
      for (std::size_t i = 0; i < once.bytes.size(); i += 3) {
        red += once.bytes[i];
        blue += once.bytes[i + 2];
      }
      EXPECT_GT(red, 0) << size << " " << severity;
      EXPECT_EQ(blue > red, severity < 5) << "pale turquoise, then brown";
    }
  }
}

}  // namespace
}  // namespace attnlab::spatter_test
