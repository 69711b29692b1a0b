// Numbers of small runs, written down: they fail when the framework computes other ones, so that
// nobody changes them without raising kNumbersVersion, by which stored results are compared.
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include "framework/base/numbers_version.h"
#include "framework/config/compose.h"
#include "framework/train/entries.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_run.h"

namespace attnlab::canary_test {
namespace {

struct ExpectedNumber {
  const char *run, *number;
  double value;
};

/// What the runs below gave when kNumbersVersion was raised last. A line a number, as the test
/// prints them behind "NUMBER ".
const std::vector<ExpectedNumber>& expected_numbers() {
  static const std::vector<ExpectedNumber> kTable = {
#include "tests/plugins/numbers/expected_numbers.inc"
  };
  return kTable;
}

/// Other processors and compilers add up in another order, and a few steps of float32 make no more
/// of that than 5e-7 (SSE4 and a build with sanitizers against AVX2; AVX-512 and LibTorch 2.x have
/// not been measured). What is changed on purpose moves these numbers by a hundredth and more.
constexpr double kTolerance = 1e-4;

constexpr const char* kRemedy =
    "If the framework is meant to compute other numbers, raise kNumbersVersion "
    "(framework/base/numbers_version.h): every stored run is refused from then on, "
    "those of docs/results/cross_domain with them (some four and a half hours of two cores for "
    "all of them). If a plugin alone is meant to, raise its version: that costs its stored "
    "runs. Then write the new numbers down:\n"
    "  build/release/bin/tests/numbers_test | sed -n 's/^NUMBER //p' > "
    "tests/plugins/numbers/expected_numbers.inc\n"
    "If neither is meant to, undo what changed them.";

struct SmallRun {
  std::string name, composition;
  std::vector<std::string> metrics;  ///< of the test split
};

void PrintTo(const SmallRun& run, std::ostream* out) { *out << run.name; }

/// Initialisation, batches, AdamW, clipping, dropout, a warm-up and a cosine; and evaluations.
const SmallRun kImages = {"images",
                          R"(
schema: 1
model: {use: vit, patch_size: 4, dim: 32, depth: 2, heads: 2, dropout: 0.1}
attention: {use: standard}
task: {use: image_classification, label_smoothing: 0.1}
dataset: {use: synthetic_images, train: 64, test: 32}
train:
  epochs: 2
  batch_size: 16
  clip_norm: 1.0
  threads: 1
  log_every: 1
  tensorboard: false
  optimizer: {use: adamw, lr: 3.0e-3, weight_decay: 0.05}
  schedule: {shape: cosine, warmup_steps: 2}
evaluate:
  corrupted: {set: {task: {use: image_corruptions, corruptions: [fog, contrast], severities: [3]}}}
  attacked: {set: {task: {use: image_attack, attack: pgd, steps: 3}}}
)",
                          {"nll"}};

/// A memory that is carried from batch to batch, causal masks, relative positions.
const SmallRun kLanguage = {"language",
                            R"(
schema: 1
model: {use: transformer_xl, dim: 32, depth: 2, heads: 2, softmax: plain, memory: 32, dropout: 0.1}
attention: {use: quest}
task: {use: language_modelling, unit: character}
dataset: {use: synthetic_text, train: 2100, validation: 0, test: 600, window: 32, words: 8}
train:
  epochs: 1
  batch_size: 8
  eval_batch_size: 8
  clip_norm: 1.0
  threads: 1
  log_every: 1
  tensorboard: false
  optimizer: {use: adamw, lr: 3.0e-3, weight_decay: 0.1, beta2: 0.99}
  schedule: {shape: constant}
)",
                            {"nll", "perplexity"}};

