// Which epoch's model counts, and when training ends.
#include "framework/train/selection.h"

#include "tests/support/data_files.h"

namespace attnlab::selection_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

const std::vector<MetricInfo> kAccuracy = {{"accuracy", Better::higher, "share"},
                                           {"nll", Better::lower, "nats"},
                                           {"x", Better::neither, ""}};

TrainOptions options(const std::string& protocol, std::int64_t patience = 0,
                     const std::string& metric = "", const std::string& mode = "auto") {
  TrainOptions train;
  train.protocol = protocol;
  train.early_stop.patience = patience;
  train.early_stop.metric = metric;
  train.early_stop.mode = mode;
  return train;
}

/// The best epoch of a row of values; the epoch after which training ended is left in `ended`.
std::int64_t best_of(const EpochSelection& selection, const std::vector<double>& values,
                     std::int64_t* ended = nullptr) {
  BestEpoch best;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto epoch = static_cast<std::int64_t>(i) + 1;
    selection.judge({{selection.metric(), values[i]}, {"other", 1}}, epoch, best);
    if (ended != nullptr) *ended = epoch;
    if (selection.exhausted(best)) break;
  }
  return best.epoch;
}

TEST(EpochSelection, JudgesByTheSplitOfItsProtocol) {
  EXPECT_FALSE(EpochSelection(options("last"), kAccuracy).active());
  EXPECT_TRUE(EpochSelection(options("sound"), kAccuracy).active());
  EXPECT_EQ(EpochSelection(options("sound"), kAccuracy).split(), Split::validation);
  EXPECT_EQ(EpochSelection(options("published"), kAccuracy).split(), Split::test);
}

TEST(EpochSelection, TakesTheLastOfEqualBests) {
  const EpochSelection selection(options("sound"), kAccuracy);
  EXPECT_EQ(best_of(selection, {0.5, 0.7, 0.6, 0.7, 0.1}), 4);
}

TEST(EpochSelection, EndsAfterAsManyWorseEvaluationsAsItsPatience) {
  const EpochSelection selection(options("sound", 2), kAccuracy);
  std::int64_t ended = 0;
  // A tie at epoch 4 begins the count again.
  EXPECT_EQ(best_of(selection, {0.5, 0.7, 0.6, 0.7, 0.6, 0.6, 0.9}, &ended), 4);
  EXPECT_EQ(ended, 6);
  EXPECT_EQ(
      best_of(EpochSelection(options("sound", 0), kAccuracy), {0.9, 0.1, 0.1, 0.1, 0.1}, &ended),
      1);
  EXPECT_EQ(ended, 5);
}

TEST(EpochSelection, TakesTheSmallerOfALoss) {
  EXPECT_EQ(best_of(EpochSelection(options("sound", 0, "nll"), kAccuracy), {3, 1, 2}), 2);
  EXPECT_EQ(best_of(EpochSelection(options("sound", 0, "x", "min"), kAccuracy), {3, 1, 2}), 2);
  EXPECT_EQ(best_of(EpochSelection(options("sound", 0, "x", "max"), kAccuracy), {1, 3, 2}), 2);
  EXPECT_EQ(best_of(EpochSelection(options("sound"), {{"error", Better::lower, ""}}), {3, 1, 2}),
            2);
}

TEST(EpochSelection, TakesAnyNumberOverNone) {
  const EpochSelection selection(options("sound", 3), kAccuracy);
  EXPECT_EQ(best_of(selection, {NAN, 0.1, NAN}), 2);
}

TEST(EpochSelection, RefusesBeforeTrainingWhatItCannotJudgeBy) {
  EXPECT_THAT(message_of<ConfigError>([] { EpochSelection(options("sound", 1, "x"), kAccuracy); }),
              AllOf(HasSubstr("train.early_stop.mode"), HasSubstr("max or min")));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { EpochSelection(options("sound", 1, "acuracy", "max"), kAccuracy); }),
              mentions("no 'acuracy'", "'accuracy'", "it gives accuracy, nll, x"));
  EXPECT_NO_THROW(EpochSelection(options("last", 0, "acuracy"), kAccuracy)) << "nothing is judged";
}

TEST(EpochSelection, RefusesATaskThatDoesNotGiveWhatItStates) {
  const EpochSelection selection(options("sound"), kAccuracy);
  BestEpoch best;
  EXPECT_THAT(message_of<ConfigError>([&] {
                selection.judge({{"nll", 2}}, 1, best);
              }),
              AllOf(HasSubstr("states 'accuracy'"), HasSubstr("it gave nll")));
}

}  // namespace
}  // namespace attnlab::selection_test
