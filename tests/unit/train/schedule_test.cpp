#include "framework/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/error.h"
#include "tests/support/data_files.h"

namespace attnlab::schedule_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
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

TEST(Schedule, MayCountTheWarmUpAsPartOfTheCosine) {
  Schedule schedule = kCosine;
  schedule.warmup_prefix = false;
  const double pi = std::acos(-1.0);
  for (std::int64_t step = 10; step < 110; ++step) {
    const double wave = std::cos(pi * double(step) / 110);
    EXPECT_NEAR(learning_rate(schedule, step), 1e-5 + 0.5 * (1e-3 - 1e-5) * (1 + wave), 1e-15);
  }
  EXPECT_EQ(learning_rate(schedule, 5), learning_rate(kCosine, 5));
  EXPECT_EQ(learning_rate(schedule, 110), 1e-5);
  schedule.shape = Schedule::Shape::polynomial;
  EXPECT_NEAR(learning_rate(schedule, 55), (1e-3 + 1e-5) / 2, 1e-15);
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

TEST(Schedule, DropsAtItsMilestones) {
  Schedule schedule = kCosine;
  schedule.shape = Schedule::Shape::step;
  schedule.milestones = {30, 50};
  schedule.gamma = 0.2;
  EXPECT_LT(learning_rate(schedule, 9), 1e-3) << "warm-up";
  for (const std::int64_t step : {10, 29}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 1e-3);
  for (const std::int64_t step : {30, 49}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 2e-4);
  for (const std::int64_t step : {50, 900}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 4e-5);
}

TEST(Schedule, FallsByAPowerOfWhatIsLeft) {
  Schedule schedule = kCosine;
  schedule.shape = Schedule::Shape::polynomial;
  schedule.power = 0.9;
  EXPECT_NEAR(learning_rate(schedule, 5), 1e-6 + (1e-3 - 1e-6) / 2, 1e-15) << "warm-up";
  for (std::int64_t step = 10; step < 110; ++step) {
    const double left = 1 - double(step - 10) / 100;
    EXPECT_NEAR(learning_rate(schedule, step), 1e-5 + (1e-3 - 1e-5) * std::pow(left, 0.9), 1e-15);
  }
  EXPECT_EQ(learning_rate(schedule, 110), 1e-5);
  EXPECT_EQ(learning_rate(schedule, 1000), 1e-5);
}

// lr(t) = peak min(t / w, sqrt(w / t)): Vaswani's formula, divided by its value at t = w.
TEST(Schedule, FallsByTheRootOfTheStepFromItsPeak) {
  const Schedule schedule{.shape = Schedule::Shape::inverse_root,
                          .warmup_steps = 400,
                          .total_steps = 10000,
                          .base = 0.5};
  for (const std::int64_t step : {0, 1, 17, 399, 400, 401, 1600, 9999, 20000}) {
    const double t = double(step), w = 400;
    const double expected = 0.5 * std::min(t / w, t > 0 ? std::sqrt(w / t) : 1);
    EXPECT_NEAR(learning_rate(schedule, step), expected, 1e-15) << step;
  }
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1600), 0.25);
}

/// torch.optim.lr_scheduler.OneCycleLR(max_lr, total_steps, pct_start, div_factor,
/// final_div_factor).get_lr() at a step: two phases, the first ends at pct_start T - 1.
double torch_one_cycle(double max_lr, double total, double pct_start, double div, double final_div,
                       double step) {
  const double initial = max_lr / div, least = initial / final_div;
  const double ends[] = {pct_start * total - 1, total - 1};
  const double from[] = {initial, max_lr}, to[] = {max_lr, least};
  double start = 0;
  for (int phase = 0; phase < 2; ++phase) {
    if (step <= ends[phase] || phase == 1) {
      const double share = (step - start) / (ends[phase] - start);
      const double wave = std::cos(std::acos(-1.0) * share) + 1;
      return to[phase] + (from[phase] - to[phase]) / 2.0 * wave;
    }
    start = ends[phase];
  }
  return 0;
}

TEST(Schedule, GoesOneCycleAsTorch) {
  Schedule schedule{.shape = Schedule::Shape::onecycle, .base = 2e-3};
  schedule.pct_start = 0.3;
  for (const std::int64_t total : {1, 2, 3, 7, 100, 333}) {
    for (const double pct : {0.0, 0.04, 0.3, 0.5}) {
      schedule.total_steps = total;
      schedule.pct_start = pct;
      if (pct * double(total) == 1) continue;  // torch divides 0 by 0 at the first step
      for (std::int64_t step = 0; step < total; ++step) {
        EXPECT_NEAR(learning_rate(schedule, step),
                    torch_one_cycle(2e-3, double(total), pct, 25, 1e4, double(step)), 1e-15)
            << total << " " << pct << " " << step;
      }
    }
  }
  // Numbers of PyTorch for max_lr 1, 10 steps and pct_start 0.3.
  schedule = {.shape = Schedule::Shape::onecycle, .total_steps = 10, .base = 1};
  EXPECT_NEAR(learning_rate(schedule, 0), 0.04, 1e-15);
  EXPECT_NEAR(learning_rate(schedule, 1), 0.52, 1e-15);
  EXPECT_NEAR(learning_rate(schedule, 2), 1, 1e-15);
  EXPECT_NEAR(learning_rate(schedule, 9), 4e-6, 1e-18);
  EXPECT_NEAR(learning_rate(schedule, 50), 4e-6, 1e-18);
}

