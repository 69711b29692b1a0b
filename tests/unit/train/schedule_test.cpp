#include "framework/train/schedule.h"

#include <cmath>

#include "framework/base/error.h"
#include "tests/support/data_files.h"

namespace attnlab {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

const Schedule kCosine{.shape = Schedule::Shape::cosine,
                       .warmup_steps = 10,
                       .total_steps = 110,
                       .base = 1e-3,
                       .warmup_start = 1e-6,
                       .minimum = 1e-5};

TEST(Schedule, WarmsUpInAStraightLine) {
  for (std::int64_t step = 0; step <= 10; ++step) {
    EXPECT_NEAR(learning_rate(kCosine, step), 1e-6 + (1e-3 - 1e-6) * double(step) / 10, 1e-15);
  }
}

TEST(Schedule, FollowsTheCosineToItsFloor) {
  const double pi = std::acos(-1.0);
  for (std::int64_t step = 10; step <= 110; ++step) {
    const double wave = std::cos(pi * double(step - 10) / 100);
    EXPECT_NEAR(learning_rate(kCosine, step), 1e-5 + 0.5 * (1e-3 - 1e-5) * (1 + wave), 1e-15);
  }
  EXPECT_DOUBLE_EQ(learning_rate(kCosine, 60), (1e-3 + 1e-5) / 2);
  EXPECT_EQ(learning_rate(kCosine, 110), 1e-5);
  EXPECT_EQ(learning_rate(kCosine, 1000), 1e-5);
}

TEST(Schedule, NeverRisesAfterTheWarmUp) {
  for (std::int64_t step = 10; step < 120; ++step) {
    EXPECT_LE(learning_rate(kCosine, step + 1), learning_rate(kCosine, step));
  }
}

TEST(Schedule, MayStayConstantAfterTheWarmUp) {
  Schedule schedule = kCosine;
  schedule.shape = Schedule::Shape::constant;
  EXPECT_LT(learning_rate(schedule, 5), 1e-3);
  for (const std::int64_t step : {10, 60, 110, 500}) {
    EXPECT_EQ(learning_rate(schedule, step), 1e-3);
  }
}

TEST(Schedule, MayDoWithoutAWarmUpOrConsistOfItAlone) {
  EXPECT_EQ(learning_rate({.total_steps = 5, .base = 0.5}, 0), 0.5);
  EXPECT_EQ(learning_rate({.warmup_steps = 4, .total_steps = 4, .base = 0.5}, 2), 0.25);
  EXPECT_EQ(learning_rate({.warmup_steps = 4, .total_steps = 4, .base = 0.5}, 4), 0.0);
}

TEST(Schedule, RefusesNumbersWithoutMeaning) {
  EXPECT_THAT(
      message_of<ConfigError>([] { learning_rate({.warmup_steps = 9, .total_steps = 8}, 0); }),
      HasSubstr("9 steps of warm-up do not fit into 8"));
  EXPECT_THROW(learning_rate({.base = -1}, 0), ConfigError);
  EXPECT_THROW(learning_rate({.warmup_steps = -1}, 0), ConfigError);
}

}  // namespace
}  // namespace attnlab
