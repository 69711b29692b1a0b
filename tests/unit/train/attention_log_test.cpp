// The trace of a run: the numbers against plain loops, and that looking changes nothing.
#include "framework/train/attention_log.h"
#include "framework/base/json.h"

#include <c10/core/GradMode.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/data/formats/safetensors.h"
#include "framework/train/run.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_run.h"

namespace attnlab::attention_log_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TempFolder;

const std::vector<std::string> kEverything = TraceOptions{}.record;

// ---- the numbers

/// Knows norms and nothing else, as a linear attention does.
class NormsOnly final : public Attention {
 public:
  explicit NormsOnly(const AttentionShape& shape) : Attention(shape, {}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (context.trace != nullptr) {
      LayerTrace seen;
      seen.layer = context.layer;
      seen.query_norms = input.queries.norm(2, -1);
      seen.key_norms = input.keys.norm(2, -1);
      context.trace->on_layer(seen);
    }
    return input.values;
  }
};

/// Two layers (the second attends twice) whose queries, keys and values are the batch itself.
class TwoLayers final : public Model {
 public:
  TwoLayers() {
    const AttentionShape shape{.heads = 2, .head_dim = 3};
    first_ = register_module("first", testing::make_attention("standard", shape));
    second_ = register_module("second", std::make_shared<NormsOnly>(shape));
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    EXPECT_FALSE(is_training() || first_->is_training()) << "it must measure in evaluation mode";
    EXPECT_FALSE(c10::GradMode::is_enabled());
    AttentionInput input;
    input.queries = batch.fields.at("q");
    input.keys = batch.fields.at("k");
    input.values = batch.fields.at("k");
    AttentionContext context{0, nullptr, traced ? pass.trace : nullptr};
    input.visible.causal = true;
    first_->forward(input, context);
    input.visible = {};
    ++context.layer;
    second_->forward(input, context);
    input.queries = input.queries * 2;
    second_->forward(input, context);
    return {};
  }

  bool traced = true;

 private:
  std::shared_ptr<Attention> first_, second_;
};

Batch random_batch(std::int64_t size) {
  Batch batch;
  batch.size = size;
  batch.fields.set("q", at::randn({size, 2, 4, 3}, at::kDouble));
  batch.fields.set("k", at::randn({size, 2, 4, 3}, at::kDouble));
  return batch;
}

/// The numbers of the first layer, one pair at a time: causal softmax(q k / sqrt(3)).
struct Naive {
  double logit_max = -std::numeric_limits<double>::infinity(), entropy = 0;
  double query_mean = 0, query_max = 0, key_mean = 0, key_max = 0;

  explicit Naive(const Batch& batch) {
    const auto q = batch.fields.at("q").accessor<double, 4>();
    const auto k = batch.fields.at("k").accessor<double, 4>();
    const auto norm = [](const auto& vector) {
      return std::sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2]);
    };
    const double rows = static_cast<double>(batch.size) * 2 * 4;
    for (std::int64_t b = 0; b < batch.size; ++b) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < 4; ++i) {
          query_mean += norm(q[b][h][i]) / rows;
          key_mean += norm(k[b][h][i]) / rows;
          query_max = std::max(query_max, norm(q[b][h][i]));
          key_max = std::max(key_max, norm(k[b][h][i]));
          double sum = 0, weighted = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            double logit = 0;
            for (int c = 0; c < 3; ++c) logit += q[b][h][i][c] * k[b][h][j][c];
            logit /= std::sqrt(3.0);
            logit_max = std::max(logit_max, logit);
            sum += std::exp(logit);
            weighted += std::exp(logit) * logit;
          }
          entropy += (std::log(sum) - weighted / sum) / rows;
        }
      }
    }
  }
};

