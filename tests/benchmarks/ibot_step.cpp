// Our side of the benchmark of self-supervision: iBOT's training step with ViT-Ti/16, batch 16, two
// global crops of 224 and six local ones of 96 pixels.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. Of each
// global crop 58 of 196 patches are hidden. Model, task, gradients, clipping, AdamW and the
// teacher's mean are those of `attnlab run` with the composition below; the crops are made once.
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>

#include "framework/config/compose.h"
#include "framework/train/step.h"
#include "framework/train/training_parts.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

constexpr const char* kComposition = R"(
schema: 1
attention: {use: standard}
model: {use: vit, preset: Ti, patch_size: 16, mask_token: true}
task: {use: ibot, temperature_epochs: 0}
dataset:
  use: synthetic_images
  size: 224
  channels: 3
  train: 16
  test: 16
  multi_crop: {global_crops: 2, local_crops: 6, local_size: 96, patch_size: 16,
               mask_shape: random, mask_ratio: [0.3], mask_spread: [0]}
train:
  epochs: 1000
  batch_size: 16
  clip_norm: 3.0
  average: {decay: 0.996, end: 1}
  optimizer: {use: adamw, lr: 5.0e-4, weight_decay: 0.04}
  schedule: {shape: constant}
)";

attnlab::BuiltRun built(const std::string& attention, std::int64_t threads) {
  attnlab::Node composition = attnlab::parse_yaml(kComposition, "ibot_step.cpp");
  composition.set("attention", attnlab::parse_yaml("{use: " + attention + "}", "--attention"));
  if (threads > 0) {
    composition.find("train")->set("threads",
                                   attnlab::parse_yaml(std::to_string(threads), "--threads"));
  }
  attnlab::Registry& registry = attnlab::testing::registry();
  return build_run(attnlab::resolve_experiment(composition, registry.catalogue(), "ibot_step"),
                   /*seed=*/0, registry);
}

attnlab::Batch crops(const attnlab::Dataset& dataset) {
  std::vector<attnlab::NamedTensors> examples;
  for (std::int64_t i = 0; i < dataset.size(attnlab::Split::train); ++i) {
    attnlab::Random random(static_cast<std::uint64_t>(i));
    examples.push_back(dataset.example(attnlab::Split::train, i, &random));
  }
  return dataset.collate(examples);
}

class Step {
 public:
  explicit Step(attnlab::BuiltRun run)
      : run_(std::move(run)),
        batch_(crops(*run_.dataset)),
        parts_(attnlab::take_training_parts(run_)),
        after_step_(run_) {
    run_.model->train();
    run_.task->train();
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    const attnlab::TrainOptions& train = run_.experiment.train;
    attnlab::Optimizer& optimizer = parts_.optimizer;
    const attnlab::StepResult result = attnlab::backward(run_, batch_, {.number = number_});
    if (!std::isfinite(result.loss)) {
      throw attnlab::Error("the loss is not finite: this times nothing");
    }
    optimizer.set_pace(attnlab::pace_at(parts_.schedule, number_));
    optimizer.step(attnlab::clip_factor(optimizer.gradient_norm(), train.clip_norm));
    after_step_({number_, optimizer.learning_rate()});
    parts_.average->update(attnlab::average_decay(train.average, number_, run_.total_steps()));
    optimizer.zero_grad();
    ++number_;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  attnlab::BuiltRun run_;
  attnlab::Batch batch_;
  attnlab::TrainingParts parts_;
  attnlab::AfterStep after_step_;
  std::int64_t number_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard";
  std::int64_t threads = 0;
  po::options_description all("attnlab_bench_ibot_step");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "threads", po::value(&threads), "0: all cores");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  Step step(built(attention, threads));
  attnlab::bench::answer([&] { return step.seconds(); });
}
