// The sum of gradients over processes, one of these: RANK, WORLD_SIZE and ATTNLAB_MEETING say which
// (compare_processes.py sets them, and starts the others).
//
//   tree         as a run does it (framework/train/world.h): in tree order, of a list of tensors,
//                which are put together first and taken apart afterwards
//   all_reduce   c10d's own by Gloo (a ring), of numbers that lie together already
//   copying      the same of such a list: put together, summed, and taken apart
//   gather       what a step's processes tell each other, with no sum
//
// Reads one of these words and N, and answers with a JSON list of N times in seconds: of the
// slowest process, from the moment at which all have come; "quit" ends it. Each sum is checked.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "framework/base/launched.h"
#include "framework/train/gloo_world.h"
#include "tests/benchmarks/timed.h"

namespace po = boost::program_options;

namespace attnlab::bench {
namespace {

struct Options {
  std::int64_t values = 6'000'000, tensors = 150, threads = 1;
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_tree_sum");
  all.add_options()("help", "this text")("values", po::value(&options.values),
                                         "float32 numbers in all")(
      "tensors", po::value(&options.tensors), "of about equal size")(
      "threads", po::value(&options.threads), "of each process");
  read_options(argc, argv, all);
  return options;
}

class Sum {
 public:
  Sum(const Options& options, const Launched& launched)
      : world_(join_world(launched, patience())), flat_(at::empty({options.values})) {
    for (std::int64_t i = 0; i < options.tensors; ++i) {
      const std::int64_t begin = i * options.values / options.tensors;
      const std::int64_t end = (i + 1) * options.values / options.tensors;
      if (end > begin) tensors_.push_back(flat_.narrow(0, begin, end - begin));
    }
    join_group(launched);
  }

  bool knows(const std::string& way) const { return ways_.count(way) > 0; }

  double seconds(const std::string& way) {
    const bool sums = way != "gather";
    flat_.fill_(static_cast<float>(world_->rank() + 1));
    world_->meet();
    const auto begin = std::chrono::steady_clock::now();
    ways_.at(way)();
    const std::chrono::duration<double> own = std::chrono::steady_clock::now() - begin;
    const auto sum = static_cast<float>(world_->size() * (world_->size() + 1) / 2);
    if (sums && !flat_.eq(sum).all().item<bool>()) throw Error("a sum is wrong");
    double slowest = 0;
    for (const std::string& text : world_->gather(fmt::format("{:.9f}", own.count()))) {
      slowest = std::max(slowest, std::stod(text));
    }
    return slowest;
  }

 private:
  /// As PyTorch makes one, on this machine's own network.
  void join_group(const Launched& launched) {
    auto options = c10d::ProcessGroupGloo::Options::create(patience());
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
    const int size = static_cast<int>(launched.size);
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::FileStore>(launched.file + "-group", size),
        static_cast<int>(launched.rank), size, options);
  }
  void all_reduce(const Tensor& flat) {
    std::vector<at::Tensor> all = {flat};
    group_->allreduce(all)->wait();
  }
  void copying() {
    const Tensor together = at::cat(tensors_);
    all_reduce(together);
    std::int64_t begin = 0;
    for (Tensor& tensor : tensors_) {
      tensor.copy_(together.narrow(0, begin, tensor.numel()));
      begin += tensor.numel();
    }
  }

  std::shared_ptr<World> world_;
  Tensor flat_;
  std::vector<Tensor> tensors_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  const std::map<std::string, std::function<void()>> ways_ = {
      {"tree", [this] { tree_sum(*world_, tensors_); }},
      {"all_reduce", [this] { all_reduce(flat_); }},
      {"copying", [this] { copying(); }},
      {"gather", [this] { world_->meet(); }}};
};

}  // namespace
}  // namespace attnlab::bench

int main(int argc, char** argv) {
  const attnlab::bench::Options options = attnlab::bench::parse(argc, argv);
  attnlab::bench::prepare(options.threads);
  const auto launched = attnlab::launched_as();
  if (!launched) {
    std::cerr << "attnlab_bench_tree_sum: one of several processes; compare_processes.py starts "
                 "them\n";
    return 2;
  }
  attnlab::bench::Sum sum(options, *launched);
  for (std::string way; std::cin >> way && sum.knows(way);) {
    attnlab::bench::answer_one([&] { return sum.seconds(way); });
  }
}