TEST(AttentionLog, EqualsPlainLoops) {
  at::manual_seed(1);
  const auto model = std::make_shared<TwoLayers>();
  Batch batch = random_batch(3);
  // The largest product of all is of a pair that no query sees: it must not count.
  batch.fields.at("q").select(2, 0).mul_(0.1);
  batch.fields.at("k").select(2, 3).copy_(batch.fields.at("q").select(2, 0) * 1e4);
  batch.fields.at("q").select(2, 3).mul_(1e-6);
  const Naive naive(batch);
  const std::vector<LayerSummary> layers = summarise_attention(*model, {batch}, kEverything);
  ASSERT_EQ(layers.size(), 3U);
  const Metrics& numbers = layers[0].numbers;
  ASSERT_EQ(numbers.size(), 6U);
  EXPECT_NEAR(numbers.at("logit_max"), naive.logit_max, 1e-10);
  EXPECT_NEAR(numbers.at("entropy"), naive.entropy, 1e-10);
  EXPECT_NEAR(numbers.at("query_norm_mean"), naive.query_mean, 1e-10);
  EXPECT_NEAR(numbers.at("query_norm_max"), naive.query_max, 1e-10);
  EXPECT_NEAR(numbers.at("key_norm_mean") / naive.key_mean, 1, 1e-10);
  EXPECT_NEAR(numbers.at("key_norm_max") / naive.key_max, 1, 1e-10);
}

TEST(AttentionLog, TellsLayersAndTheirCallsApartAndLeavesOutWhatAMechanismLacks) {
  at::manual_seed(2);
  const auto model = std::make_shared<TwoLayers>();
  const Batch batch = random_batch(2);
  const std::vector<LayerSummary> layers = summarise_attention(*model, {batch}, kEverything);
  ASSERT_EQ(layers.size(), 3U);
  std::vector<std::int64_t> indices, calls;
  for (const LayerSummary& layer : layers) {
    indices.push_back(layer.layer);
    calls.push_back(layer.call);
  }
  EXPECT_THAT(indices, ElementsAre(0, 1, 1));
  EXPECT_THAT(calls, ElementsAre(0, 0, 1));
  EXPECT_EQ(layers[1].numbers.count("logit_max") + layers[1].numbers.count("entropy"), 0U);
  const Naive naive(batch);
  EXPECT_NEAR(layers[1].numbers.at("query_norm_max"), naive.query_max, 1e-10);
  EXPECT_NEAR(layers[2].numbers.at("query_norm_max"), 2 * naive.query_max, 1e-10);
}

TEST(AttentionLog, PartsOfABatchComeToTheSameAsTheWhole) {
  at::manual_seed(3);
  const auto model = std::make_shared<TwoLayers>();
  const Batch whole = random_batch(5);
  std::vector<Batch> parts;
  for (const auto& [begin, size] : {std::pair(0, 1), std::pair(1, 4)}) {
    Batch part;
    part.size = size;
    for (const auto& [name, tensor] : whole.fields) {
      part.fields.set(name, tensor.narrow(0, begin, size));
    }
    parts.push_back(part);
  }
  const auto expected = summarise_attention(*model, {whole}, kEverything);
  const auto found = summarise_attention(*model, parts, kEverything);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].numbers.size(), expected[i].numbers.size());
    for (const auto& [name, value] : expected[i].numbers) {
      EXPECT_NEAR(found[i].numbers.at(name), value, 1e-12) << name;
    }
  }
}

TEST(AttentionLog, RecordsWhatItIsAskedFor) {
  const auto model = std::make_shared<TwoLayers>();
  const Batch batch = random_batch(2);
  const auto names = [&](const std::string& asked) {
    std::vector<std::string> all;
    const std::vector<LayerSummary> layers = summarise_attention(*model, {batch}, {asked});
    for (const auto& [name, value] : layers[0].numbers) {
      all.push_back(name);
    }
    return all;
  };
  EXPECT_THAT(names("logit_max"), ElementsAre("logit_max"));
  EXPECT_THAT(names("query_norm"), ElementsAre("query_norm_max", "query_norm_mean"));
  EXPECT_THAT(names("key_norm"), ElementsAre("key_norm_max", "key_norm_mean"));
  EXPECT_THAT(names("entropy"), ElementsAre("entropy"));
}

TEST(AttentionLog, ANumberThatIsNoneMakesTheLargestAndTheMeanNone) {
  const auto model = std::make_shared<TwoLayers>();
  Batch batch = random_batch(2), sound = random_batch(2);
  batch.fields.at("q").view({-1})[7] = std::nan("");
  // The sound part comes last and must not hide it.
  const Metrics numbers = summarise_attention(*model, {batch, sound}, kEverything)[0].numbers;
  for (const char* name : {"logit_max", "query_norm_max", "query_norm_mean", "entropy"}) {
    EXPECT_TRUE(std::isnan(numbers.at(name))) << name;
  }
  EXPECT_TRUE(std::isfinite(numbers.at("key_norm_max")));
}

