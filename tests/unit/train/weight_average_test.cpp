// The running mean of weights.
#include "framework/train/weight_average.h"

#include <cmath>

#include "framework/base/error.h"
#include "tests/support/data_files.h"
#include "tests/support/noise.h"

namespace attnlab::weight_average_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using testing::noise;

struct Net final : torch::nn::Module {
  explicit Net(std::uint64_t seed, std::int64_t size = 3) {
    weight = register_parameter("weight", noise({size, 2}, seed, at::kDouble));
    mean = register_buffer("mean", noise({size}, seed + 1, at::kDouble));
  }
  Tensor weight, mean;
};

TEST(WeightAverage, IsTheRunningMeanOfParametersAndACopyOfBuffers) {
  Net live(1), kept(2), other_live(3), other_kept(4);
  WeightAverage average;
  average.add(live, kept);
  average.add(other_live, other_kept);
  EXPECT_FALSE(kept.weight.equal(live.weight)) << "nothing happens before start()";
  average.start();
  EXPECT_TRUE(kept.weight.equal(live.weight));
  EXPECT_TRUE(kept.mean.equal(live.mean));
  double expected = live.weight[1][1].item<double>();
  for (std::uint64_t step = 0; step < 5; ++step) {
    const double decay = 0.5 + 0.1 * double(step);
    live.weight.set_data(noise({3, 2}, 10 + step, at::kDouble));
    live.mean.copy_(noise({3}, 20 + step, at::kDouble));
    average.update(decay);
    expected = decay * expected + (1 - decay) * live.weight[1][1].item<double>();
    EXPECT_NEAR(kept.weight[1][1].item<double>(), expected, 1e-15);
    EXPECT_TRUE(kept.mean.equal(live.mean));
  }
  EXPECT_TRUE(other_kept.weight.allclose(other_live.weight)) << "the mean of what stays is it";
}

TEST(WeightAverage, RefusesModulesThatDiffer) {
  Net live(1), kept(2, 4);
  EXPECT_THAT(message_of<ShapeError>([&] { WeightAverage().add(live, kept); }),
              HasSubstr("weight [3, 2]"));
  torch::nn::Module empty;
  EXPECT_THAT(message_of<ShapeError>([&] { WeightAverage().add(live, empty); }),
              mentions("1 tensors are trained", "0 hold their mean"));
}

TEST(AverageDecay, StaysOrGrowsToItsEndByACosine) {
  const double pi = std::acos(-1.0);
  for (const std::int64_t step : {0, 1, 37, 99}) {
    EXPECT_EQ(average_decay({.decay = 0.996}, step, 100), 0.996);
    EXPECT_NEAR(average_decay({.decay = 0.996, .end = 1}, step, 100),
                1 - 0.004 * (1 + std::cos(pi * double(step) / 100)) / 2, 1e-15);
  }
  EXPECT_EQ(average_decay({.decay = 0.996, .end = 1}, 100, 100), 1);
}

}  // namespace
}  // namespace attnlab::weight_average_test
