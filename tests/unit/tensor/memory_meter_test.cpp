// The memory meter, against tensors whose sizes are known.
#include "framework/tensor/memory_meter.h"

#include <gtest/gtest.h>

#include "framework/tensor/tensor.h"

namespace attnlab::memory_meter_test {
namespace {

constexpr std::int64_t kFloats = 1 << 18;
constexpr std::int64_t kBytes = 4 * kFloats;

TEST(MemoryMeter, CountsWhatIsHeldAndTheMostThatWas) {
  const MemoryMeter meter;
  EXPECT_EQ(meter.peak(), 0);
  {
    const Tensor first = at::empty({kFloats}, at::kFloat);
    {
      const Tensor second = at::empty({2 * kFloats}, at::kFloat);
      EXPECT_EQ(meter.held(), 3 * kBytes);
    }
    const Tensor third = at::empty({kFloats}, at::kFloat);
    EXPECT_EQ(meter.held(), 2 * kBytes);
    EXPECT_EQ(meter.peak(), 3 * kBytes);
  }
  EXPECT_EQ(meter.held(), 0);
  EXPECT_EQ(meter.peak(), 3 * kBytes);
}

TEST(MemoryMeter, LeavesOutWhatIsOlderThanIt) {
  Tensor old = at::empty({kFloats}, at::kFloat);
  const MemoryMeter meter;
  old.reset();
  EXPECT_EQ(meter.held(), 0);
  const Tensor young = at::empty({kFloats}, at::kFloat);
  EXPECT_EQ(meter.held(), kBytes);
}

TEST(MemoryMeter, StopsAtItsEnd) {
  { const MemoryMeter first; }
  const Tensor between = at::empty({kFloats}, at::kFloat);
  const MemoryMeter second;
  EXPECT_EQ(second.peak(), 0);
}

TEST(MemoryMeter, SeesWhatTheBackwardPassKeeps) {
  const Tensor x = at::rand({kFloats}, at::kFloat).requires_grad_();
  const MemoryMeter meter;
  const Tensor y = x.exp();  // exp keeps its result for the gradient
  EXPECT_EQ(meter.held(), kBytes);
  y.backward(at::ones_like(y));
  EXPECT_GE(meter.held(), 2 * kBytes) << "the result and the gradient of x";
  EXPECT_LT(meter.held(), 3 * kBytes);
}

}  // namespace
}  // namespace attnlab::memory_meter_test