TEST(AttentionLog, PutsEveryModulesModeBack) {
  const auto model = std::make_shared<TwoLayers>();
  model->children()[1]->eval();  // frozen while the rest trains
  summarise_attention(*model, {random_batch(1)}, kEverything);
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(model->children()[0]->is_training());
  EXPECT_FALSE(model->children()[1]->is_training());
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

TEST(AttentionLog, RefusesAModelThatRecordsNothing) {
  const auto model = std::make_shared<TwoLayers>();
  model->traced = false;
  EXPECT_THAT(
      message_of<ConfigError>([&] { summarise_attention(*model, {random_batch(1)}, kEverything); }),
      mentions("no attention layer", "recorded"));
}

TEST(AttentionLog, IsDueAtTheFirstStepAndEachSoManySteps) {
  TraceOptions options;
  options.every = 3;
  std::vector<std::int64_t> due;
  for (std::int64_t step = 1; step <= 10; ++step) {
    if (trace_due(options, step)) due.push_back(step);
  }
  EXPECT_THAT(due, ElementsAre(1, 3, 6, 9));
  options.every = 0;
  EXPECT_FALSE(trace_due(options, 1));
}

// ---- in a run

/// Everything that draws random numbers is on.
const std::string kRun = R"(schema: 1
model: {use: vit, patch_size: 7, dim: 16, depth: 2, heads: 2, dropout: 0.1,
        attention_dropout: 0.1, drop_path: 0.1}
attention: quest
task: image_classification
dataset: {use: synthetic_images, train: 48, test: 16}
train: {epochs: 2, batch_size: 8, accumulate: 2, log_every: 1, threads: 1, workers: 0}
)";

class TracedRun : public ::testing::Test {
 protected:
  /// Runs to the end, or until so many steps are done. @returns the status.
  RunStatus run(const std::string& folder, const std::string& more, std::int64_t stop_at = -1,
                double rate = 1e-3) {
    Node composed = parse_yaml(kRun + more, "run.yaml");
    merge(composed, parse_override("train.optimizer.lr=" + shortest(rate)));
    const Experiment experiment =
        resolve_experiment(composed, testing::registry().catalogue(), "run");
    BuiltRun built = build_run(experiment, 3, testing::registry());
    const RunFolder place(folder_ / folder);
    place.freeze(experiment, 3);
    testing::StopAfter sink(stop_at);
    return train_run(built, place, sink, sink.stop);
  }
  /// Lines of metrics.jsonl, as texts; those of the trace or the others.
  std::vector<std::string> lines(const std::string& folder, bool traced) const {
    std::ifstream file(folder_ / folder + "/metrics.jsonl");
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      if ((json::parse(line).at("split") == "trace") == traced) found.push_back(line);
    }
    return found;
  }
  TensorFile checkpoint(const std::string& folder) const {
    return read_safetensors(folder_ / folder + "/checkpoint.safetensors");
  }
  void expect_same_checkpoint(const std::string& a, const std::string& b) const {
    const TensorFile first = checkpoint(a), second = checkpoint(b);
    ASSERT_EQ(first.tensors.size(), second.tensors.size());
    ASSERT_GT(first.tensors.size(), 50U);
    for (const auto& [name, tensor] : first.tensors) {
      EXPECT_TRUE(tensor.equal(second.tensors.at(name))) << name;
    }
  }

  TempFolder folder_;
};

TEST_F(TracedRun, TrainsAsOneThatIsNotLookedAtBitForBit) {
  run("plain", "");
  run("traced", "trace: {every: 2}\n");
  expect_same_checkpoint("plain", "traced");
  ASSERT_EQ(lines("plain", false).size(), 14U);  // twelve steps, two evaluations
  EXPECT_EQ(lines("traced", false), lines("plain", false));
  EXPECT_THAT(lines("plain", true), IsEmpty());
}

