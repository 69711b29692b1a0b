// Positional encodings against what defines them: powers of the walk matrix, the whole
// decomposition.
#include "framework/data/graph/encodings.h"

#include <cmath>
#include <numbers>

#include "framework/base/files.h"
#include "framework/base/random.h"
#include "framework/data/cache.h"
#include "framework/data/formats/safetensors.h"
#include "framework/data/graph/graph_dataset.h"
#include "tests/support/cache_folder.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::encodings_test {
namespace {

Neighbours graph_of(std::int64_t nodes, const std::vector<Edge>& edges) {
  return neighbours_of(
      table_of({{{"x@node", at::zeros({nodes, 1})}, {"edges@edge>node", edge_tensor(edges)}}}), 0);
}

std::vector<Edge> path(std::int64_t nodes) {
  std::vector<Edge> edges;
  for (std::int64_t i = 0; i + 1 < nodes; ++i) edges.emplace_back(i, i + 1);
  return edges;
}

std::vector<Edge> cycle(std::int64_t nodes) {
  std::vector<Edge> edges = path(nodes);
  edges.emplace_back(nodes - 1, 0);
  return edges;
}

/// A random graph; with few edges it has several components.
std::vector<Edge> random_edges(std::int64_t nodes, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Edge> edges;
  for (std::int64_t k = 0; k < count; ++k)
    edges.emplace_back(random.below(nodes), random.below(nodes));
  return edges;
}

/// A, [n, n] double.
Tensor adjacency(const Neighbours& graph) {
  const Tensor a = at::zeros({graph.size(), graph.size()}, at::kDouble);
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    for (std::int32_t e = graph.begins[std::size_t(i)]; e < graph.begins[std::size_t(i) + 1]; ++e) {
      a[i][graph.nodes[std::size_t(e)]] = 1;
    }
  }
  return a;
}

Tensor laplacian(const Neighbours& graph) {
  const Tensor a = adjacency(graph);
  return at::diag(a.sum(1)) - a;
}

Tensor values_of(const Eigenpairs& pairs) { return at::tensor(pairs.values, at::kDouble); }

/// [n, k]
Tensor vectors_of(const Eigenpairs& pairs) {
  std::vector<Tensor> columns;
  for (const std::vector<double>& vector : pairs.vectors)
    columns.push_back(at::tensor(vector, at::kDouble));
  return at::stack(columns, 1);
}

double largest(const Tensor& difference) { return difference.abs().max().item<double>(); }

TEST(RandomWalks, AreTheDiagonalsOfPowersOfTheWalkMatrix) {
  for (const auto& [nodes, count] : {std::pair{7, 9}, std::pair{40, 25}, std::pair{60, 300}}) {
    const Neighbours graph = graph_of(nodes, random_edges(nodes, count, 3));
    const Tensor a = adjacency(graph);
    const Tensor walk = a / a.sum(1, /*keepdim=*/true).clamp_min(1);
    for (const std::int64_t k : {1, 2, 5, 20}) {
      const Tensor found = at::empty({nodes, k});
      walk_returns(graph, k, found.data_ptr<float>());
      Tensor power = at::eye(nodes, at::kDouble);
      for (std::int64_t t = 0; t < k; ++t) {
        power = power.matmul(walk);
        EXPECT_LT(largest(found.select(1, t).to(at::kDouble) - power.diagonal()), 1e-7)
            << nodes << " nodes, step " << t + 1 << " of " << k;
      }
    }
  }
}

