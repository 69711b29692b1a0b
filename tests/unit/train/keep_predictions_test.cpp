// `predictions: true` of an entry: each example's own metrics beside the result.
#include "framework/runs/predictions.h"

#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/train/entries.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::keep_predictions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::registry;

class KeepPredictions : public ::testing::Test {
 protected:
  Experiment asked(const std::string& evaluate) const {
    return resolve_experiment(
        parse_yaml("schema: 1\n"
                   "model: {use: vit, patch_size: 7, dim: 8, depth: 1, heads: 1}\n"
                   "attention: standard\ntask: image_classification\n"
                   "dataset: {use: synthetic_images, train: 16, test: 8, validation: 8}\n"
                   "train: {epochs: 1, batch_size: 8, threads: 1, workers: 0, tensorboard: false}\n"
                   "evaluate:\n" +
                       evaluate,
                   "asked.yaml"),
        registry().catalogue(), "asked");
  }
  BuiltRun trained(const Experiment& experiment) const {
    return testing::trained_run(experiment, run_, registry());
  }
  void evaluate(const BuiltRun& run, bool again = false) const {
    evaluate_entries(run, run_, evaluations_of(run.experiment, registry().catalogue()),
                     {.names = {}, .again = again}, registry(), stop_,
                     [](const EvaluationRecord& record, bool) { EXPECT_EQ(record.reason, ""); });
  }
  EvaluationRecord record(const std::string& name) const {
    const std::vector<EvaluationRecord> records = read_evaluations(run_.path()).records;
    const EvaluationRecord* found = result_of(records, name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? EvaluationRecord() : *found;
  }

  const testing::TempFolder folder_;
  const RunFolder run_{folder_ / "runs/asked/standard/0-01234567"};
  const std::atomic<bool> stop_{false};
};

TEST_F(KeepPredictions, HoldsEachExampleOfTheSplitByItself) {
  const BuiltRun run =
      trained(asked("  answers: {predictions: true}\n"
                    "  plain: {split: validation}\n"));
  evaluate(run);
  const EvaluationRecord answers = record("answers");
  const Predictions kept = read_predictions(run_.path(), answers);
  EXPECT_THAT(kept.examples, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(kept.terms, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(kept.data, run.dataset->info().fingerprint);
  for (const char* name : {"accuracy", "nll"}) {
    ASSERT_EQ(kept.scores.count(name), 1U) << name;
    double mean = 0;
    for (const double score : kept.scores.at(name)) mean += score / 8;
    EXPECT_NEAR(mean, answers.metrics.at(name), 1e-5) << name;
  }
  for (const double score : kept.scores.at("accuracy")) EXPECT_TRUE(score == 0 || score == 1);
  EXPECT_EQ(record("plain").predictions, "");
  const std::string path = run_.file(predictions_file("answers", answers.hash));
  const std::string before = read_text(path);
  evaluate(run, /*again=*/true);
  EXPECT_EQ(read_text(path), before) << "it is the same each time";
}

TEST_F(KeepPredictions, IsAnotherResultThanThatWithoutThem) {
  const auto hash = [&](const std::string& evaluate) {
    const auto entries = evaluations_of(asked(evaluate), registry().catalogue());
    return evaluation_hash(entries.at(0), "weights");
  };
  EXPECT_NE(hash("  held: {split: validation, predictions: true}\n"),
            hash("  held: {split: validation}\n"));
  EXPECT_EQ(hash("  held: {split: validation, predictions: false}\n"),
            hash("  held: {split: validation}\n"));
  const auto is_there = [&](const char* entry) {
    return asked(entry).resolved.at("evaluate").at("held").find("predictions") != nullptr;
  };
  EXPECT_TRUE(is_there("  held: {predictions: true}\n"));
  EXPECT_FALSE(is_there("  held: {split: validation}\n")) << "what earlier builds had is the same";
  EXPECT_THAT(message_of<ConfigError>([&] { asked("  held: {predictions: false}\n"); }),
              HasSubstr("evaluate.held: changes nothing"));
}

}  // namespace
}  // namespace attnlab::keep_predictions_test
