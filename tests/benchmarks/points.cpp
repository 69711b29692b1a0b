// Points: what a scan costs before attention begins, and a training step's time. JSON, a line each.
//
//   attnlab_bench_points [--points 120000] [--grid 0.05] [--rounds 5] [--threads N] [--only WHAT]
//
//   prepare      a lidar-like scan: voxels, then the order along all four curves (milliseconds)
//   convolution  3^3, 32 channels: multiply-adds a second of occupied pairs, forward and with
//                gradients, over those of a large matrix product
//   step         a training step of point_transformer (preset lite) on one cloud
//   memory       bytes of tensors at the peak of a step, from 10^4 points on
//
// `--write FILE` leaves the scan's voxels for points_step.py. `steps N` on standard input with
// --serve answers with a list of N steps' seconds, as vit_step.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <numbers>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/nn/points/curves.h"
#include "framework/nn/points/sparse_convolution.h"
#include "framework/nn/points/voxels.h"
#include "framework/tensor/device.h"
#include "framework/tensor/memory_meter.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;
using at::Tensor;
using namespace attnlab;

namespace {

struct Options {
  std::int64_t points = 120000, rounds = 5, threads = 0;
  double grid = 0.05;
  std::string only, write, attention = "standard";
  bool serve = false;
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_points");
  all.add_options()("help", "this text")("points", po::value(&options.points))(
      "grid", po::value(&options.grid), "metres")("rounds", po::value(&options.rounds))(
      "threads", po::value(&options.threads), "0: all cores")(
      "attention", po::value(&options.attention))("only", po::value(&options.only),
                                                  "prepare, convolution, step or memory")(
      "write", po::value(&options.write), "FILE: the scan's voxels, for points_step.py")(
      "serve", po::bool_switch(&options.serve), "steps on request");
  attnlab::bench::read_options(argc, argv, all);
  return options;
}

/// As a lidar in a street sees it: 64 rings on the ground, walls on both sides, and boxes between.
Tensor scan(std::int64_t points) {
  Random random(1);
  const Tensor all = at::empty({points, 3});
  for (std::int64_t i = 0; i < points; ++i) {
    const double angle = 2 * std::numbers::pi * random.uniform();
    const double down = (-24.8 + 26.8 * double(i % 64) / 63) * std::numbers::pi / 180;
    double distance = down < 0 ? 1.73 / std::tan(-down) : 80;
    distance = std::min({distance, 80.0, 9 / std::abs(std::sin(angle))});
    if (std::fmod(angle, 0.7) < 0.12) distance = std::min(distance, 6 + 10 * std::fmod(angle, 0.5));
    distance += 0.02 * random.normal();
    float* to = all.data_ptr<float>() + 3 * i;
    to[0] = static_cast<float>(distance * std::cos(angle));
    to[1] = static_cast<float>(distance * std::sin(angle));
    to[2] = static_cast<float>(1.73 + distance * std::tan(down));
  }
  return all;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median of some rounds, after one that warms up.
double median_of(std::int64_t rounds, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (std::int64_t i = 0; i < rounds; ++i) times.push_back(seconds_of(work));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

Tensor keys_of(const Voxels& voxels) {
  return voxel_keys(voxels.grid, at::tensor({std::int64_t{0}, voxels.grid.size(0)}, at::kLong));
}

void prepare(const Options& options) {
  const Tensor points = scan(options.points);
  Voxels voxels;
  const double voxelising =
      median_of(options.rounds, [&] { voxels = voxelise(points, options.grid, "scan"); });
  const Tensor keys = keys_of(voxels);
  const double ordering = median_of(options.rounds, [&] {
    for (const Curve curve : kCurves) sorting_order(curve_codes(keys, curve));
  });
  const double mapping = median_of(options.rounds, [&] { kernel_map(keys, 3); });
  std::cout << nlohmann::json{{"points", options.points},
                              {"voxels", keys.size(0)},
                              {"voxelise_ms", voxelising * 1e3},
                              {"four_orders_ms", ordering * 1e3},
                              {"kernel_map_3_ms", mapping * 1e3}}
            << std::endl;
}

void convolution(const Options& options) {
  const Tensor keys = keys_of(voxelise(scan(options.points), options.grid, "scan"));
  const KernelMap map = kernel_map(keys, 3);
  constexpr std::int64_t kChannels = 32, kSide = 1024;
  const Tensor x = at::randn({keys.size(0), kChannels}).requires_grad_();
  const Tensor weight = at::randn({kChannels, 3, 3, 3, kChannels}).requires_grad_();
  const Tensor a = at::randn({kSide, kSide}), b = at::randn({kSide, kSide});
  const double product = median_of(options.rounds, [&] { at::mm(a, b); });
  const double rate = double(kSide) * kSide * kSide / product;
  const double work = double(map.pairs()) * kChannels * kChannels;
  double forward = 0;
  {
    const at::NoGradGuard no_gradients;
    forward = median_of(options.rounds, [&] { sparse_convolution(x, weight, map); });
  }
  const double both = median_of(options.rounds, [&] {
    const Tensor y = sparse_convolution(x, weight, map);
    torch::autograd::grad({y}, {x, weight}, {at::ones_like(y)});
  });
  std::cout << nlohmann::json{{"voxels", keys.size(0)},
                              {"pairs_a_voxel", double(map.pairs()) / double(keys.size(0))},
                              {"product_gmac_per_second", rate / 1e9},
                              {"forward_share", work / forward / rate},
                              {"with_gradients_share", 3 * work / both / rate}}
            << std::endl;
}

/// A training step on one cloud.
class Step {
 public:
  Step(const Options& options, std::int64_t points) {
    const Tensor cloud = scan(points);
    const Voxels voxels = voxelise(cloud, options.grid, "scan");
    const std::int64_t n = voxels.grid.size(0);
    batch_.size = 1;
    batch_.offsets.set("voxel", at::tensor({std::int64_t{0}, n}, at::kLong));
    batch_.offsets.set("point", at::tensor({std::int64_t{0}, points}, at::kLong));
    batch_.fields.set("grid@voxel", voxels.grid);
    batch_.fields.set("feature@voxel", at::randn({n, 4}));
    batch_.fields.set("label@voxel", at::randint(16, {n}, at::kLong));
    batch_.fields.set("label@point", at::randint(16, {points}, at::kLong));
    DatasetInfo info;
    info.name = "scan";
    info.classes = 16;
    for (int k = 0; k < 16; ++k) info.class_names.push_back(std::to_string(k));
    info.fields = {{"grid@voxel", {-1, 3}, at::kLong}, {"feature@voxel", {-1, 4}}};
    at::manual_seed(1);
    model_ = attnlab::testing::make_model("point_transformer", info, "{preset: lite, drop_path: 0}",
                                          options.attention);
    task_ = attnlab::testing::make_task("point_segmentation", info, "{lovasz: 0}");
    model_->train();
    for (const Tensor& parameter : model_->parameters()) {
      moments_.push_back({parameter, at::zeros_like(parameter), at::zeros_like(parameter)});
    }
  }

  void run() {
    ForwardPass pass;
    const Tensor loss = task_->loss(model_->forward(batch_, pass), batch_);
    loss.backward();
    const at::NoGradGuard no_gradients;
    for (auto& [parameter, mean, square] : moments_) {  // AdamW, without bias correction
      const Tensor grad = parameter.grad();
      mean.mul_(0.9).add_(grad, 0.1);
      square.mul_(0.999).addcmul_(grad, grad, 0.001);
      parameter.mul_(1 - 1e-5).addcdiv_(mean, square.sqrt().add_(1e-8), -1e-3);
      parameter.mutable_grad() = Tensor();
    }
  }
  std::int64_t voxels() const { return batch_.fields.at("grid@voxel").size(0); }

 private:
  Batch batch_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<Task> task_;
  std::vector<std::array<Tensor, 3>> moments_;
};

void step(const Options& options) {
  Step step(options, options.points);
  const double seconds = median_of(options.rounds, [&] { step.run(); });
  std::cout << nlohmann::json{{"points", options.points},
                              {"voxels", step.voxels()},
                              {"step_seconds", seconds}}
            << std::endl;
}

void memory(const Options& options) {
  at::set_num_threads(1);  // the meter sees what this thread asks for
  for (const std::int64_t points : {10000, 30000, 100000, 300000, 1000000}) {
    Step step(options, points);
    const MemoryMeter meter;
    step.run();
    std::cout << nlohmann::json{{"points", points},
                                {"voxels", step.voxels()},
                                {"peak_bytes", meter.peak()},
                                {"bytes_a_voxel", double(meter.peak()) / double(step.voxels())}}
              << std::endl;
  }
}

void serve(const Options& options) {
  Step step(options, options.points);
  std::string word;
  for (int count = 0; std::cin >> word && word == "steps" && std::cin >> count;) {
    nlohmann::json times = nlohmann::json::array();
    for (int i = 0; i < count; ++i) times.push_back(seconds_of([&] { step.run(); }));
    std::cout << times << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  use_widest_vectors();
  const Options options = parse(argc, argv);
  use_threads(options.threads);
  if (!options.write.empty()) {
    const Tensor grid = voxelise(scan(options.points), options.grid, "scan").grid;
    write_file(options.write, {static_cast<const char*>(grid.data_ptr()), grid.nbytes()});
    return 0;
  }
  if (options.serve) {
    serve(options);
    return 0;
  }
  const std::pair<const char*, void (*)(const Options&)> all[] = {
      {"prepare", prepare}, {"convolution", convolution}, {"step", step}, {"memory", memory}};
  for (const auto& [name, run] : all) {
    if (options.only.empty() || options.only == name) run(options);
  }
}
