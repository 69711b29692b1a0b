// Our side of the language models' benchmark: a training step of nanoGPT's setting for a CPU, or of
// a Transformer-XL of the same sizes, on one fixed random batch.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. The model,
// the clipping, the optimiser and the memory settings are those of `attnlab run`; lm_step.py says
// which.
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <iostream>

#include "framework/base/json.h"
#include "framework/tensor/device.h"
#include "framework/train/optimizer.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

constexpr std::int64_t kLines = 12, kLength = 64, kWords = 65;

struct Options {
  std::string model = "nano_gpt", attention = "standard";
  std::int64_t threads = 0;

  bool xl() const { return model == "transformer_xl"; }
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_lm_step");
  all.add_options()("help", "this text")("model", po::value(&options.model),
                                         "nano_gpt or transformer_xl")(
      "attention", po::value(&options.attention))("threads", po::value(&options.threads),
                                                  "0: all cores");
  attnlab::bench::read_options(argc, argv, all);
  return options;
}

attnlab::DatasetInfo text() {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.fields = {{"tokens", {kLength}, at::kLong}, {"targets", {kLength}, at::kLong}};
  info.vocabulary = kWords;
  return info;
}

class Step {
 public:
  explicit Step(const Options& options)
      : clip_(options.xl() ? 0.25 : 1.0),
        model_(options.xl()
                   ? attnlab::testing::make_model("transformer_xl", text(),
                                                  "{dim: 128, depth: 4, heads: 4, memory: 64}",
                                                  options.attention)
                   : attnlab::testing::make_model("transformer_lm", text(), "{preset: nano_gpt}",
                                                  options.attention)),
        optimizer_(make_optimizer(*model_, settings())) {
    for (const char* field : {"tokens", "targets"}) {
      batch_.fields.set(field, at::randint(kWords, {kLines, kLength}, at::kLong));
    }
    batch_.size = kLines;
    batch_.continues = true;
    model_->train();
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    attnlab::ForwardPass pass;
    pass.carried = &carried_;
    const at::Tensor loss = model_->forward(batch_, pass).at("nll").mean();
    if (!std::isfinite(loss.item<double>())) {
      throw attnlab::Error("the loss is not finite: this times nothing");
    }
    loss.backward();
    optimizer_.step(attnlab::clip_factor(optimizer_.gradient_norm(), clip_));
    optimizer_.zero_grad();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static attnlab::OptimizerOptions settings() {
    attnlab::OptimizerOptions options;
    options.weight_decay = 0.1;
    options.beta2 = 0.99;
    return options;
  }

  double clip_;
  std::shared_ptr<attnlab::Model> model_;
  attnlab::Optimizer optimizer_;
  attnlab::Batch batch_;
  attnlab::NamedTensors carried_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  attnlab::use_widest_vectors();
  attnlab::use_threads(options.threads);
  attnlab::keep_freed_memory();
  at::manual_seed(0);
  Step step(options);
  for (std::string word; std::cin >> word && word == "steps";) {
    std::int64_t count = 0;
    std::cin >> count;
    nlohmann::json times = nlohmann::json::array();
    for (std::int64_t i = 0; i < count; ++i) times.push_back(step.seconds());
    std::cout << times.dump() << std::endl;
  }
}
