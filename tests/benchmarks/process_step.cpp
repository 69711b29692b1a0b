// A training step of a run in one or several processes, by the run's own code: ViT/16 or
// Transformer-XL on one fixed random batch (vit_step.py and lm_step.py say which).
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. With RANK,
// WORLD_SIZE and ATTNLAB_MEETING it is one of several processes, which must all read the same; the
// batch is then cut into as many parts (`train.parts`), and each process has one. --parts cuts it
// for one process, too.
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "framework/base/launched.h"
#include "framework/train/gloo_world.h"
#include "framework/train/parts.h"
#include "framework/train/step.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace attnlab::bench {
namespace {

struct Options {
  std::string model = "vit", preset = "Ti", attention = "standard";
  std::int64_t threads = 1, parts = 0, batch = 0, size = 224;

  bool xl() const { return model == "transformer_xl"; }
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_process_step");
  all.add_options()("help", "this text")("model", po::value(&options.model),
                                         "vit or transformer_xl")(
      "preset", po::value(&options.preset), "of vit: Ti, S, B, L or H")(
      "attention", po::value(&options.attention))("threads", po::value(&options.threads),
                                                  "of each process; 0: all cores")(
      "parts", po::value(&options.parts), "of a batch; 0: one for each process")(
      "batch", po::value(&options.batch), "of all processes; 0: 16, of transformer_xl 12")(
      "size", po::value(&options.size), "of vit: pixels of a side");
  read_options(argc, argv, all);
  if (options.batch == 0) options.batch = options.xl() ? 12 : 16;
  return options;
}

/// Its description alone: a step asks for no more.
class NoExamples final : public Dataset {
 public:
  explicit NoExamples(DatasetInfo info) : info_(std::move(info)) { info_.name = "random"; }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return 0; }

 private:
  NamedTensors make_example(Split, std::int64_t, Random*) const override {
    throw Error("this has no examples");
  }
  DatasetInfo info_;
};

BuiltRun vit(const Options& options, Batch& batch) {
  constexpr std::int64_t kClasses = 1000;
  const std::vector<std::int64_t> image = {3, options.size, options.size};
  DatasetInfo info;
  info.fields = {{"image", image, at::kFloat},
                 {.name = "class", .shape = {}, .dtype = at::kLong, .categories = kClasses}};
  info.classes = kClasses;
  BuiltRun run;
  run.dataset = std::make_shared<NoExamples>(info);
  run.model = testing::make_model("vit", info, "{preset: " + options.preset + ", patch_size: 16}",
                                  options.attention);
  run.task = testing::make_task("image_classification", info);
  run.experiment.train.optimizer.weight_decay = 0.05;
  batch.fields.set("image", at::randn({options.batch, 3, options.size, options.size}));
  batch.fields.set("class", at::randint(kClasses, {options.batch}, at::kLong));
  return run;
}

BuiltRun transformer_xl(const Options& options, Batch& batch) {
  constexpr std::int64_t kLength = 64, kWords = 65;
  DatasetInfo info;
  info.fields = {{"tokens", {kLength}, at::kLong}, {"targets", {kLength}, at::kLong}};
  info.vocabulary = kWords;
  BuiltRun run;
  run.dataset = std::make_shared<NoExamples>(info);
  run.model = testing::make_model("transformer_xl", info,
                                  "{dim: 128, depth: 4, heads: 4, memory: 64}", options.attention);
  run.task = testing::make_task("language_modelling", info);
  TrainOptions& train = run.experiment.train;
  train.optimizer.weight_decay = 0.1;
  train.optimizer.beta2 = 0.99;
  train.clip_norm = 0.25;
  for (const char* field : {"tokens", "targets"}) {
    batch.fields.set(field, at::randint(kWords, {options.batch, kLength}, at::kLong));
  }
  batch.continues = true;
  return run;
}

/// As `Training` makes one, without what loads, records and saves.
class Step {
 public:
  explicit Step(const Options& options)
      : batch_(Batch{}),
        run_(options.xl() ? transformer_xl(options, batch_) : vit(options, batch_)) {
    batch_.size = options.batch;
    run_.streams = RandomStreams(0);
    run_.steps_per_epoch = 1;
    run_.experiment.train.steps = 1'000'000;
    run_.experiment.train.optimizer.lr = 1e-3;
    if (const auto launched = launched_as()) run_.world = join_world(*launched, patience());
    parts_ = options.parts > 0 ? options.parts : run_.world->size();
    run_.experiment.train.parts = parts_;
    optimizer_.emplace(make_optimizer(run_));
    after_step_.emplace(run_);
    run_.model->train();
    run_.task->train();
    const OwnParts own = own_parts(*run_.world, parts_);
    for (std::int64_t part = own.first; part < own.first + own.count; ++part) {
      const std::int64_t begin = part_begin(batch_.size, part, parts_);
      own_.parts.push_back(slice(batch_, begin, part_begin(batch_.size, part + 1, parts_) - begin));
      own_.numbers.push_back(part);
    }
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    const TrainOptions& train = run_.experiment.train;
    at::manual_seed(run_.streams.key("dropout", std::uint64_t(number_)));
    const StepContext around{.number = number_, .carried = batch_.continues ? &carried_ : nullptr};
    const double loss = parts_ > 1 ? backward_in_parts(run_, own_, around).loss
                                   : backward(run_, batch_, around).loss;
    if (!std::isfinite(loss)) throw Error("the loss is not finite: this times nothing");
    const double norm = train.clip_norm > 0 ? optimizer_->gradient_norm() : 0;
    optimizer_->step(clip_factor(norm, train.clip_norm));
    (*after_step_)({number_++, optimizer_->learning_rate()});
    optimizer_->zero_grad();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Batch batch_;
  BuiltRun run_;
  std::int64_t parts_ = 1, number_ = 0;
  std::optional<Optimizer> optimizer_;
  std::optional<AfterStep> after_step_;
  StepBatch own_;
  NamedTensors carried_;
};

}  // namespace
}  // namespace attnlab::bench

int main(int argc, char** argv) {
  const attnlab::bench::Options options = attnlab::bench::parse(argc, argv);
  attnlab::bench::prepare(options.threads);
  attnlab::bench::Step step(options);
  attnlab::bench::answer([&] { return step.seconds(); });
}
