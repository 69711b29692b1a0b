// Evaluations of a finished run: what a model draws in them.
#include "framework/train/overlay.h"

#include <ATen/CPUGeneratorImpl.h>

#include "tests/support/tiny_parts.h"

namespace attnlab::overlay_test {
namespace {

using testing::clouds;
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

}  // namespace
}  // namespace attnlab::overlay_test