/// Ragged batches, batch norm, message passing, the best epoch of a validation split. SGD with
/// momentum: a bias before a batch norm has no gradient but rounding, of which Adam makes whole
/// steps; and running means, which follow slowly, show them to the evaluation.
const SmallRun kGraphs = {"graphs",
                          R"(
schema: 1
model: {use: graph_gps, mpnn: gine, dim: 16, depth: 2, heads: 2, encoding: rwse, encoding_dim: 4, head: node}
attention: {use: standard}
task: {use: node_classification}
dataset: {use: sbm, name: cluster, train: 16, validation: 8, test: 8, data_seed: 0, rwse: 8}
train:
  epochs: 2
  batch_size: 4
  eval_batch_size: 4
  drop_last: false
  clip_norm: 1.0
  threads: 1
  log_every: 1
  tensorboard: false
  protocol: sound
  early_stop: {metric: nll, mode: min}
  optimizer: {use: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 1.0e-4}
  schedule: {shape: cosine, min_lr: 0}
)",
                          {"nll"}};

/// RAdam, series of several lengths, a last batch that is not full.
const SmallRun kSeries = {"series",
                          R"(
schema: 1
model: {use: timeseries_transformer, dim: 16, depth: 1, heads: 2, hidden: 32}
attention: {use: linear}
task: {use: sequence_classification}
dataset: {use: synthetic_series, train: 56, validation: 16, test: 16}
train:
  epochs: 3
  batch_size: 16
  drop_last: false
  clip_norm: 4.0
  threads: 1
  log_every: 1
  tensorboard: false
  protocol: sound
  early_stop: {metric: nll, mode: min}
  optimizer: {use: radam, lr: 3.0e-3, weight_decay: 0}
  schedule: {shape: constant}
)",
                          {"nll"}};

/// Voxels, patches along curves, batches filled by a budget of points, two groups of parameters.
const SmallRun kPoints = {"points",
                          R"(
schema: 1
model:
  use: point_transformer
  preset: lite
  drop_path: 0
  encoder_depths: [1, 1]
  encoder_dims: [16, 16]
  encoder_heads: [1, 1]
  decoder_depths: [1]
  decoder_dims: [16]
  decoder_heads: [1]
  patch_size: 64
attention: {use: standard}
task: {use: point_segmentation}
dataset: {use: synthetic_scenes, train: 8, test: 4, rays: 600, grid: 0.15}
train:
  epochs: 3
  batching: {budget: 1500}
  eval_batch_size: 4
  clip_norm: 1.0
  threads: 1
  log_every: 1
  tensorboard: false
  optimizer: {use: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.005, groups: {blocks: {match: ["*block*"], lr_scale: 0.5}}}
  schedule: {shape: onecycle, pct_start: 0.3}
)",
                          {}};

/// Scenes, prompts, windows, a decoder with keys of the prompt, matching. FOLDER is made here.
const SmallRun kDetection = {"detection",
                             R"(
schema: 1
model: {use: ia_detr, swin: nano, window: 4, dim: 16, heads: 2, hidden: 16, depth: 2, queries: 6, many_queries: 6, bias_hidden: 8}
attention: {use: standard}
task: {use: one_shot_detection}
dataset: {use: fashion_scenes, root: FOLDER, train: 16, test: 4, canvas: 64, size: 64, prompt_size: 32, largest_scale: 1.2, prompts: 1}
train:
  epochs: 2
  batch_size: 4
  eval_batch_size: 4
  clip_norm: 0.1
  threads: 1
  log_every: 1
  tensorboard: false
  optimizer: {use: adamw, lr: 5.0e-4, weight_decay: 0.05}
  schedule: {shape: cosine, warmup_steps: 2}
)",
                             {}};

/// Forty pieces a file, four of each class: a slope whose steepness says which.
void write_pieces(const testing::TempFolder& folder) {
  for (const std::string prefix : {"train", "t10k"}) {
    std::string bytes, labels;
    for (int i = 0; i < 40; ++i) {
      labels += char(i % 10);
      for (int k = 0; k < 784; ++k) bytes += char((k * (i % 10 + 3) + i) % 256);
    }
    folder.write(prefix + "-images-idx3-ubyte", testing::idx_file({40, 28, 28}, bytes));
    folder.write(prefix + "-labels-idx1-ubyte", testing::idx_file({40}, labels));
  }
}