TEST_F(TracedRun, WritesALineForEachLayerAtTheFirstStepAndEachSoMany) {
  run("run", "trace: {every: 5, record: [logit_max, entropy]}\n");
  std::vector<std::pair<int, int>> places;
  for (const std::string& text : lines("run", true)) {
    const json line = json::parse(text);
    places.emplace_back(line.at("step"), line.at("layer"));
    EXPECT_EQ(line.size(), 6U) << text;
    EXPECT_EQ(line.at("epoch").get<double>(), line.at("step").get<int>() / 6.0);
    EXPECT_GT(line.at("logit_max").get<double>(), 0);
    EXPECT_GT(line.at("entropy").get<double>(), 0);
    EXPECT_LE(line.at("entropy").get<double>(), std::log(17.0) + 1e-6);  // 16 patches, a class
  }
  EXPECT_THAT(places, ElementsAre(std::pair(1, 0), std::pair(1, 1), std::pair(5, 0),
                                  std::pair(5, 1), std::pair(10, 0), std::pair(10, 1)));
}

TEST_F(TracedRun, LooksAtTheBatchAndTheParametersOfTheStepThatFollows) {
  run("run", "trace: {every: 1}\n");
  // Step 1: the parameters of the start, and the first batch in the run's own order.
  const Experiment experiment =
      resolve_experiment(parse_yaml(kRun, "run.yaml"), testing::registry().catalogue(), "run");
  const BuiltRun start = build_run(experiment, 3, testing::registry());
  const auto order = permutation(48, start.streams.stream("order", 0));
  std::vector<NamedTensors> examples;
  for (int i = 0; i < 8; ++i) {
    Random augmentation = start.streams.stream("augmentation", 0, std::uint64_t(order[i]));
    examples.push_back(start.dataset->example(Split::train, order[i], &augmentation));
  }
  const auto expected =
      summarise_attention(*start.model, {start.dataset->collate(examples)}, kEverything);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const json line = json::parse(lines("run", true)[layer]);
    for (const auto& [name, value] : expected[layer].numbers) {
      EXPECT_NEAR(line.at(name).get<double>(), value, 1e-5 * std::abs(value)) << name;
    }
  }
}

TEST_F(TracedRun, ResumedHasTheLinesOfOneThatWasNotStopped) {
  const std::string trace = "trace: {every: 2}\n";
  run("whole", trace);
  EXPECT_EQ(run("parts", trace, 4).state, RunState::interrupted);
  {
    // As if it had been killed after it looked at the next step.
    std::ofstream more(folder_ / "parts/metrics.jsonl", std::ios::app);
    more << R"({"split":"trace","step":6,"layer":0,"epoch":1.0,"logit_max":1e9})"
         << "\n";
  }
  EXPECT_EQ(run("parts", trace, 9).state, RunState::interrupted);
  EXPECT_EQ(run("parts", trace).state, RunState::done);
  EXPECT_EQ(lines("parts", true), lines("whole", true));
  EXPECT_EQ(lines("parts", false), lines("whole", false));
  expect_same_checkpoint("parts", "whole");
}

TEST_F(TracedRun, ShowsAtTheStepThatDivergedWhatDidAndWritesNullForWhatIsNoNumber) {
  const RunStatus status = run("run", "trace: {every: 1000}\n", -1, 1e30);
  ASSERT_EQ(status.state, RunState::diverged);
  const std::vector<std::string> found = lines("run", true);
  ASSERT_EQ(found.size(), 4U);  // two layers at step 1 and at the one that diverged
  EXPECT_TRUE(json::parse(found[0]).at("logit_max").is_number());
  for (std::size_t i = 2; i < 4; ++i) {
    EXPECT_EQ(json::parse(found[i]).at("step"), status.step + 1) << found[i];
  }
  EXPECT_TRUE(json::parse(found[3]).at("entropy").is_null()) << found[3];
}

TEST_F(TracedRun, DivergedIsRecordedOnceWhereTheStepIsDueAnyway) {
  const RunStatus status = run("run", "trace: {every: 1}\n", -1, 1e30);
  ASSERT_EQ(status.state, RunState::diverged);
  EXPECT_EQ(lines("run", true).size(), 2U * static_cast<std::size_t>(status.step + 1));
}

}  // namespace
}  // namespace attnlab::attention_log_test
