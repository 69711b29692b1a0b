// Graphs of stochastic block models: sizes, colours, and how often nodes are joined.
#include <map>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::sbm_test {
namespace {

using testing::make_dataset;

/// [n, n] bool
Tensor joined(const NamedTensors& graph) {
  const Tensor edges = graph.at("edges@edge>node");
  const std::int64_t n = graph.at("x@node").size(0);
  const Tensor matrix = at::zeros({n, n}, at::kBool);
  matrix.index_put_({edges.select(1, 0), edges.select(1, 1)}, at::ones({}, at::kBool));
  return matrix;
}

/// Counts pairs and edges between nodes of two masks, each pair of different nodes twice.
struct Share {
  double edges = 0, pairs = 0;

  void add(const Tensor& matrix, const Tensor& rows, const Tensor& columns) {
    const Tensor among = rows.unsqueeze(1)
                             .logical_and(columns.unsqueeze(0))
                             .logical_and(at::eye(rows.numel(), at::kBool).logical_not());
    pairs += among.sum().item<double>();
    edges += among.logical_and(matrix).sum().item<double>();
  }
  double value() const { return edges / pairs; }
};

void expect_sound(const NamedTensors& graph) {
  EXPECT_TRUE(graph.at("x@node").sum(1).eq(1).all().item<bool>()) << "colours are one-hot";
  const Tensor matrix = joined(graph);
  EXPECT_TRUE(matrix.equal(matrix.t()));
  EXPECT_FALSE(matrix.diagonal().any().item<bool>());
  EXPECT_EQ(matrix.sum().item<std::int64_t>(), graph.at("edges@edge>node").size(0));
}

TEST(Sbm, ClusterFollowsTheRecipe) {
  const auto dataset = make_dataset("sbm", "{name: cluster, train: 120, validation: 20, test: 30}");
  EXPECT_EQ(dataset->size(Split::train), 120);
  EXPECT_EQ(dataset->size(Split::validation), 20);
  EXPECT_EQ(dataset->size(Split::test), 30);
  EXPECT_EQ(dataset->info().classes, 6);
  Share within, between;
  double nodes = 0;
  bool permuted = false;
  for (std::int64_t i = 0; i < 120; ++i) {
    const NamedTensors graph = dataset->example(Split::train, i, nullptr);
    expect_sound(graph);
    const Tensor labels = graph.at("class@node"), x = graph.at("x@node"), matrix = joined(graph);
    ASSERT_EQ(x.size(1), 7);
    nodes += double(labels.numel());
    permuted |= labels.slice(0, 1).lt(labels.slice(0, 0, -1)).any().item<bool>();
    for (std::int64_t c = 0; c < 6; ++c) {
      const Tensor own = labels.eq(c);
      const auto size = own.sum().item<std::int64_t>();
      EXPECT_GE(size, 5);
      EXPECT_LE(size, 34);
      within.add(matrix, own, own);
      between.add(matrix, own, own.logical_not());
      // One node of each community shows its colour.
      EXPECT_EQ(x.select(1, c + 1).sum().item<std::int64_t>(), 1);
      EXPECT_TRUE(x.select(1, c + 1).nonzero().view({-1}).equal(
          x.select(1, c + 1).mul(own).nonzero().view({-1})));
    }
  }
  EXPECT_TRUE(permuted);
  EXPECT_NEAR(nodes / 120, 6 * 19.5, 6);
  EXPECT_NEAR(within.value(), 0.55, 0.01);
  EXPECT_NEAR(between.value(), 0.25, 0.005);
}

TEST(Sbm, PatternFollowsTheRecipe) {
  const auto dataset =
      make_dataset("sbm", "{name: pattern, train: 200, validation: 0, test: 10, patterns: 4}");
  Share inside, outside, across;
  std::map<std::int64_t, std::int64_t> sizes;  // of the pattern, by its number
  Tensor colours = at::zeros({3});
  for (std::int64_t i = 0; i < 200; ++i) {
    const NamedTensors graph = dataset->example(Split::train, i, nullptr);
    expect_sound(graph);
    const Tensor own = graph.at("class@node").eq(1), matrix = joined(graph);
    ASSERT_EQ(graph.at("x@node").size(1), 3);
    colours += graph.at("x@node").sum(0);
    inside.add(matrix, own, own);
    outside.add(matrix, own.logical_not(), own.logical_not());
    across.add(matrix, own, own.logical_not());
    const auto size = own.sum().item<std::int64_t>();
    EXPECT_EQ(sizes.emplace(i % 4, size).first->second, size)
        << "graph " << i << " has another pattern";
  }
  EXPECT_EQ(dataset->info().classes, 2);
  EXPECT_NEAR(across.value(), 0.5, 0.01);
  EXPECT_NEAR(inside.value(), 0.5, 0.15);  // four patterns in all
  // 5 communities: some 23 % of pairs lie within one, joined with 0.5, the others with 0.35.
  EXPECT_NEAR(outside.value(), 0.385, 0.01);
  EXPECT_GT((colours / colours.sum()).min().item<double>(), 0.3);
  // A pattern is the same wherever it is: as many edges inside it.
  const auto edges_of = [&](std::int64_t i) {
    const NamedTensors graph = dataset->example(Split::train, i, nullptr);
    const Tensor own = graph.at("class@node").eq(1);
    Share share;
    share.add(joined(graph), own, own);
    return share.edges;
  };
  EXPECT_EQ(edges_of(0), edges_of(4));
  EXPECT_EQ(edges_of(1), edges_of(197));
}

TEST(Sbm, DependsOnTheSeedAndOnNothingElse) {
  const auto first = [](const std::string& more, std::uint64_t seed) {
    return make_dataset("sbm", "{name: cluster, train: 3" + more + "}", seed)
        ->example(Split::train, 1, nullptr)
        .at("edges@edge>node");
  };
  EXPECT_FALSE(first("", 0).equal(first("", 1)));
  EXPECT_TRUE(first("", 0).equal(first(", test: 7, validation: 2", 0)));
  EXPECT_TRUE(first(", data_seed: 5", 0).equal(first(", data_seed: 5", 1)));
}

}  // namespace
}  // namespace attnlab::sbm_test