BuiltRun built(const SmallRun& small) {
  Registry& registry = testing::registry();
  static const testing::TempFolder pieces;
  std::string text = small.composition;
  if (const std::size_t at = text.find("FOLDER"); at != std::string::npos) {
    write_pieces(pieces);
    text.replace(at, 6, pieces.path());
  }
  const Node composed = parse_yaml(text, small.name);
  return build_run(resolve_experiment(composed, registry.catalogue(), small.name), 0, registry);
}

class NumbersCanary : public testing::TinyRuns, public ::testing::WithParamInterface<SmallRun> {
 protected:
  using Numbers = std::vector<std::pair<std::string, double>>;

  /// A run from its beginning to its evaluations.
  Numbers numbers_of(const SmallRun& small) const {
    const RunStatus status = train(built(small), "run");
    EXPECT_EQ(status.state, RunState::done) << status.reason;
    Numbers out;
    const std::vector<nlohmann::json> steps = lines("run", "train");
    if (steps.empty()) return out;
    out.emplace_back("gradient norm of step 1", steps.front().at("gradient_norm"));
    for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{4}, steps.size()}) {
      out.emplace_back("loss of step " + std::to_string(step), steps.at(step - 1).at("loss"));
    }
    for (const std::string& metric : small.metrics) {
      out.emplace_back("test " + metric, status.metrics.at(metric));
    }
    add_evaluations(small, out);
    return out;
  }

  void add_evaluations(const SmallRun& small, Numbers& out) const {
    BuiltRun run = built(small);
    Registry& registry = testing::registry();
    const auto entries = evaluations_of(run.experiment, registry.catalogue());
    if (entries.empty()) return;
    load_model(run, place("run"));
    const std::atomic<bool> stop{false};
    evaluate_entries(run, place("run"), entries, {}, registry, stop,
                     [&](const EvaluationRecord& record, bool) {
                       EXPECT_TRUE(record.done) << record.entry << ": " << record.reason;
                       for (const char* metric : {"accuracy", "nll"}) {
                         const auto found = record.metrics.find(metric);
                         if (found == record.metrics.end()) continue;
                         out.emplace_back(record.entry + " " + metric, found->second);
                       }
                     });
  }
};

/// {"images", "test nll", 2.30258512},
std::string line_of(const std::string& run, const std::string& number, double value) {
  std::ostringstream out;
  out << "{\"" << run << "\", \"" << number << "\", " << std::setprecision(9) << std::scientific
      << value << "},";
  return out.str();
}

TEST_P(NumbersCanary, AreWhatTheyWereWhenTheVersionWasRaisedLast) {
  const SmallRun& small = GetParam();
  std::vector<std::string> wrong;
  for (const auto& [number, value] : numbers_of(small)) {
    std::cout << "NUMBER " << line_of(small.name, number, value) << "\n";
    EXPECT_TRUE(std::isfinite(value)) << number;
    const ExpectedNumber* expected = nullptr;
    for (const ExpectedNumber& one : expected_numbers()) {
      if (one.run == small.name && one.number == number) expected = &one;
    }
    const bool right = expected != nullptr && std::abs(value - expected->value) <=
                                                  kTolerance * std::abs(expected->value) + 1e-6;
    if (right) continue;
    std::ostringstream line;
    line << "  " << number << ": found " << std::setprecision(9) << value << ", expected ";
    if (expected == nullptr) {
      line << "is not written down";
    } else {
      line << expected->value;
    }
    wrong.push_back(line.str());
  }
  std::string text;
  for (const std::string& line : wrong) text += line + "\n";
  EXPECT_TRUE(wrong.empty()) << "numbers of '" << small.name << "' are not those of version "
                             << kNumbersVersion << ":\n"
                             << text << kRemedy;
}

INSTANTIATE_TEST_SUITE_P(Small, NumbersCanary,
                         ::testing::Values(kImages, kLanguage, kGraphs, kSeries, kPoints,
                                           kDetection),
                         [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace attnlab::canary_test
