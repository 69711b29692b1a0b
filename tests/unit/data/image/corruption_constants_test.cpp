// All constants of corruptions, as the public code of ImageNet-C and CIFAR-10-C has them
// (hendrycks/robustness, ImageNet-C/create_c), read from there anew.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "framework/data/image/corruption_kinds.h"

namespace attnlab::corruption_constants_test {
namespace {

using Published = std::vector<std::vector<double>>;  ///< by severity

// Of zoom_blur numpy.arange's end and step; of elastic_transform shares of the side, 244 and 32.
// ImageNet-C, create_c/make_imagenet_c.py.
const std::map<std::string, Published> kImagenet = {
    {"gaussian_noise", {{.08}, {.12}, {.18}, {.26}, {.38}}},
    {"shot_noise", {{60}, {25}, {12}, {5}, {3}}},
    {"impulse_noise", {{.03}, {.06}, {.09}, {.17}, {.27}}},
    {"speckle_noise", {{.15}, {.2}, {.35}, {.45}, {.6}}},
    {"gaussian_blur", {{1}, {2}, {3}, {4}, {6}}},
    {"glass_blur", {{.7, 1, 2}, {.9, 2, 1}, {1, 2, 3}, {1.1, 3, 2}, {1.5, 4, 2}}},
    {"defocus_blur", {{3, .1}, {4, .5}, {6, .5}, {8, .5}, {10, .5}}},
    {"motion_blur", {{10, 3}, {15, 5}, {15, 8}, {15, 12}, {20, 15}}},
    {"zoom_blur", {{1.11, .01}, {1.16, .01}, {1.21, .02}, {1.26, .02}, {1.31, .03}}},
    {"fog", {{1.5, 2}, {2, 2}, {2.5, 1.7}, {2.5, 1.5}, {3, 1.4}}},
    {"frost", {{1, .4}, {.8, .6}, {.7, .7}, {.65, .7}, {.6, .75}}},
    {"snow",
     {{.1, .3, 3, .5, 10, 4, .8},
      {.2, .3, 2, .5, 12, 4, .7},
      {.55, .3, 4, .9, 12, 8, .7},
      {.55, .3, 4.5, .85, 12, 8, .65},
      {.55, .3, 2.5, .85, 12, 12, .55}}},
    {"spatter",
     {{.65, .3, 4, .69, .6, 0},
      {.65, .3, 3, .68, .6, 0},
      {.65, .3, 2, .68, .5, 0},
      {.65, .3, 1, .65, 1.5, 1},
      {.67, .4, 1, .65, 1.5, 1}}},
    {"contrast", {{.4}, {.3}, {.2}, {.1}, {.05}}},
    {"brightness", {{.1}, {.2}, {.3}, {.4}, {.5}}},
    {"saturate", {{.3, 0}, {.1, 0}, {2, 0}, {5, .1}, {20, .2}}},
    {"jpeg_compression", {{25}, {18}, {15}, {10}, {7}}},
    {"pixelate", {{.6}, {.5}, {.4}, {.3}, {.25}}},
    {"elastic_transform",
     {{2, .7, .1}, {2, .08, .2}, {.05, .01, .02}, {.07, .01, .02}, {.12, .01, .02}}},
};

// CIFAR-10-C, create_c/make_cifar_c.py.
const std::map<std::string, Published> kCifar = {
    {"gaussian_noise", {{.04}, {.06}, {.08}, {.09}, {.1}}},
    {"shot_noise", {{500}, {250}, {100}, {75}, {50}}},
    {"impulse_noise", {{.01}, {.02}, {.03}, {.05}, {.07}}},
    {"speckle_noise", {{.06}, {.1}, {.12}, {.16}, {.2}}},
    {"gaussian_blur", {{.4}, {.6}, {.7}, {.8}, {1}}},
    {"glass_blur", {{.05, 1, 1}, {.25, 1, 1}, {.4, 1, 1}, {.25, 1, 2}, {.4, 1, 2}}},
    {"defocus_blur", {{.3, .4}, {.4, .5}, {.5, .6}, {1, .2}, {1.5, .1}}},
    {"motion_blur", {{6, 1}, {6, 1.5}, {6, 2}, {8, 2}, {9, 2.5}}},
    {"zoom_blur", {{1.06, .01}, {1.11, .01}, {1.16, .01}, {1.21, .01}, {1.26, .01}}},
    {"fog", {{.2, 3}, {.5, 3}, {.75, 2.5}, {1, 2}, {1.5, 1.75}}},
    {"frost", {{1, .2}, {1, .3}, {.9, .4}, {.85, .4}, {.75, .45}}},
    {"snow",
     {{.1, .2, 1, .6, 8, 3, .95},
      {.1, .2, 1, .5, 10, 4, .9},
      {.15, .3, 1.75, .55, 10, 4, .9},
      {.25, .3, 2.25, .6, 12, 6, .85},
      {.3, .3, 1.25, .65, 14, 12, .8}}},
    {"spatter",
     {{.62, .1, .7, .7, .5, 0},
      {.65, .1, .8, .7, .5, 0},
      {.65, .3, 1, .69, .5, 0},
      {.65, .1, .7, .69, .6, 1},
      {.65, .1, .5, .68, .6, 1}}},
    {"contrast", {{.75}, {.5}, {.4}, {.3}, {.15}}},
    {"brightness", {{.05}, {.1}, {.15}, {.2}, {.3}}},
    {"saturate", {{.3, 0}, {.1, 0}, {1.5, 0}, {2, .1}, {2.5, .2}}},
    {"jpeg_compression", {{80}, {65}, {58}, {50}, {40}}},
    {"pixelate", {{.95}, {.9}, {.85}, {.75}, {.65}}},
    {"elastic_transform",
     {{0, 0, .08}, {.05, .2, .07}, {.08, .06, .06}, {.1, .04, .05}, {.1, .03, .03}}},
};

void expect_published(const std::map<std::string, Published>& table, bool cifar) {
  EXPECT_EQ(table.size(), 19U);
  for (const auto& [corruption, severities] : table) {
    ASSERT_EQ(severities.size(), 5U) << corruption;
    for (std::size_t i = 0; i < 5; ++i) {
      corruptions::Constants expected{};
      for (std::size_t k = 0; k < severities[i].size(); ++k) expected[k] = severities[i][k];
      EXPECT_EQ(corruptions::constants_of(corruption, cifar, std::int64_t(i) + 1), expected)
          << corruption << " at severity " << i + 1;
    }
  }
}

TEST(CorruptionConstants, OfImagenetAreThePublishedOnes) { expect_published(kImagenet, false); }
TEST(CorruptionConstants, OfCifarAreThePublishedOnes) { expect_published(kCifar, true); }

}  // namespace
}  // namespace attnlab::corruption_constants_test