TEST(RandomWalks, OfANodeWithoutEdgesAreZero) {
  const Tensor found = at::full({3, 4}, 7.0);
  walk_returns(graph_of(3, {{0, 1}}), 4, found.data_ptr<float>());
  EXPECT_TRUE(found.equal(
      at::tensor({0.f, 1.f, 0.f, 1.f, 0.f, 1.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({3, 4})));
}

class LaplacianPairs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_eigenpairs()) GTEST_SKIP() << "built without Eigen and Spectra";
  }

  /// Values as of the whole decomposition, vectors of length 1 that are eigenvectors and at right
  /// angles, and every eigenspace that lies within the first k whole.
  static void expect_smallest(const Neighbours& graph, std::int64_t k, const std::string& what) {
    const Eigenpairs pairs = smallest_eigenpairs(graph, k);
    const Tensor matrix = laplacian(graph);
    const auto [all_values, all_vectors] = at::linalg_eigh(matrix);
    const std::int64_t kept = std::min(k, graph.size());
    ASSERT_EQ(std::int64_t(pairs.values.size()), kept) << what;
    const Tensor values = values_of(pairs), vectors = vectors_of(pairs);
    EXPECT_LT(largest(values - all_values.narrow(0, 0, kept)), 1e-8) << what;
    EXPECT_LT(largest(matrix.matmul(vectors) - vectors * values), 1e-7) << what;
    EXPECT_LT(largest(vectors.t().matmul(vectors) - at::eye(kept, at::kDouble)), 1e-8) << what;
    for (std::int64_t begin = 0, end = 0; begin < kept; begin = end) {
      const auto value = [&](std::int64_t i) { return all_values[i].item<double>(); };
      for (end = begin + 1; end < graph.size() && value(end) - value(begin) < 1e-7;) ++end;
      if (end > kept) break;  // cut through: any vectors of the space may stand
      const Tensor own = vectors.narrow(1, begin, end - begin);
      const Tensor expected = all_vectors.narrow(1, begin, end - begin);
      EXPECT_LT(largest(own.matmul(own.t()) - expected.matmul(expected.t())), 1e-6)
          << what << ", pairs " << begin << " to " << end - 1;
    }
  }
};

TEST_F(LaplacianPairs, AreThoseOfTheWholeDecomposition) {
  for (const std::int64_t nodes : {1, 2, 5, 30, 60, 200}) {
    for (const double degree : {1.0, 2.2, 6.0}) {
      const auto count = std::int64_t(degree * double(nodes) / 2);
      for (const std::int64_t k : {1, 4, 10, 16}) {
        expect_smallest(graph_of(nodes, random_edges(nodes, count, std::uint64_t(nodes))), k,
                        std::to_string(nodes) + " nodes of degree " + std::to_string(degree) +
                            ", k = " + std::to_string(k));
      }
    }
  }
}

TEST_F(LaplacianPairs, OfRepeatedEigenvaluesSpanTheWholeSpace) {
  expect_smallest(graph_of(101, cycle(101)), 11, "a cycle: every value but 0 twice");
  expect_smallest(graph_of(100, cycle(100)), 10, "a cycle, its last pair cut");
  std::vector<Edge> star, grid;
  for (std::int64_t i = 1; i < 80; ++i) star.emplace_back(0, i);
  expect_smallest(graph_of(80, star), 10, "a star: 1 is 78 times a value");
  for (std::int64_t i = 0; i < 12; ++i) {
    for (std::int64_t j = 0; j < 12; ++j) {
      if (i < 11) grid.emplace_back(12 * i + j, 12 * i + j + 12);
      if (j < 11) grid.emplace_back(12 * i + j, 12 * i + j + 1);
    }
  }
  expect_smallest(graph_of(144, grid), 10, "a square grid: many values twice");
  std::vector<Edge> twins = path(70);
  for (const auto& [i, j] : path(70)) twins.emplace_back(70 + i, 70 + j);
  expect_smallest(graph_of(140, twins), 8, "two equal components: every value twice");
  expect_smallest(graph_of(90, {}), 6, "no edges: all values 0");
}

// Spectra's SymEigsSolver says "Successful" of complete graphs and has eigenvalues of 1e17. These
// are 125 graphs.
TEST_F(LaplacianPairs, OfCompleteGraphsAndTheirRelativesAreRight) {
  for (const std::int64_t nodes : {2, 3, 5, 8, 20, 30, 46, 47, 48, 49, 50, 64, 90, 110}) {
    const std::string size = std::to_string(nodes) + " nodes";
    std::vector<Edge> complete, halves, uneven, star, two;
    for (std::int64_t i = 0; i < nodes; ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        complete.emplace_back(j, i);
        if ((i < nodes / 2) != (j < nodes / 2)) halves.emplace_back(j, i);
        if (j < 2 && i >= 2) uneven.emplace_back(j, i);
        if ((i < nodes / 3) == (j < nodes / 3)) two.emplace_back(j, i);
      }
      if (i > 0) star.emplace_back(0, i);
    }
    expect_smallest(graph_of(nodes, complete), 6, "complete, " + size);
    expect_smallest(graph_of(nodes, halves), 6, "bipartite in halves, " + size);
    expect_smallest(graph_of(nodes, uneven), 6, "two nodes joined with all others, " + size);
    expect_smallest(graph_of(nodes, two), 6, "two complete ones, " + size);
    expect_smallest(graph_of(nodes, star), 6, "star, " + size);
    expect_smallest(graph_of(nodes, path(nodes)), 6, "path, " + size);
    if (nodes > 2) expect_smallest(graph_of(nodes, cycle(nodes)), 6, "cycle, " + size);
    for (const double share : {0.1, 0.5}) {
      const auto count = std::int64_t(share * double(nodes * nodes) / 2);
      expect_smallest(graph_of(nodes, random_edges(nodes, count, 7)), 6,
                      "random with " + std::to_string(count) + " edges, " + size);
    }
  }
}

