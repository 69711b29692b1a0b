// Our side of the detection benchmark: training steps of a small IA-DETR on images of 256 pixels.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. The batch is
// that of detr_step.py; model, task, clipping and optimiser are those of `attnlab run` with
// configs/models/ia_detr_nano.yaml and 50 + 100 queries.
#include <boost/program_options.hpp>

#include "tests/benchmarks/timed.h"
#include "tests/benchmarks/training_step.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;

constexpr std::int64_t kBatch = 4, kSide = 256, kPrompt = 64, kObjects = 6, kOthers = 4;

attnlab::DatasetInfo pictures() {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.classes = 2;
  info.class_names = {"asked", "other"};
  info.fields = {{"image", {3, -1, -1}},
                 {"image_valid", {-1, -1}, at::kBool},
                 {"size", {2}, at::kLong},
                 {"box@box", {-1, 4}},
                 {"label@box", {-1}, at::kLong, {}, 2},
                 {"area@box", {-1}},
                 {"ignored@box", {-1}, at::kLong},
                 {"prompt", {3, kPrompt, kPrompt}},
                 {"prompt_class", {}, at::kLong},
                 {"prompt_number", {}, at::kLong}};
  return info;
}

attnlab::Batch batch_of_pictures() {
  std::vector<attnlab::NamedTensors> examples;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    constexpr std::int64_t kBoxes = kObjects + kOthers;
    const Tensor low = at::rand({kBoxes, 2}) * 0.3 + 0.05;
    const Tensor labels = at::ones({kBoxes}, at::kLong);
    labels.narrow(0, 0, kObjects).zero_();
    examples.push_back({{"image", at::randn({3, kSide, kSide})},
                        {"size", at::full({2}, kSide, at::kLong)},
                        {"box@box", at::cat({low, low + at::rand({kBoxes, 2}) * 0.3 + 0.2}, 1)},
                        {"label@box", labels},
                        {"area@box", at::ones({kBoxes})},
                        {"ignored@box", at::zeros({kBoxes}, at::kLong)},
                        {"prompt", at::randn({3, kPrompt, kPrompt})},
                        {"prompt_class", at::zeros({}, at::kLong)},
                        {"prompt_number", at::zeros({}, at::kLong)}});
  }
  return attnlab::collated(examples, pictures().fields);
}

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard", more;
  std::int64_t threads = 0;
  po::options_description all("attnlab_bench_detr_step");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "threads", po::value(&threads), "0: all cores")(
      "more", po::value(&more), "options of the model, e.g. ', decoder: misaligned'");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  attnlab::OptimizerOptions adamw;
  adamw.lr = 5e-4;
  adamw.weight_decay = 0.05;
  attnlab::bench::TrainingStep step(
      batch_of_pictures(),
      attnlab::testing::make_model(
          "ia_detr", pictures(),
          "{swin: nano, window: 4, dim: 64, heads: 4, hidden: 128, depth: 3, queries: 50, "
          "many_queries: 100, bias_hidden: 64" +
              more + "}",
          attention),
      attnlab::testing::make_task("one_shot_detection", pictures()), adamw, 0.1);
  attnlab::bench::answer([&] { return step.seconds(); });
}