TEST(Schedule, RisesInOneCycleAsLongAsTheWarmUpSays) {
  TrainOptions train;
  train.optimizer.lr = 2e-3;
  train.schedule.shape = "onecycle";
  train.schedule.warmup_epochs = 2;  // of 25: torch's pct_start is 0.08
  const Schedule schedule = make_schedule(train, 8, 200);
  for (std::int64_t step = 0; step < 200; ++step) {
    EXPECT_NEAR(learning_rate(schedule, step),
                torch_one_cycle(2e-3, 200, 0.08, 25, 1e4, double(step)), 1e-15)
        << step;
  }
  train.schedule.warmup_epochs = 0;
  train.schedule.warmup_steps = 1;
  EXPECT_EQ(learning_rate(make_schedule(train, 8, 200), 0), 2e-3) << "at the peak at once";
  train.schedule.warmup_steps = 201;
  EXPECT_THROW(learning_rate(make_schedule(train, 8, 200), 0), ConfigError);
}

TEST(Schedule, NamesTheKeyOfAWarmUpThatDoesNotFit) {
  TrainOptions train;
  const auto refused = [&] { return message_of<ConfigError>([&] { make_schedule(train, 4, 8); }); };
  train.schedule.warmup_epochs = 3;
  EXPECT_THAT(refused(), says({"train.schedule.warmup_epochs:", "12 steps of warm-up", "8 steps"}));
  train.schedule.warmup_steps = 9;
  EXPECT_THAT(refused(), HasSubstr("train.schedule.warmup_steps: 9 steps of warm-up"));
}

TEST(Schedule, MovesWeightDecayByACosine) {
  Schedule schedule{.total_steps = 200, .weight_decay = 0.04, .weight_decay_end = 0.4};
  const double pi = std::acos(-1.0);
  for (const std::int64_t step : {0, 1, 66, 199}) {
    EXPECT_NEAR(pace_at(schedule, step).weight_decay,
                0.4 + 0.5 * (0.04 - 0.4) * (1 + std::cos(pi * double(step) / 200)), 1e-15);
  }
  EXPECT_EQ(pace_at(schedule, 200).weight_decay, 0.4);
  schedule.weight_decay_end = -1;
  EXPECT_EQ(pace_at(schedule, 66).weight_decay, 0.04);
}

TEST(Schedule, CountsEpochs) {
  const Schedule schedule{.total_steps = 100, .steps_per_epoch = 7};
  EXPECT_EQ(pace_at(schedule, 6).epoch, 0);
  EXPECT_EQ(pace_at(schedule, 7).epoch, 1);
  EXPECT_EQ(pace_at(schedule, 20).epoch, 2);
  EXPECT_EQ(pace_at(schedule, 20).learning_rate, learning_rate(schedule, 20));
}

TEST(Schedule, IsWhatACompositionAsksFor) {
  TrainOptions train;
  train.optimizer.lr = 0.5;
  train.optimizer.weight_decay = 0.1;
  train.optimizer.weight_decay_end = 0.2;
  train.schedule.shape = "step";
  train.schedule.warmup_epochs = 0.25;
  train.schedule.milestones = {1, 2.5};
  const Schedule schedule = make_schedule(train, 8, 40);
  EXPECT_EQ(schedule.warmup_steps, 2);
  EXPECT_EQ(schedule.total_steps, 40);
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{8, 20}));
  EXPECT_EQ(pace_at(schedule, 7).learning_rate, 0.5);
  EXPECT_DOUBLE_EQ(pace_at(schedule, 8).learning_rate, 0.05);
  EXPECT_DOUBLE_EQ(pace_at(schedule, 20).weight_decay, 0.15);
  EXPECT_EQ(pace_at(schedule, 20).epoch, 2);
  train.schedule.warmup_epochs = 0;
  train.schedule.warmup_steps = 5;
  EXPECT_EQ(make_schedule(train, 8, 40).warmup_steps, 5);
  train.optimizer.lr = 1e-7;
  EXPECT_EQ(make_schedule(train, 8, 40).minimum, 1e-7) << "never above the learning rate";
  EXPECT_EQ(make_schedule(train, 8, 40).warmup_start, 1e-7);
}

TEST(Schedule, KnowsEveryShapeThatAFileMayName) {
  TrainOptions train;
  train.schedule.warmup_steps = 1;  // which an inverse root needs
  std::set<Schedule::Shape> shapes;
  for (const char* name :
       {"cosine", "constant", "step", "polynomial", "onecycle", "inverse_root"}) {
    train.schedule.shape = name;
    shapes.insert(make_schedule(train, 8, 40).shape);
  }
  EXPECT_EQ(shapes.size(), 6U);
}

TEST(Schedule, RefusesNumbersWithoutMeaning) {
  EXPECT_THAT(
      message_of<ConfigError>([] { learning_rate({.warmup_steps = 9, .total_steps = 8}, 0); }),
      mentions("9 steps of warm-up", "fit into 8"));
  EXPECT_THROW(learning_rate({.base = -1}, 0), ConfigError);
  EXPECT_THROW(learning_rate({.warmup_steps = -1}, 0), ConfigError);
  EXPECT_THROW(learning_rate({.shape = Schedule::Shape::inverse_root}, 3), ConfigError);
}

}  // namespace
}  // namespace attnlab::schedule_test
