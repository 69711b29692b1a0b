// Probes as entries of `evaluate:` over finished runs: what is saved, other classes, and refusals.
#include <filesystem>

#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/train/entries.h"
#include "framework/train/fitted_file.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_run.h"

namespace attnlab::probe_runs_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::registry;

class ProbeRuns : public ::testing::Test {
 protected:
  static Experiment asked(
      const std::string& evaluate,
      const std::string& model = "{use: vit, patch_size: 4, dim: 8, depth: 1, heads: 1}") {
    return resolve_experiment(
        parse_yaml("schema: 1\n"
                   "model: " +
                       model +
                       "\nattention: standard\ntask: image_classification\n"
                       "dataset: {use: synthetic_images, classes: 4, size: 8, train: 40, test: 20, "
                       "validation: 20}\n"
                       "train: {epochs: 1, batch_size: 8, threads: 1, workers: 0, "
                       "tensorboard: false, average: {decay: 0.5}}\n"
                       "evaluate:\n" +
                       evaluate,
                   "asked.yaml"),
        registry().catalogue(), "asked");
  }

  BuiltRun trained(const Experiment& experiment) const {
    return testing::trained_run(experiment, run_, registry());
  }

  EvaluationRecord evaluated(const BuiltRun& run, const std::string& name,
                             bool again = false) const {
    EvaluationRecord found;
    evaluate_entries(run, run_, evaluations_of(run.experiment, registry().catalogue()),
                     {.names = {name}, .again = again}, registry(), stop_,
                     [&](const EvaluationRecord& record, bool) { found = record; });
    return found;
  }

  const testing::TempFolder folder_;
  const RunFolder run_{folder_ / "runs/asked/standard/0-01234567"};
  const std::atomic<bool> stop_{false};
};

TEST_F(ProbeRuns, SaveWhatTheyFitAndTakeItAgain) {
  const BuiltRun run =
      trained(asked("  probe: {set: {task: {use: logistic_regression, l2: [0.1, 1]}}}\n"));
  const EvaluationRecord first = evaluated(run, "probe");
  ASSERT_EQ(first.reason, "");
  const std::string path = run_.file(fitted_file("probe", first.hash));
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_LT(std::filesystem::file_size(path), 4096U) << "a map [4, 8], no features";
  EXPECT_EQ(evaluated(run, "probe", true).metrics, first.metrics);
  // Another probe in its place is what answers: class 1 to everything.
  NamedTensors fitted = read_fitted(path, first.hash);
  fitted.set("weight", at::zeros_like(fitted.at("weight")));
  fitted.set("bias", at::tensor({0., 1., 0., 0.}, at::kDouble));
  write_fitted(path, first.hash, fitted);
  EXPECT_NE(evaluated(run, "probe", true).metrics.at("nll"), first.metrics.at("nll"));
  std::filesystem::remove(path);
  EXPECT_EQ(evaluated(run, "probe", true).metrics, first.metrics) << "fitted anew, the same";
}

TEST_F(ProbeRuns, RefuseADamagedProbeAndThatOfAnotherResult) {
  const BuiltRun run =
      trained(asked("  probe: {set: {task: {use: linear_probe, epochs: 1, rates: [0.1]}}}\n"));
  const EvaluationRecord first = evaluated(run, "probe");
  const std::string path = run_.file(fitted_file("probe", first.hash));
  const NamedTensors fitted = read_fitted(path, first.hash);
  write_fitted(path, "0123456789abcdef", fitted);
  EXPECT_THAT(evaluated(run, "probe", true).reason,
              AllOf(HasSubstr("another result"), HasSubstr("remove the file"),
                    HasSubstr("the earlier result stays")));
  std::string bytes = read_text(path);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  write_file(path, bytes);
  EXPECT_THAT(message_of<DataError>([&] { read_fitted(path, "0123456789abcdef"); }),
              AllOf(HasSubstr(path), HasSubstr("damaged"), HasSubstr("remove the file")));
}

TEST_F(ProbeRuns, KeepPredictionsByOneProbe) {
  const BuiltRun run = trained(
      asked("  near: {predictions: true, set: {task: {use: knn, k: [5]}}}\n"
            "  line: {predictions: true, set: {task: {use: logistic_regression, l2: [1]}}}\n"));
  for (const char* name : {"near", "line"}) {
    const EvaluationRecord record = evaluated(run, name);
    ASSERT_EQ(record.reason, "") << name;
    EXPECT_NE(record.predictions, "") << name;
  }
  const EvaluationRecord near = evaluated(run, "near");
  EXPECT_FALSE(std::filesystem::exists(run_.file(fitted_file("near", near.hash))))
      << "kNN fits nothing that is kept";
}

/// Data whose classes are others than those the model answers in, with either weights.
TEST_F(ProbeRuns, TellOtherClassesApart) {
  const BuiltRun run =
      trained(asked("  near: {set: {dataset: {classes: 7, train: 80}, task: {use: knn, k: [5]}}}\n"
                    "  mean: {weights: average, set: {dataset: {classes: 7, train: 80}, task: "
                    "{use: logistic_regression, l2: [1]}}}\n"
                    "  answers: {set: {dataset: {classes: 7}}}\n"));
  EXPECT_EQ(evaluated(run, "near").reason, "");
  EXPECT_EQ(evaluated(run, "mean").reason, "");
  EXPECT_THAT(evaluated(run, "answers").reason, HasSubstr("there are 7, not 4"))
      << "what the model answers means nothing there";
}

TEST_F(ProbeRuns, ReadAugmentedImagesWhereTheyAreAskedTo) {
  const BuiltRun run =
      trained(asked("  plain: {set: {task: {use: linear_probe, epochs: 2, rates: [0.1]}}}\n"
                    "  augmented: {set: {task: {use: linear_probe, epochs: 2, rates: [0.1], "
                    "augment: true}}}\n"));
  const EvaluationRecord augmented = evaluated(run, "augmented");
  ASSERT_EQ(augmented.reason, "");
  std::filesystem::remove(run_.file(fitted_file("augmented", augmented.hash)));
  EXPECT_EQ(evaluated(run, "augmented", true).metrics, augmented.metrics) << "drawn by the seed";
  EXPECT_EQ(evaluated(run, "plain").reason, "");
}

TEST_F(ProbeRuns, OfModelsWithoutFeaturesAreRefusedBeforeAnythingRuns) {
  EXPECT_THAT(message_of<ConfigError>([&] { asked("  near: {set: {task: knn}}\n", "crossvit"); }),
              mentions("asked.yaml:8:", "'knn'", "'layer_features'", "nothing gives",
                       "models that give it: ", "vit", "(evaluate.near)"));
}

TEST_F(ProbeRuns, MayBeAskedWhileTheRunIsTrained) {
  const BuiltRun run =
      build_run(asked("  near: {when: each, split: validation, set: {task: {use: knn, k: [5]}}}\n"),
                0, registry());
  const Metrics found = run.each->evaluate(run, Split::validation, {}, stop_,
                                           [](const std::string& why) { FAIL() << why; });
  EXPECT_EQ(found.count("near/accuracy"), 1U);
}

}  // namespace
}  // namespace attnlab::probe_runs_test
