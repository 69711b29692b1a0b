// Which kind of solution a run found.
#include "plugins/tasks/series/sequence_classification/outcome.h"

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::outcome_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_task;
using testing::message_of;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(Outcome, IsToldByTrainingAndTestAccuracy) {
  const OutcomeOptions options;
  const auto of = [&](double training, double test) {
    return outcome_of(training, test, 10, options);
  };
  EXPECT_EQ(of(0.97, 0.95), RunOutcome::correct);
  EXPECT_EQ(of(0.97, 0.9), RunOutcome::other) << "above 0.9, not at it";
  EXPECT_EQ(of(0.9, 0.97), RunOutcome::other);
  EXPECT_EQ(of(0.62, 0.28), RunOutcome::biased);
  EXPECT_EQ(of(0.5, 0.4), RunOutcome::biased) << "bounds belong to it";
  EXPECT_EQ(of(0.85, 0.28), RunOutcome::other) << "fits noise";
  EXPECT_EQ(of(0.62, 0.41), RunOutcome::other);
  EXPECT_EQ(of(0.62, 0.1), RunOutcome::other);
  EXPECT_EQ(of(0.12, 0.08), RunOutcome::degenerate);
  EXPECT_EQ(of(0.2, 0.1), RunOutcome::other);
  EXPECT_EQ(of(0.1, 0.2), RunOutcome::other);
  EXPECT_EQ(of(kNone, kNone), RunOutcome::other);
}

TEST(Outcome, FollowsItsBounds) {
  OutcomeOptions options;
  options.correct_above = 0.6;
  options.biased_training = {0.3, 0.4};
  options.biased_test = {0.1, 0.2};
  options.chance_margin = 0;
  EXPECT_EQ(outcome_of(0.7, 0.61, 4, options), RunOutcome::correct);
  EXPECT_EQ(outcome_of(0.35, 0.15, 4, options), RunOutcome::biased);
  EXPECT_EQ(outcome_of(0.25, 0.25, 4, options), RunOutcome::degenerate) << "chance is 1 / classes";
  EXPECT_EQ(outcome_of(0.25, 0.26, 4, options), RunOutcome::other);
}

DatasetInfo ten_classes() {
  DatasetInfo info;
  info.name = "made up";
  info.classes = 10;
  return info;
}

TEST(Outcome, IsAMetricOfTheTaskThatAsksForIt) {
  const auto task =
      make_task("sequence_classification", ten_classes(), "{outcomes: {record: true}}");
  const auto training = [] { return Metrics{{"accuracy", 0.6}, {"nll", 1.5}}; };
  const Metrics expected = {{"training/accuracy", 0.6}, {"training/nll", 1.5},
                            {"outcome/correct", 0},     {"outcome/biased", 1},
                            {"outcome/degenerate", 0},  {"outcome/other", 0}};
  EXPECT_EQ(task->conclude(training, {{"accuracy", 0.3}, {"nll", 2}}), expected);
}

TEST(Outcome, CostsNothingWhereNobodyAsks) {
  const auto task = make_task("sequence_classification", ten_classes());
  const auto training = []() -> Metrics { throw Error("evaluated for nothing"); };
  EXPECT_TRUE(task->conclude(training, {{"accuracy", 0.3}}).empty());
}

TEST(Outcome, RefusesBoundsThatAreNoPair) {
  for (const char* bounds : {"[0.5]", "[0.8, 0.5]", "[0.1, 0.2, 0.3]"}) {
    EXPECT_THAT(
        message_of<ConfigError>([&] {
          make_task("sequence_classification", ten_classes(),
                    std::string("{outcomes: {biased_test: ") + bounds + "}}");
        }),
        AllOf(HasSubstr("options:1:26: "), HasSubstr("outcomes.biased_test: must be two numbers")))
        << bounds;
  }
}

}  // namespace
}  // namespace attnlab::outcome_test
