// Our side of the time-series benchmark: training epochs of a set of JapaneseVowels' sizes.
//
// Reads "steps N" and answers with a JSON list of N times in seconds, of an epoch each; "quit" ends
// it. The series are random numbers in .ts files of its own; dataset, loader, model, clipping and
// optimiser are those of `attnlab run` with configs/base/timeseries_published.yaml.
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>

#include "framework/data/loader.h"
#include "framework/eval/classification.h"
#include "framework/train/optimizer.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace po = boost::program_options;

namespace {

constexpr std::int64_t kChannels = 12, kClasses = 9, kLongest = 29, kShortest = 7, kTrain = 270;

struct Options {
  std::string attention = "standard";
  std::int64_t threads = 0, workers = 1;
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_uea_epoch");
  all.add_options()("help", "this text")("attention", po::value(&options.attention))(
      "threads", po::value(&options.threads), "0: all cores")("workers",
                                                              po::value(&options.workers));
  attnlab::bench::read_options(argc, argv, all);
  return options;
}

/// A .ts file of random series; the first is the longest.
std::string series_file(std::int64_t count, std::uint64_t seed) {
  attnlab::Random random(seed);
  std::string text = "@dimensions " + std::to_string(kChannels) + "\n@classLabel true";
  for (std::int64_t k = 0; k < kClasses; ++k) text += " " + std::to_string(k);
  text += "\n@data\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length =
        i == 0 ? kLongest : kShortest + random.below(kLongest - kShortest + 1);
    for (std::int64_t c = 0; c < kChannels; ++c) {
      for (std::int64_t t = 0; t < length; ++t) {
        text += std::to_string(random.normal()) + (t + 1 < length ? "," : ":");
      }
    }
    text += std::to_string(i % kClasses) + "\n";
  }
  return text;
}

std::shared_ptr<attnlab::Dataset> open_set() {
  const attnlab::testing::TempFolder folder;  // the dataset reads everything when it is opened
  folder.write("Made_TRAIN.ts", series_file(kTrain, 1));
  folder.write("Made_TEST.ts", series_file(kClasses, 2));
  return attnlab::testing::make_dataset(
      "uea", "{name: Made, root: " + folder.path() + ", padding: published}");
}

class Training {
 public:
  explicit Training(const Options& options)
      : dataset_(open_set()),
        model_(attnlab::testing::make_model("timeseries_transformer", dataset_->info(), "{}",
                                            options.attention)),
        optimizer_(make_optimizer(*model_, radam())) {
    settings_.workers = options.workers;
    model_->train();
  }

  double epoch_seconds() {
    const auto begin = std::chrono::steady_clock::now();
    settings_.epoch = epoch_++;
    attnlab::Loader loader(
        *dataset_, streams_,
        dataset_->plan(
            {.training = true, .batch_size = 16, .epoch = settings_.epoch, .streams = streams_}),
        settings_);
    while (const auto batch = loader.next()) step(*batch);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static attnlab::OptimizerOptions radam() {
    attnlab::OptimizerOptions options;
    options.use = "radam";
    options.weight_decay = 0;
    return options;
  }

  void step(const attnlab::Batch& batch) {
    attnlab::ForwardPass pass;
    const at::Tensor loss = attnlab::classification_loss(model_->forward(batch, pass).at("logits"),
                                                         batch.fields.at("class"), 0.0);
    if (!std::isfinite(loss.item<double>())) {
      throw attnlab::Error("the loss is not finite: this times nothing");
    }
    loss.backward();
    optimizer_.step(attnlab::clip_factor(optimizer_.gradient_norm(), 4.0));
    optimizer_.zero_grad();
  }

  attnlab::RandomStreams streams_{0};
  std::shared_ptr<attnlab::Dataset> dataset_;
  std::shared_ptr<attnlab::Model> model_;
  attnlab::Optimizer optimizer_;
  attnlab::LoaderSettings settings_;
  std::uint64_t epoch_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  attnlab::bench::prepare(options.threads);
  Training training(options);
  attnlab::bench::answer([&] { return training.epoch_seconds(); });
}
