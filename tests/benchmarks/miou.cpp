// The metrics of semantic segmentation over a set of pictures: seconds, a JSON line for each round.
//
//   attnlab_bench_miou [--pictures 2000] [--side 512] [--classes 150] [--rounds 3] [--threads N]
//
// Labels and answers are given, as int64; forty pairs of pictures, which no cache holds, come in
// turn. Labels lie in squares of 16 pixels, of which a tenth have none; a fifth of the answers are
// wrong.
#include <chrono>

#include "framework/eval/segmentation/confusion.h"
#include "tests/benchmarks/timed.h"

namespace {

using at::Tensor;

struct Pair {
  Tensor labels, answers;
};

Pair made_up(std::int64_t side, std::int64_t classes) {
  constexpr std::int64_t kSquare = 16;
  const std::int64_t squares = (side + kSquare - 1) / kSquare;
  const auto map = [&](const Tensor& coarse) {
    return coarse.repeat_interleave(kSquare, 0)
        .repeat_interleave(kSquare, 1)
        .narrow(0, 0, side)
        .narrow(1, 0, side)
        .contiguous();
  };
  const Tensor truth = at::randint(classes, {squares, squares}, at::kLong);
  const Tensor other = at::randint(classes, {squares, squares}, at::kLong);
  const Tensor wrong = at::rand(truth.sizes()).lt(0.2),
               unlabelled = at::rand(truth.sizes()).lt(0.1);
  return {map(truth.masked_fill(unlabelled, -1)), map(at::where(wrong, other, truth))};
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  std::int64_t pictures = 2000, side = 512, classes = 150, rounds = 3, threads = 0;
  po::options_description all("attnlab_bench_miou");
  all.add_options()("help", "this text")("pictures", po::value(&pictures))(
      "side", po::value(&side), "of a picture, pixels")("classes", po::value(&classes))(
      "rounds", po::value(&rounds))("threads", po::value(&threads), "0: all cores");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < classes; ++k) names.push_back(std::to_string(k));
  std::vector<Pair> pairs;
  for (int i = 0; i < 40; ++i) pairs.push_back(made_up(side, classes));
  for (std::int64_t round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const Tensor confusion = at::zeros({classes, classes + 1}, at::kLong);
    for (std::int64_t i = 0; i < pictures; ++i) {
      const Pair& pair = pairs[static_cast<std::size_t>(i) % pairs.size()];
      attnlab::count_answers(pair.labels, pair.answers, confusion, "label_map");
    }
    const attnlab::Metrics metrics = attnlab::segmentation_metrics(confusion, names);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const nlohmann::json line = {
        {"pictures", pictures}, {"seconds", seconds}, {"miou", metrics.at("miou")}};
    std::cout << line.dump() << std::endl;
  }
}
