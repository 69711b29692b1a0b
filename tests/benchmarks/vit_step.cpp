// Our side of the training-step benchmark: ViT-Ti/16, 224 pixels, AdamW, one fixed random batch.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. The model,
// the optimiser and the memory settings are those of `attnlab run`.
// --attention takes a plugin's name, a Python file or `explicit`.
// --precision bfloat16 rounds the factors of products, as train.precision does.
// --preset B takes another size. --recompute computes layers again, as train.recompute: layers
// does.
// --memory takes two steps with one thread and prints the largest number of bytes that tensors hold
// ("tensors": with parameters and moments), and how many of them a step adds ("step"), instead.
// --rates prints the floating-point operations of a step's products, and how many a second a large
// product of matrices does here, instead: {"step": N, "product_a_second": N}.
#include <ATen/Context.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>

#include "framework/contracts/recompute.h"
#include "framework/eval/classification.h"
#include "framework/nn/kernels/linear.h"
#include "framework/nn/kernels/precision.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/memory_meter.h"
#include "framework/train/optimizer.h"
#include "tests/benchmarks/named_attention.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

struct Options {
  std::string attention = "standard", precision = "float32", preset = "Ti";
  std::int64_t threads = 0, batch = 16, size = 224;
  bool rates = false, recompute = false, memory = false;
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_vit_step");
  all.add_options()("help", "this text")("attention", po::value(&options.attention))(
      "threads", po::value(&options.threads), "0: all cores")("batch", po::value(&options.batch))(
      "size", po::value(&options.size), "pixels of a side")("preset", po::value(&options.preset),
                                                            "Ti, S, B, L or H")(
      "recompute", po::bool_switch(&options.recompute), "compute layers again")(
      "memory", po::bool_switch(&options.memory), "bytes of tensors")(
      "precision", po::value(&options.precision), "of products: float32, bfloat16")(
      "rates", po::bool_switch(&options.rates), "operations of a step, and a product's a second");
  attnlab::bench::read_options(argc, argv, all);
  if (options.precision == "bfloat16") {
    if (!attnlab::has_bfloat16_products(at::kCPU)) {
      std::cerr << "--precision bfloat16: this processor has no products of it\n";
      std::exit(2);
    }
    attnlab::use_product_precision(attnlab::Precision::bfloat16);
  } else if (options.precision != "float32") {
    std::cerr << "--precision: float32 or bfloat16, not " << options.precision << "\n";
    std::exit(2);
  }
  return options;
}

class Step {
 public:
  explicit Step(const Options& options)
      : model_(attnlab::testing::make_model("vit", info(options.size),
                                            "{preset: " + options.preset + ", patch_size: 16}",
                                            attnlab::bench::named_attention(options.attention))),
        optimizer_(parameters(*model_), {1e-3, 0.9, 0.999, 1e-8, 0.05}),
        recompute_(options.recompute) {
    batch_.fields.set("image", at::randn({options.batch, 3, options.size, options.size}));
    batch_.fields.set("class", at::randint(1000, {options.batch}, at::kLong));
    batch_.size = options.batch;
    model_->train();
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    attnlab::ForwardPass pass;
    const attnlab::NamedTensors outputs = [&] {
      const attnlab::RecomputeLayers again(recompute_);
      return model_->forward(batch_, pass);
    }();
    const at::Tensor loss =
        attnlab::classification_loss(outputs.at("logits"), batch_.fields.at("class"), 0.0);
    loss.item<double>();
    loss.backward();
    optimizer_.step();
    optimizer_.zero_grad();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static attnlab::DatasetInfo info(std::int64_t size) {
    attnlab::DatasetInfo info;
    info.name = "random";
    info.fields = {{"image", {3, size, size}, at::kFloat}, {"class", {}, at::kLong}};
    info.classes = 1000;
    return info;
  }
  static std::vector<attnlab::OptimizedParameter> parameters(attnlab::Model& model) {
    std::vector<attnlab::OptimizedParameter> all;
    for (const auto& item : model.named_parameters()) {
      all.push_back({item.key(), item.value(), model.decays(item.key(), item.value())});
    }
    return all;
  }

  std::shared_ptr<attnlab::Model> model_;
  attnlab::Optimizer optimizer_;
  attnlab::Batch batch_;
  bool recompute_;
};

nlohmann::json memory(const Options& options) {
  std::int64_t all = 0;
  {
    const attnlab::MemoryMeter meter;
    Step step(options);
    for (int i = 0; i < 2; ++i) step.seconds();
    all = meter.peak();
  }
  Step step(options);
  step.seconds();  // the moments are made
  const attnlab::MemoryMeter meter;
  step.seconds();
  return {{"tensors", all}, {"step", meter.peak()}};
}

/// Of the fastest of ten products of square matrices, by LibTorch and as linear maps have them.
double operations_a_second_of_a_product() {
  constexpr std::int64_t kSide = 2048;
  const at::Tensor a = at::randn({kSide, kSide}), b = at::randn({kSide, kSide});
  double shortest = INFINITY;
  const auto time = [&](const auto& multiply) {
    const auto begin = std::chrono::steady_clock::now();
    multiply();
    shortest = std::min(
        shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  };
  for (int round = 0; round < 10; ++round) {
    time([&] { attnlab::product(a, b); });
    time([&] { attnlab::linear(a, b, {}); });
  }
  return 2.0 * kSide * kSide * kSide / shortest;
}

nlohmann::json rates(Step& step) {
  step.seconds();
  const attnlab::FlopCounter counter;
  step.seconds();
  return {{"step", counter.total()}, {"product_a_second", operations_a_second_of_a_product()}};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  attnlab::bench::prepare(options.memory ? 1 : options.threads);
  if (options.memory) {
    std::cout << memory(options) << std::endl;
    return 0;
  }
  Step step(options);
  if (options.rates) {
    std::cout << rates(step) << std::endl;
    return 0;
  }
  attnlab::bench::answer([&] { return step.seconds(); });
}
