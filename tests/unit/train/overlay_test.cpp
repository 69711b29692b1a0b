// Evaluations of a finished run: what a model draws in them.
#include "framework/train/overlay.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "framework/config/compose.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::overlay_test {
namespace {

using attnlab::testing::mentions;
using testing::clouds;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::tiny_options;
using testing::tiny_run;

/// A line whose answers draw from the process's random numbers, in evaluation too.
class Drawing final : public testing::Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor logits = of(batch.fields.at("x"));
    return {{"logits", logits + 30 * at::rand(logits.sizes())}};
  }
};

/// The sum of the logits of class 0.
class Sum final : public testing::Sorting {
 public:
  Metrics evaluate(Evaluation& evaluation) const override {
    double sum = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      ForwardPass pass;
      sum += evaluation.model.forward(batch, pass).at("logits").select(1, 0).sum().item<double>();
    });
    return {{"accuracy", sum}};
  }
};

EvaluationEntry entry(const std::string& name) {
  EvaluationEntry entry;
  entry.name = name;
  return entry;
}

TEST(Overlay, DrawsByTheRunsSeedAndTheEntryAlone) {
  const std::atomic<bool> stop{false};
  BuiltRun run = tiny_run(clouds<Sum, Drawing>(), tiny_options());
  const auto measured = [&](const std::string& name) {
    return evaluate_overlay(run, entry(name), stop).at("accuracy");
  };
  at::manual_seed(1);
  const double first = measured("fog");
  EXPECT_NE(measured("snow"), first);
  at::manual_seed(2);
  EXPECT_EQ(measured("fog"), first) << "whatever was evaluated and drawn before";
  run.streams = RandomStreams(7);
  EXPECT_NE(measured("fog"), first);
}

TEST(Overlay, LeavesTheProcesssRandomNumbersAsTheyWere) {
  const std::atomic<bool> stop{false};
  BuiltRun run = tiny_run(clouds<Sum, Drawing>(), tiny_options());
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  evaluate_overlay(run, entry("fog"), stop);
  EXPECT_TRUE(generator.get_state().equal(before));
  std::vector<double> one, other;
  const auto examples = [&](std::vector<double>& out) {
    evaluate_overlay_examples(run, entry("fog"), stop, [&](const ExampleMetrics& example) {
      out.push_back(example.metrics.at("accuracy"));
    });
    at::rand({3});
  };
  examples(one);
  examples(other);
  EXPECT_EQ(one, other);
}

/// Ranks nothing where it is given less than two examples.
class Ranking final : public testing::Sorting {
 public:
  Metrics evaluate(Evaluation& evaluation) const override {
    std::int64_t examples = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) { examples += batch.size; });
    if (examples < 2) throw UndefinedMetrics("nothing to rank", {{"nll", 2}});
    return {{"roc_auc", 1}, {"nll", 2}};
  }
};

TEST(Overlay, GivesOfAnExampleTheMetricsThatItHas) {
  const std::atomic<bool> stop{false};
  BuiltRun run = tiny_run(clouds<Ranking>(), tiny_options());
  EXPECT_EQ(evaluate_overlay(run, entry("fog"), stop).size(), 2U);
  std::int64_t examples = 0;
  evaluate_overlay_examples(run, entry("fog"), stop, [&](const ExampleMetrics& example) {
    EXPECT_EQ(example.metrics, (Metrics{{"nll", 2}}));
    ++examples;
  });
  EXPECT_EQ(examples, 16);
}

/// What keeps the one entry of a run from its data; "": nothing.
std::string refusal(const std::string& composition) {
  Registry& registry = testing::registry();
  const Experiment experiment =
      resolve_experiment(parse_yaml("schema: 1\nattention: standard\n"
                                    "train: {epochs: 1, batch_size: 4, threads: 1, workers: 0}\n" +
                                        composition,
                                    "run.yaml"),
                         registry.catalogue(), "run");
  const BuiltRun run = build_run(experiment, 0, registry);
  try {
    overlaid(run, evaluations_of(experiment, registry.catalogue()).at(0), registry);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(Overlay, RefusesDataWhoseNumbersStandForOtherClasses) {
  const std::string images =
      "model: {use: vit, patch_size: 7, dim: 8, depth: 1, heads: 1}\n"
      "task: image_classification\n"
      "dataset: {use: synthetic_images, train: 16, test: 8, classes: 4}\n";
  EXPECT_THAT(refusal(images + "evaluate: {a: {set: {dataset: {classes: 3}}}}\n"),
              mentions("'synthetic_images'", "there are 3, not 4", "run's classes"));
  EXPECT_EQ(refusal(images + "evaluate: {a: {set: {dataset: {noise: 2}}}}\n"), "");
  const TempFolder folder;
  for (const char* part : {"train", "test"}) {
    for (const char* name : {"a", "b", "c", "d"}) {
      folder.write(std::string(part) + "/" + name + ".xyz", "x y z label\n1 2 3 0\n2 2 3 1\n");
    }
  }
  const std::string scans =
      "model: {use: point_transformer, encoder_depths: [1, 1], encoder_dims: [8, 8], "
      "encoder_heads: [1, 1], decoder_depths: [1], decoder_dims: [8], decoder_heads: [1], "
      "patch_size: 16}\n"
      "task: point_segmentation\n"
      "dataset: {use: point_files, root: " +
      folder.path() + ", label: label, classes: [ground, tree]}\n";
  EXPECT_THAT(refusal(scans + "evaluate: {a: {set: {dataset: {classes: [tree, ground]}}}}\n"),
              mentions("class 0", "\"tree\", not \"ground\""));
  EXPECT_EQ(refusal(scans + "evaluate: {a: {set: {dataset: {grid: 0.5}}}}\n"), "");
}

TEST(Overlay, RefusesTargetsInOtherUnits) {
  const auto datasets = testing::registry().catalogue().names(Kind::dataset);
  if (std::count(datasets.begin(), datasets.end(), "molecules") == 0) {
    GTEST_SKIP() << "needs molecules, which needs RDKit";
  }
  const TempFolder folder;
  folder.write("a.csv", "smiles,y,z\nC,0,1\nCC,2,2\nCCC,4,4\nCCCC,6,1\nO,8,5\nCO,1,3\nOO,3,2\n");
  folder.write("b.csv",
               "smiles,y,z\nC,0,1\nCC,20,2\nCCC,40,4\nCCCC,60,1\nO,80,5\nCO,10,3\nOO,30,2\n");
  const auto with = [&](const std::string& targets, const std::string& scale,
                        const std::string& change) {
    return refusal(
        "model: {use: graph_gps, depth: 1, dim: 8, heads: 1}\n"
        "task: graph_regression\n"
        "dataset: {use: molecules, name: table, file: a.csv, smiles: smiles, root: " +
        folder.path() + ", targets: [" + targets + "], scale_targets: " + scale +
        ", split: random, test: 0.2, validation: 0.2}\nevaluate: {a: {set: {dataset: " + change +
        "}}}\n");
  };
  EXPECT_THAT(with("y", "true", "{file: b.csv}"), HasSubstr("scaled by other training rows"));
  EXPECT_EQ(with("y", "false", "{file: b.csv}"), "");
  EXPECT_THAT(with("y, z", "false", "{targets: [z, y]}"), mentions("other names", "order"));
}

}  // namespace
}  // namespace attnlab::overlay_test
