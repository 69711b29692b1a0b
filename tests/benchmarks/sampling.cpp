// Seconds of a token that a language model writes, with cached keys and without, by how much text
// stands before it: with them the time of a token grows with the text, without them that of all
// pairs does.
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>

#include "framework/eval/token_writer.h"
#include "framework/tensor/device.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

constexpr std::int64_t kWords = 65;

struct Options {
  std::string model = "transformer_lm", attention = "standard";
  std::int64_t threads = 0, longest = 4096, tokens = 32;
};

Options parse(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_sampling");
  all.add_options()("help", "this text")("model", po::value(&options.model),
                                         "transformer_lm or transformer_xl")(
      "attention", po::value(&options.attention))("threads", po::value(&options.threads),
                                                  "0: all cores")(
      "longest", po::value(&options.longest), "tokens of the longest text")(
      "tokens", po::value(&options.tokens), "timed at each length");
  attnlab::bench::read_options(argc, argv, all);
  return options;
}

std::shared_ptr<attnlab::Model> model_of(const Options& options) {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.fields = {{"tokens", {options.longest}, at::kLong},
                 {"targets", {options.longest}, at::kLong}};
  info.vocabulary = kWords;
  auto model = attnlab::testing::make_model(options.model, info, "{dim: 128, depth: 4, heads: 4}",
                                            options.attention);
  model->eval();
  return model;
}

using Clock = std::chrono::steady_clock;

/// The shortest of some calls, in milliseconds: what else runs here only adds.
template <class Work>
double shortest(std::int64_t calls, const Work& work) {
  double best = 1e30;
  for (std::int64_t i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return best;
}

/// @param before  tokens that stand before those that are timed
double cached(attnlab::Model& model, const Options& options, std::int64_t before) {
  attnlab::TokenWriter writer(model, at::kCPU, {}, attnlab::Random(0));
  writer.read(std::vector<std::int64_t>(static_cast<std::size_t>(before), 1));
  return shortest(options.tokens, [&] { writer.next(); });
}

double uncached(attnlab::Model& model, std::int64_t before) {
  const at::NoGradGuard no_gradients;
  attnlab::Batch batch;
  batch.size = 1;
  batch.fields.set("tokens", at::ones({1, before + 1}, at::kLong));
  return shortest(3, [&] {
    attnlab::ForwardPass pass;
    model.forward(batch, pass);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  attnlab::use_widest_vectors();
  attnlab::use_threads(options.threads);
  attnlab::keep_freed_memory();
  at::manual_seed(0);
  const auto model = model_of(options);
  std::printf("%10s %14s %14s\n", "text", "cached", "uncached");
  for (std::int64_t before = 128; before + options.tokens <= options.longest; before *= 2) {
    std::printf("%10lld %11.3f ms %11.3f ms\n", static_cast<long long>(before),
                cached(*model, options, before), uncached(*model, before));
    std::fflush(stdout);
  }
}
