// Runs that end too early: by a number that is not finite, or by a failure.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "framework/base/clock.h"
#include "framework/train/training.h"
#include "tests/unit/train/training_loop.h"

namespace attnlab::training_ends_test {
namespace {

using testing::clouds;
using testing::clouds_with;
using ::testing::HasSubstr;
using testing::Line;
using testing::mentions;
using testing::says;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;
using testing::TrainingLoop;

/// The loss stays what it is; its gradient is not a number at one step.
class BrokenGradient final : public Sorting {
 public:
  explicit BrokenGradient(std::int64_t step) : step_(step) {}
  Tensor step(TrainingStep& step) override {
    const Tensor loss = Sorting::step(step);
    if (step.number != step_) return loss;
    return loss + (step.model.parameters().front().sum() * 0).sqrt();
  }

 private:
  std::int64_t step_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereTheLastUpdateLeavesNoNumbers) {
  for (const std::int64_t broken : {5, 11}) {  // the last of an epoch, the last of all
    TrainOptions options = tiny_options();
    options.epochs = 2;
    const std::string folder = "run-" + std::to_string(broken);
    const RunStatus status = train(tiny_run(clouds_with<BrokenGradient>(broken), options), folder);
    EXPECT_EQ(status.state, RunState::diverged);
    EXPECT_THAT(status.reason,
                ::testing::AllOf(HasSubstr("the parameters"),
                                 ::testing::EndsWith(" after step " + std::to_string(broken + 1))));
    EXPECT_TRUE(status.metrics.empty());
  }
}

TEST_F(TrainingLoop, EndsAsDivergedWhereTheLossIsNoNumber) {
  const TinyParts parts = clouds_with<BrokenGradient>(std::int64_t{2});
  const RunStatus status = train(tiny_run(parts, tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_EQ(status.step, 3);
  EXPECT_THAT(status.reason, HasSubstr("at step 4"));
}

TEST_F(TrainingLoop, EndsAsDivergedAboveALossThatIsGiven) {
  TrainOptions options = tiny_options();
  options.diverged_above = 1e-6;
  EXPECT_EQ(train(tiny_run(clouds(), options), "run").state, RunState::diverged);
}

/// Uses processor time in each step and in its conclusion, and diverges where it is told to.
class Busy final : public Sorting {
 public:
  static constexpr double kPart = 0.02;  ///< of one step or conclusion. [s]
  enum class Diverges { in_loss, in_last_update, in_result };

  explicit Busy(Diverges where) : where_(where) {}
  Tensor step(TrainingStep& step) override {
    use_processor();
    const Tensor loss = Sorting::step(step);
    if (step.number == 4 && where_ == Diverges::in_loss) return loss / 0;
    if (step.number != 5 || where_ != Diverges::in_last_update) return loss;
    return loss + (step.model.parameters().front().sum() * 0).sqrt();
  }
  Metrics evaluate(Evaluation& evaluation) const override {
    if (where_ != Diverges::in_result) return Sorting::evaluate(evaluation);
    return {{"accuracy", std::numeric_limits<double>::quiet_NaN()}};
  }
  Metrics conclude(const std::function<Metrics()>&, const Metrics&) const override {
    use_processor();
    return {};
  }

 private:
  static void use_processor() {
    const double began = processor_seconds();
    while (processor_seconds() - began < kPart) {
    }
  }

  Diverges where_;
};

TEST_F(TrainingLoop, CountsTheProcessorTimeOfARunUpToWhereItDiverges) {
  for (const auto& [where, steps] :
       {std::pair{Busy::Diverges::in_loss, 5}, std::pair{Busy::Diverges::in_last_update, 6}}) {
    const std::string folder = "run-" + std::to_string(steps);
    const RunStatus status = train(tiny_run(clouds_with<Busy>(where), tiny_options()), folder);
    EXPECT_EQ(status.state, RunState::diverged) << folder;
    EXPECT_GE(status.processor_seconds, steps * Busy::kPart) << folder;
    EXPECT_EQ(place(folder).status().processor_seconds, status.processor_seconds) << folder;
  }
}

TEST_F(TrainingLoop, CountsTheProcessorTimeOfAConclusionWhoseResultIsNoNumber) {
  const TinyParts parts = clouds_with<Busy>(Busy::Diverges::in_result);
  const RunStatus status = train(tiny_run(parts, tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  const double before = std::stod(checkpoint("run").metadata.at("processor_seconds"));
  EXPECT_GE(before, 6 * Busy::kPart);
  EXPECT_GE(status.processor_seconds, before + Busy::kPart);
}

TEST_F(TrainingLoop, AddsTheProcessorTimeOfEarlierTimesWhereItDiverges) {
  const TinyParts parts = clouds_with<Busy>(Busy::Diverges::in_loss);
  const RunStatus stopped = train(tiny_run(parts, tiny_options()), "run", 3);
  ASSERT_EQ(stopped.state, RunState::interrupted);
  const RunStatus status = train(tiny_run(parts, tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_GE(status.processor_seconds, stopped.processor_seconds + 2 * Busy::kPart);
}

/// Finite parameters whose result is not a number.
class NoNumber final : public Sorting {
 public:
  Metrics evaluate(Evaluation&) const override {
    return {{"accuracy", std::numeric_limits<double>::quiet_NaN()}};
  }
};

TEST_F(TrainingLoop, EndsAsDivergedWhereTheResultIsNoNumber) {
  const RunStatus status = train(tiny_run(clouds<NoNumber>(), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, mentions("accuracy", "not finite after step"));
  EXPECT_TRUE(status.metrics.empty());
}

/// Its headline is a number; what else it measures is none.
class HalfANumber final : public Sorting {
 public:
  explicit HalfANumber(std::string name = "nll") : name_(std::move(name)) {}
  std::vector<MetricInfo> metrics() const override {
    return {{"accuracy", Better::higher, "share"}, {"nll", Better::lower, "nats"}};
  }
  Metrics evaluate(Evaluation&) const override {
    return {{"accuracy", 0.0}, {name_, std::numeric_limits<double>::infinity()}};
  }

 private:
  std::string name_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereAnyMetricOfTheTaskIsNoNumber) {
  const RunStatus status = train(tiny_run(clouds<HalfANumber>(), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, mentions("nll", "not finite after step"));
  EXPECT_TRUE(status.metrics.empty());
  const TinyParts parts = clouds_with<HalfANumber>(std::string("of a class without examples"));
  EXPECT_EQ(train(tiny_run(parts, tiny_options()), "other").state, RunState::done)
      << "a value that the task does not declare";
}

/// A mask that is not a number from the beginning, and a statistic that becomes none.
class Counting final : public Sorting {
 public:
  explicit Counting(double growth) : growth_(growth) {
    register_buffer("mask", at::full({2}, -std::numeric_limits<double>::infinity()));
    statistic_ = register_buffer("statistic", at::ones({1}));
  }
  Tensor step(TrainingStep& step) override {
    statistic_.mul_(growth_);
    return Sorting::step(step);
  }

 private:
  double growth_;
  Tensor statistic_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereABufferIsNoNumberAnyMore) {
  const RunStatus status = train(tiny_run(clouds_with<Counting>(1e30), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, says({"buffer task.statistic", "not finite", "step 6"}));
  EXPECT_EQ(train(tiny_run(clouds_with<Counting>(1.0), tiny_options()), "masked").state,
            RunState::done);
}

class NoGradient final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override { return Sorting::step(step).detach(); }
};

TEST_F(TrainingLoop, NamesTheTaskWhoseLossHasNoGradient) {
  EXPECT_THAT(testing::message_of<ShapeError>(
                  [&] { train(tiny_run(clouds<NoGradient>(), tiny_options()), "run"); }),
              says({"task 'tiny':", "step()", "[] float32", "without a gradient"}));
}

/// Throws what is not an exception in its third step.
class Thrower final : public Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    if (is_training() && ++steps_ == 3) throw 42;
    return Line::forward(batch, pass);
  }

 private:
  int steps_ = 0;
};

TEST_F(TrainingLoop, FailsOfWhatIsNoExceptionAsOfOthers) {
  EXPECT_THAT(testing::message_of<Error>(
                  [&] { train(tiny_run(clouds<Sorting, Thrower>(), tiny_options()), "run"); }),
              HasSubstr("std::exception"));
  EXPECT_EQ(place("run").status().state, RunState::failed);
  EXPECT_THAT(place("run").status().reason, says({"std::exception"}));
}

}  // namespace
}  // namespace attnlab::training_ends_test