TEST_F(LaplacianPairs, OfALongPathAreTheKnownCosines) {
  const std::int64_t n = 3000;
  const Eigenpairs pairs = smallest_eigenpairs(graph_of(n, path(n)), 10);
  for (std::int64_t p = 0; p < 10; ++p) {
    const double angle = std::numbers::pi * double(p) / double(n);
    EXPECT_NEAR(pairs.values[std::size_t(p)], 2 - 2 * std::cos(angle), 1e-10) << p;
    const Tensor expected = ((at::arange(n, at::kDouble) + 0.5) * angle).cos();
    const Tensor found = at::tensor(pairs.vectors[std::size_t(p)], at::kDouble);
    const double cosine = found.dot(expected / expected.norm()).item<double>();
    EXPECT_NEAR(std::abs(cosine), 1, 1e-8) << p;
  }
}

TEST_F(LaplacianPairs, KeepTheTrivialPairAndPointUp) {
  const Eigenpairs pairs = smallest_eigenpairs(graph_of(120, random_edges(120, 150, 8)), 12);
  EXPECT_EQ(pairs.values.front(), 0);
  for (const std::vector<double>& vector : pairs.vectors) {
    const auto [least, most] = std::minmax_element(vector.begin(), vector.end());
    EXPECT_GE(*most, -*least * (1 - 1e-6));
  }
}

TEST_F(LaplacianPairs, StandBesideTheirGraphsInATable) {
  std::vector<NamedTensors> graphs;
  for (const std::int64_t nodes : {2, 60, 5}) {
    graphs.push_back({{"x@node", at::zeros({nodes, 1})},
                      {"edges@edge>node", edge_tensor(undirected(cycle(nodes)))}});
  }
  GraphTable table = table_of(graphs);
  EncodingOptions options;
  options.rwse = 3;
  options.laplacian = 4;
  add_encodings(table, options, "test");
  EXPECT_EQ(table.fields.at("rwse@node").sizes(), (at::IntArrayRef{67, 3}));
  EXPECT_EQ(table.fields.at("lap_values").sizes(), (at::IntArrayRef{3, 4}));
  const Tensor small = table.graph(0).at("lap_vectors@node");
  EXPECT_TRUE(small.narrow(1, 2, 2).eq(0).all().item<bool>());
  EXPECT_TRUE(at::allclose(table.graph(0).at("lap_values"), at::tensor({0.f, 2.f, 0.f, 0.f})));
  EXPECT_TRUE(
      at::allclose(table.graph(2).at("rwse@node"), at::tensor({0.f, 0.5f, 0.f}).expand({5, 3})));
}

