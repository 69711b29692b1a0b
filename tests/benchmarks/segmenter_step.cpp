// Our side of the segmentation benchmarks: Segmenter (ViT-Ti/16, two layers of mask transformer,
// 150 classes).
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it.
//   --model step     a training step on two pictures of 512 pixels: cross entropy with a tenth of
//                    the pixels unlabelled, SGD with momentum, as `attnlab run` has them
//   --model windows  the evaluation of a picture of 768 x 1024 pixels by windows of 512, 384 apart:
//                    six windows, the class of each pixel, the counts of mIoU
// The batches are those of segmenter_step.py.
#include <ATen/core/grad_mode.h>

#include <boost/program_options.hpp>

#include "tests/benchmarks/timed.h"
#include "tests/benchmarks/training_step.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;

constexpr std::int64_t kClasses = 150, kBatch = 2, kSide = 512, kHeight = 768, kWidth = 1024;

attnlab::DatasetInfo pictures() {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.classes = kClasses;
  for (std::int64_t k = 0; k < kClasses; ++k) {
    info.class_names.push_back("class" + std::to_string(k));
  }
  info.fields = {{"image", {3, -1, -1}},
                 {"shown", {2}, at::kLong},
                 {"label_map", {-1, -1}, at::kLong, {}, kClasses},
                 {"size", {2}, at::kLong}};
  return info;
}

/// Labels in squares of 16 pixels, a tenth of them without.
attnlab::Batch batch_of(std::int64_t size, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kSquare = 16;
  const Tensor coarse = at::randint(kClasses, {size, height / kSquare, width / kSquare}, at::kLong);
  coarse.masked_fill_(at::rand(coarse.sizes()).lt(0.1), -1);
  const Tensor sizes = at::tensor({height, width}, at::kLong).expand({size, 2});
  attnlab::Batch batch;
  batch.size = size;
  batch.fields = {{"image", at::randn({size, 3, height, width})},
                  {"shown", sizes},
                  {"label_map", coarse.repeat_interleave(kSquare, 1).repeat_interleave(kSquare, 2)},
                  {"size", sizes}};
  return batch;
}

/// @returns what an evaluation of the picture takes, in seconds.
double evaluated(attnlab::Model& model, const attnlab::Task& task, const attnlab::DatasetInfo& info,
                 const attnlab::Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  const at::NoGradGuard no_gradients;
  attnlab::Evaluation evaluation{.model = model,
                                 .data = info,
                                 .batches = [&](attnlab::Split, const auto& use) { use(batch); }};
  task.evaluate(evaluation);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard", what = "step";
  std::int64_t threads = 0;
  po::options_description all("attnlab_bench_segmenter_step");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "threads", po::value(&threads), "0: all cores")("model", po::value(&what), "step or windows");
  attnlab::bench::read_options(argc, argv, all);
  if (what != "step" && what != "windows") {
    std::cerr << "--model: step or windows, not " << what << "\n";
    return 2;
  }
  attnlab::bench::prepare(threads);
  const attnlab::DatasetInfo info = pictures();
  const auto model =
      attnlab::testing::make_model("segmenter", info, "{preset: Ti, size: 512}", attention);
  const auto task =
      attnlab::testing::make_task("semantic_segmentation", info, "{window: 512, stride: 384}");
  if (what == "windows") {
    model->eval();
    const attnlab::Batch batch = batch_of(1, kHeight, kWidth);
    attnlab::bench::answer([&] { return evaluated(*model, *task, info, batch); });
    return 0;
  }
  attnlab::OptimizerOptions sgd;
  sgd.use = "sgd";
  sgd.lr = 1e-3;
  sgd.momentum = 0.9;
  sgd.weight_decay = 0;
  attnlab::bench::TrainingStep step(batch_of(kBatch, kSide, kSide), model, task, sgd, /*clip=*/0);
  attnlab::bench::answer([&] { return step.seconds(); });
}
