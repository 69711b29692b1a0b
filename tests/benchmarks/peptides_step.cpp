// Our side of the graph benchmark: training steps of GraphGPS on graphs of Peptides-func's sizes.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. The batch is
// that of peptides_step.py; model, task, clipping and optimiser are those of `attnlab run` with the
// published configuration.
#include <boost/program_options.hpp>

#include "tests/benchmarks/peptide_sizes.h"
#include "tests/benchmarks/timed.h"
#include "tests/benchmarks/training_step.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;
using attnlab::NamedTensors;

constexpr std::int64_t kAtoms = 174, kBonds = 13, kVectors = 10, kLabels = 10;

attnlab::DatasetInfo peptides() {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.fields = {{"atom@node", {-1, 9}, at::kLong, {}, kAtoms},
                 {"edges@edge>node", {-1, 2}, at::kLong},
                 {"bond@edge", {-1, 3}, at::kLong, {}, kBonds},
                 {"lap_vectors@node", {-1, kVectors}},
                 {"lap_values@node", {-1, kVectors}},
                 {"lap_valid@node", {-1, kVectors}, at::kBool},
                 {"labels", {kLabels}}};
  return info;
}

/// Pairs (source, target) of one graph, by target.
Tensor edges_of(std::int64_t size) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // target first, to sort by it
  const auto both = [&](std::int64_t a, std::int64_t b) {
    pairs.emplace_back(a, b);
    pairs.emplace_back(b, a);
  };
  for (std::int64_t node = 1; node < size; ++node) {
    both(node, node - 1 - (node * 7) % std::min<std::int64_t>(node, 3));
    if (node % 55 == 54) both(node, node - 5);
  }
  std::sort(pairs.begin(), pairs.end());
  Tensor edges = at::empty({static_cast<std::int64_t>(pairs.size()), 2}, at::kLong);
  auto* end = edges.data_ptr<std::int64_t>();
  for (const auto& [target, source] : pairs) {
    *end++ = source;
    *end++ = target;
  }
  return edges;
}

Tensor categories(std::int64_t rows, std::int64_t columns, std::int64_t each) {
  return at::randint(each, {rows, columns}, at::kLong) + at::arange(columns, at::kLong) * each;
}

attnlab::Batch batch_of_peptides() {
  std::vector<NamedTensors> graphs;
  for (int copy = 0; copy < attnlab::bench::kPeptideCopies; ++copy) {
    for (const std::int64_t size : attnlab::bench::kPeptideSizes) {
      const Tensor edges = edges_of(size);
      graphs.push_back({{"atom@node", categories(size, 9, 19)},
                        {"edges@edge>node", edges},
                        {"bond@edge", categories(edges.size(0), 3, 4)},
                        {"lap_vectors@node", at::randn({size, kVectors})},
                        {"lap_values@node", at::rand({size, kVectors})},
                        {"lap_valid@node", at::ones({size, kVectors}, at::kBool)},
                        {"labels", at::randint(2, {kLabels}, at::kFloat)}});
    }
  }
  return attnlab::collated(graphs, peptides().fields);
}

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard", more;
  std::int64_t threads = 0;
  po::options_description all("attnlab_bench_peptides_step");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "threads", po::value(&threads), "0: all cores")(
      "more", po::value(&more), "options of the model, e.g. ', global: false'");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  attnlab::OptimizerOptions adamw;
  adamw.lr = 3e-4;
  adamw.weight_decay = 0;
  attnlab::bench::TrainingStep step(
      batch_of_peptides(),
      attnlab::testing::make_model(
          "graph_gps", peptides(),
          "{dim: 96, depth: 4, heads: 4, encoding: laplacian, encoding_dim: 16" + more + "}",
          attention),
      attnlab::testing::make_task("graph_multilabel", peptides()), adamw, 1.0);
  attnlab::bench::answer([&] { return step.seconds(); });
}