TEST_F(LaplacianPairs, OfASmallGraphAreMarkedInEveryRowOfItsExample) {
  GraphSet set;
  set.info.name = "paths";
  std::vector<NamedTensors> graphs;
  for (const std::int64_t nodes : {2, 6}) {
    set.splits[0].push_back(std::int64_t(graphs.size()));
    graphs.push_back({{"x@node", at::zeros({nodes, 1})},
                      {"edges@edge>node", edge_tensor(undirected(path(nodes)))}});
  }
  set.table = table_of(graphs);
  EncodingOptions options;
  options.laplacian = 4;
  const GraphDataset dataset(std::move(set), options);
  // Two nodes have two eigenpairs: 0 and 2. The other columns are there, and are none.
  const NamedTensors two = dataset.example(Split::train, 0, nullptr);
  EXPECT_TRUE(
      two.at("lap_values@node").allclose(at::tensor({0.f, 2.f, 0.f, 0.f}).expand({2, 4}), 0, 1e-6));
  EXPECT_TRUE(two.at("lap_valid@node")
                  .equal(at::tensor({1, 1, 0, 0}, at::kLong).to(at::kBool).expand({2, 4})));
  const NamedTensors six = dataset.example(Split::train, 1, nullptr);
  std::vector<float> values;
  for (int p = 0; p < 4; ++p) values.push_back(2 - 2 * std::cos(float(std::numbers::pi) * p / 6));
  EXPECT_TRUE(six.at("lap_values@node").allclose(at::tensor(values).expand({6, 4}), 0, 1e-6));
  EXPECT_TRUE(six.at("lap_valid@node").equal(at::ones({6, 4}, at::kBool)));
  for (const NamedTensors& graph : {two, six}) EXPECT_EQ(graph.find("lap_values"), nullptr);
}

/// Two graphs, and their encodings where they are asked for.
GraphTable some_graphs() {
  std::vector<NamedTensors> graphs;
  for (const std::int64_t nodes : {7, 30}) {
    graphs.push_back({{"x@node", at::zeros({nodes, 1})},
                      {"edges@edge>node", edge_tensor(undirected(cycle(nodes)))}});
  }
  return table_of(graphs);
}

EncodingOptions some_encodings() {
  EncodingOptions options;
  options.rwse = 3;
  options.laplacian = has_eigenpairs() ? 4 : 0;
  return options;
}

std::vector<std::string> encoded_fields() {
  if (!has_eigenpairs()) return {"rwse@node"};
  return {"rwse@node", "lap_vectors@node", "lap_values"};
}

TEST(CachedEncodings, AreMadeOnceWhateverTheNameOfTheSet) {
  const testing::CacheFolder cache;
  GraphTable first = some_graphs(), again = some_graphs(), renamed = some_graphs();
  add_encodings(first, some_encodings(), "set", /*worth=*/0);
  ASSERT_EQ(cache.files().size(), has_eigenpairs() ? 2u : 1u);
  add_encodings(again, some_encodings(), "set", 0);
  add_encodings(renamed, some_encodings(), "the same graphs elsewhere", 0);
  for (const std::string& field : encoded_fields()) {
    EXPECT_TRUE(again.fields.at(field).equal(first.fields.at(field))) << field;
    EXPECT_TRUE(renamed.fields.at(field).equal(first.fields.at(field))) << field;
  }
  // What the files hold is taken: nothing is made where numbers come back that nobody computed.
  for (const std::string& path : cache.files()) {
    TensorFile file = read_safetensors(path);
    for (auto& [name, tensor] : file.tensors) tensor.fill_(42);
    file.metadata["content"] = hex(content_of(file.tensors));
    write_safetensors(path, file);
  }
  GraphTable taken = some_graphs();
  add_encodings(taken, some_encodings(), "set", 0);
  for (const std::string& field : encoded_fields()) {
    EXPECT_TRUE(taken.fields.at(field).eq(42).all().item<bool>()) << field;
  }
}

TEST(CachedEncodings, OfOtherGraphsOrNumbersAreOthers) {
  const testing::CacheFolder cache;
  EncodingOptions options;
  options.rwse = 3;
  GraphTable table = some_graphs();
  add_encodings(table, options, "set", /*worth=*/0);
  options.rwse = 4;
  add_encodings(table, options, "set", 0);
  EXPECT_EQ(table.fields.at("rwse@node").size(1), 4);
  EXPECT_EQ(cache.files().size(), 2u);
  GraphTable other = table_of(
      {{{"x@node", at::zeros({7, 1})}, {"edges@edge>node", edge_tensor(undirected(path(7)))}}});
  add_encodings(other, options, "set", 0);
  EXPECT_EQ(cache.files().size(), 3u);
}

TEST(CachedEncodings, AreNotKeptWhereTheyAreMadeAtOnce) {
  const testing::CacheFolder cache;
  GraphTable table = some_graphs();
  add_encodings(table, some_encodings(), "set");
  EXPECT_TRUE(cache.files().empty());
}

}  // namespace
}  // namespace attnlab::encodings_test
