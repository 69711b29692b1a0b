// COCO's average precision over a set of COCO's size: seconds for all metrics of closed-set
// detection, a JSON line for each round.
//
//   attnlab_bench_average_precision [--images 5000] [--classes 80] [--rounds 3]
#include <algorithm>
#include <chrono>

#include "framework/base/random.h"
#include "framework/eval/detection/detection_meter.h"
#include "tests/benchmarks/timed.h"

namespace attnlab {
namespace {

/// Seven objects an image, and 300 queries that answer some of them well and the rest anywhere.
struct MadeUp {
  NamedTensors outputs;
  Batch batch;
};

MadeUp made_up(std::int64_t images, std::int64_t classes, Random& random) {
  constexpr std::int64_t kObjects = 7, kQueries = 300;
  const auto uniform = [&](at::IntArrayRef shape) {
    const Tensor x = at::empty(shape);
    std::generate_n(x.data_ptr<float>(), x.numel(), [&] { return float(random.uniform()); });
    return x;
  };
  const Tensor centres = uniform({images, kObjects, 2}) * 0.8 + 0.1;
  const Tensor sides = uniform({images, kObjects, 2}) * 0.2 + 0.02;
  const Tensor truth = at::cat({centres - sides / 2, centres + sides / 2}, 2);
  const Tensor labels = (uniform({images * kObjects}) * double(classes)).floor().to(at::kLong);
  // Each object is answered by a query that has nearly its box, with a good score of its class.
  Tensor boxes = uniform({images, kQueries, 4}) * 0.3 + 0.2;
  boxes.narrow(1, 0, kObjects)
      .copy_(at::cat({centres, sides}, 2) + uniform({images, kObjects, 4}) * 0.02);
  Tensor logits = uniform({images, kQueries, classes}) * 4 - 6;
  logits.narrow(1, 0, kObjects)
      .scatter_(2, labels.view({images, kObjects, 1}), uniform({images, kObjects, 1}) * 4);
  const std::int64_t count = images * kObjects;
  MadeUp made;
  made.outputs = {{"logits", logits}, {"boxes", boxes}};
  made.batch.size = images;
  made.batch.fields = {{"size", at::tensor({480, 640}, at::kLong).expand({images, 2})},
                       {"box@box", truth.view({count, 4})},
                       {"label@box", labels},
                       {"area@box", (sides.prod(2) * (480 * 640)).view({count})},
                       {"ignored@box", at::zeros({count}, at::kLong)}};
  made.batch.offsets = {{"box", at::arange(0, count + 1, kObjects, at::kLong)}};
  return made;
}

}  // namespace
}  // namespace attnlab

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  std::int64_t images = 5000, classes = 80, threads = 0;
  int rounds = 3;
  po::options_description all("attnlab_bench_average_precision");
  all.add_options()("help", "this text")("images", po::value(&images))(
      "classes", po::value(&classes))("rounds", po::value(&rounds))("threads", po::value(&threads));
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  attnlab::DatasetInfo info;
  info.classes = classes;
  for (std::int64_t k = 0; k < classes; ++k) info.class_names.push_back(std::to_string(k));
  constexpr std::int64_t kBatch = 50;
  for (int round = 0; round < rounds; ++round) {
    attnlab::Random random(static_cast<std::uint64_t>(round));
    attnlab::DetectionMeter meter(info, /*one_shot=*/false, /*most=*/100);
    double adding = 0;
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto since = [&](auto begin) {
      return std::chrono::duration<double>(now() - begin).count();
    };
    for (std::int64_t done = 0; done < images; done += kBatch) {
      const attnlab::MadeUp made =
          attnlab::made_up(std::min(kBatch, images - done), classes, random);
      const auto begin = now();
      meter.add(made.outputs, made.batch);
      adding += since(begin);
    }
    const auto begin = now();
    const attnlab::Metrics metrics = meter.result();
    const nlohmann::json line = {{"images", images},           {"classes", classes},
                                 {"adding_s", adding},         {"result_s", since(begin)},
                                 {"ap50", metrics.at("ap50")}, {"ap", metrics.at("ap")}};
    std::cout << line.dump() << std::endl;
  }
  return 0;
}
