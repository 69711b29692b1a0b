// How busy a GPU is, by a library that stands in for the driver's.
#include "framework/tensor/gpu_use.h"

#include <gtest/gtest.h>

#include <chrono>

namespace attnlab::testing::gpu_use_test {
namespace {

TEST(GpuUse, IsWhatTheDriverSays) {
  const auto ask = gpu_utilisation(ATTNLAB_TEST_NVML, "0000:3B:00.0");
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask(), 0.4);
  EXPECT_EQ(ask(), 0.4);
  EXPECT_EQ(ask(), std::nullopt) << "it does not say";
}

TEST(GpuUse, IsNotKnownWithoutDriverOrGpu) {
  EXPECT_FALSE(gpu_utilisation("libattnlab-no-such-driver.so.1", "0000:3B:00.0"));
  EXPECT_FALSE(gpu_utilisation(ATTNLAB_TEST_NVML, "0000:3C:00.0"));
  EXPECT_FALSE(gpu_utilisation(ATTNLAB_TEST_NVML, ""));
  GpuUse use{at::Device(at::kCPU)};
  use.look();
  EXPECT_EQ(use.mean(), std::nullopt);
}

TEST(GpuUse, IsTheMeanOfAnAnswerPerSecond) {
  int asked = 0;
  GpuUse use([&]() -> std::optional<double> { return ++asked == 2 ? 0.5 : 1; });
  EXPECT_EQ(use.mean(), std::nullopt);
  const GpuUse::Clock::time_point begin;
  for (int i = 0; i < 10; ++i) use.look(begin + std::chrono::milliseconds(100 * i));
  EXPECT_EQ(asked, 1);
  use.look(begin + std::chrono::seconds(1));
  EXPECT_EQ(use.mean(), 0.75);
}

}  // namespace
}  // namespace attnlab::testing::gpu_use_test
