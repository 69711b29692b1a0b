// What attention over sets of uneven size costs, against as many pairs without any raggedness.
//
//   attnlab_bench_ragged_attention [--attention standard] [--rounds 15] [--threads 0]
//                                  [--dropout 0 0.5] [--check]
//
// A batch of 128 graphs of Peptides-func's sizes, end to end, forward and backward, in turn with a
// dense batch of 128 equal sets of as many pairs in all; and with the same graphs padded to the
// largest. Prints a line of JSON for each dropout of the weights: medians in milliseconds and
// ratios of medians to the dense batch, times counted by pair. --check fails where a ratio of
// ragged_over_dense lies above 1.2.
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>

#include "tests/benchmarks/peptide_sizes.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;
using attnlab::AttentionInput;

constexpr std::int64_t kHeads = 4, kDim = 24;
constexpr double kLimit = 1.2;

/// [batch, heads, length, dim], by token in memory, as projections give it.
Tensor drawn(std::int64_t batch, std::int64_t length) {
  return at::randn({batch, length, kHeads, kDim}).transpose(1, 2).requires_grad_();
}

AttentionInput input_of(std::int64_t batch, std::int64_t length) {
  AttentionInput input;
  input.queries = drawn(batch, length);
  input.keys = drawn(batch, length);
  input.values = drawn(batch, length);
  return input;
}

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> all;
  for (int copy = 0; copy < attnlab::bench::kPeptideCopies; ++copy) {
    for (const std::int64_t size : attnlab::bench::kPeptideSizes) all.push_back(size);
  }
  return all;
}

AttentionInput ragged() {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t size : sizes()) offsets.push_back(offsets.back() + size);
  AttentionInput input = input_of(1, offsets.back());
  input.visible.query_offsets = input.visible.key_offsets = at::tensor(offsets, at::kLong);
  return input;
}

AttentionInput padded() {
  const std::vector<std::int64_t> all = sizes();
  const std::int64_t longest = *std::max_element(all.begin(), all.end());
  AttentionInput input = input_of(std::int64_t(all.size()), longest);
  input.visible.key_valid = input.visible.query_valid =
      at::arange(longest, at::kLong) < at::tensor(all, at::kLong).unsqueeze(1);
  return input;
}

double pairs_of(const std::vector<std::int64_t>& all) {
  double pairs = 0;
  for (const std::int64_t size : all) pairs += double(size) * double(size);
  return pairs;
}

double seconds(attnlab::Attention& attention, const AttentionInput& input) {
  const auto begin = std::chrono::steady_clock::now();
  attnlab::AttentionContext context;
  const Tensor output = attention.forward(input, context);
  output.backward(at::ones_like(output));
  for (const Tensor& one : {input.queries, input.keys, input.values}) one.mutable_grad() = Tensor();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// One line of results.
nlohmann::json measured(const std::string& name, double dropout, int rounds) {
  const auto attention = attnlab::testing::make_attention(
      name, {.heads = kHeads, .head_dim = kDim, .dropout = dropout});
  const double pairs = pairs_of(sizes());
  const auto count = std::int64_t(sizes().size());
  const auto equal = std::llround(std::sqrt(pairs / double(count)));
  const AttentionInput inputs[] = {ragged(), input_of(count, equal), padded()};
  std::vector<double> times[3];
  for (int round = -2; round < rounds; ++round) {
    for (int k = 0; k < 3; ++k) {
      const double time = seconds(*attention, inputs[k]);
      if (round >= 0) times[k].push_back(time);
    }
  }
  const double dense = median(times[1]) * pairs / (double(count) * double(equal) * double(equal));
  return {{"attention", name},
          {"dropout", dropout},
          {"ragged_ms", 1e3 * median(times[0])},
          {"dense_ms", 1e3 * dense},
          {"padded_ms", 1e3 * median(times[2])},
          {"ragged_over_dense", median(times[0]) / dense},
          {"padded_over_dense", median(times[2]) / dense}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "standard";
  int rounds = 15;
  std::int64_t threads = 0;
  std::vector<double> dropouts = {0, 0.5};
  bool check = false;
  po::options_description all("attnlab_bench_ragged_attention");
  all.add_options()("help", "this text")("attention", po::value(&name))(
      "rounds", po::value(&rounds))("threads", po::value(&threads), "0: all cores")(
      "dropout", po::value(&dropouts)->multitoken(), "of the weights; 0 and 0.5 if not given")(
      "check", po::bool_switch(&check),
      "exit status 1 where ragged sets cost over 1.2 times as much");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  int status = 0;
  for (const double dropout : dropouts) {
    const nlohmann::json line = measured(name, dropout, rounds);
    std::cout << line.dump() << std::endl;
    if (check && line.at("ragged_over_dense").get<double>() > kLimit) status = 1;
  }
  return status;
}
