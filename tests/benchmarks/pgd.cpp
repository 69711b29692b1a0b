// What the task image_attack takes for PGD of 20 steps, against its bare forward and backward
// passes through the same model, in turn: a line of JSON.
//
//   attnlab_bench_pgd [--attention standard] [--images 64] [--rounds 9] [--threads 0] [--check]
//
// A ViT of 192 channels, 6 layers and 3 heads on images of 32 pixels with patches of 4. Bare passes
// are 20 of forward and backward to the image, and the two forward passes that tell the accuracy
// before and after; parameters need no gradient in either. --check fails where the median of the
// rounds' ratios lies above 1.05.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>

#include "framework/contracts/task.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;
using attnlab::Batch;
using attnlab::Model;

constexpr double kLimit = 1.05;
constexpr int kSteps = 20;

attnlab::DatasetInfo cifar() {
  attnlab::DatasetInfo info;
  info.name = "made up";
  info.classes = 10;
  attnlab::FieldInfo image{"image", {3, 32, 32}, at::kFloat};
  image.mean = {0.5, 0.5, 0.5};
  image.deviation = {0.25, 0.25, 0.25};
  info.fields = {image, {"class", {}, at::kLong}};
  return info;
}

Tensor logits_of(Model& model, const Tensor& images) {
  Batch batch;
  batch.size = images.size(0);
  batch.fields.set("image", images);
  attnlab::ForwardPass pass;
  return model.forward(batch, pass).at("logits");
}

void bare_passes(Model& model, const Batch& batch) {
  const Tensor images = batch.fields.at("image");
  {
    const c10::NoGradGuard no_grad;
    for (int i = 0; i < 2; ++i) logits_of(model, images);
  }
  for (int i = 0; i < kSteps; ++i) {
    const at::AutoGradMode gradients(true);
    const Tensor leaf = images.detach().clone().set_requires_grad(true);
    const Tensor loss = at::cross_entropy_loss(logits_of(model, leaf), batch.fields.at("class"), {},
                                               at::Reduction::Sum);
    torch::autograd::grad({loss}, {leaf});
  }
}

void attack(const attnlab::Task& task, Model& model, const attnlab::DatasetInfo& info,
            const Batch& batch) {
  const c10::NoGradGuard no_grad;
  attnlab::Evaluation evaluation{model, info, attnlab::Split::test, attnlab::RandomStreams(0), {}};
  evaluation.batches = [&](attnlab::Split, const std::function<void(const Batch&)>& use) {
    use(batch);
  };
  task.evaluate(evaluation);
}

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard";
  std::int64_t images = 64, threads = 0;
  int rounds = 9;
  bool check = false;
  po::options_description all("attnlab_bench_pgd");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "images", po::value(&images), "in a batch")("rounds", po::value(&rounds))(
      "threads", po::value(&threads), "0: all cores")(
      "check", po::bool_switch(&check), "exit status 1 where PGD takes over 1.05 times its passes");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  const attnlab::DatasetInfo info = cifar();
  const auto model = attnlab::testing::make_model(
      "vit", info, "{dim: 192, depth: 6, heads: 3, patch_size: 4}", attention);
  model->eval();
  for (const Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
  const auto task = attnlab::testing::make_task("image_attack", info, "{attack: pgd, steps: 20}");
  Batch batch;
  batch.size = images;
  batch.fields.set("image", (at::rand({images, 3, 32, 32}) - 0.5) / 0.25);
  batch.fields.set("class", at::randint(10, {images}, at::kLong));
  std::vector<double> bare, attacked, ratios;
  for (int round = -1; round < rounds; ++round) {
    const double passes = seconds([&] { bare_passes(*model, batch); });
    const double pgd = seconds([&] { attack(*task, *model, info, batch); });
    if (round < 0) continue;
    bare.push_back(passes);
    attacked.push_back(pgd);
    ratios.push_back(pgd / passes);
  }
  const double ratio = median(ratios);
  const nlohmann::json line = {{"attention", attention},
                               {"images", images},
                               {"pgd_s", median(attacked)},
                               {"passes_s", median(bare)},
                               {"ratio", ratio}};
  std::cout << line.dump() << std::endl;
  return check && ratio > kLimit ? 1 : 0;
}
