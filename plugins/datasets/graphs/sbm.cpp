// PATTERN and CLUSTER: graphs drawn from stochastic block models, made by the published recipe.
//
//   PATTERN  5 communities of 5 to 34 nodes, joined within with probability 0.5, between with 0.35;
//            each node one of 3 colours. A pattern of 5 to 34 nodes (edges 0.5, colours of its own)
//            is added, each of its nodes joined to each other node with probability 0.5. Which
//            nodes are the pattern's? There are 100 patterns; graph i holds pattern i mod 100.
//   CLUSTER  6 communities of 5 to 34 nodes, 0.55 within, 0.25 between. One node of each has the
//            community's number + 1 as its colour, all others 0. Of which community is each node?
//
// Nodes are permuted; colours are one-hot. Published sizes: 10000, 2000, 2000 and 10000, 1000,
// 1000. The published graphs were drawn by other generators, so these are others of the same kind.
// Source: Dwivedi et al. 2020 (arXiv:2003.00982), data/SBMs of its code. Cost: some 25 KB a graph.
#include <fmt/format.h>

#include <array>

#include "framework/base/files.h"
#include "framework/data/graph/graph_dataset.h"
#include "framework/data/long_work.h"
#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SbmOptions : MadeUpOptions, EncodingOptions {
  std::string name;
  std::int64_t patterns = 100;

  constexpr SbmOptions() { validation = test = 200; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, required(one_of("pattern", "cluster")), "which of the two sets");
    v("patterns", patterns, at_least(1), "for PATTERN: number of patterns to find");
    MadeUpOptions::describe(v);
    EncodingOptions::describe(v);
  }
};

/// 5 to 34, as NumPy's randint(5, 35) draws it.
std::int64_t draw_size(Random& random) { return 5 + random.below(30); }

/// Nodes in the making, with an edge between i < j as often as `probability(i, j)` says.
struct Blocks {
  std::vector<std::int64_t> community, colour;
  std::vector<Edge> edges;

  std::int64_t size() const { return static_cast<std::int64_t>(community.size()); }

  /// Adds communities 0, 1, ... without edges and colours.
  void add_communities(std::int64_t count, Random& random) {
    for (std::int64_t c = 0; c < count; ++c) {
      community.insert(community.end(), static_cast<std::size_t>(draw_size(random)), c);
    }
  }
  void join(double within, double between, Random& random) {
    for (std::int64_t j = 0; j < size(); ++j) {
      for (std::int64_t i = 0; i < j; ++i) {
        const bool same = community[std::size_t(i)] == community[std::size_t(j)];
        if (random.uniform() < (same ? within : between)) edges.emplace_back(i, j);
      }
    }
  }
};

Blocks draw_pattern(Random random) {
  Blocks pattern;
  pattern.community.assign(static_cast<std::size_t>(draw_size(random)), 5);
  pattern.join(0.5, 0.5, random);
  for (std::int64_t i = 0; i < pattern.size(); ++i) pattern.colour.push_back(random.below(3));
  return pattern;
}

Blocks draw_with_pattern(const Blocks& pattern, Random& random) {
  Blocks graph;
  graph.add_communities(5, random);
  const std::int64_t base = graph.size();
  graph.join(0.5, 0.35, random);
  for (std::int64_t i = 0; i < base; ++i) graph.colour.push_back(random.below(3));
  graph.community.insert(graph.community.end(), pattern.community.begin(), pattern.community.end());
  graph.colour.insert(graph.colour.end(), pattern.colour.begin(), pattern.colour.end());
  for (const auto& [i, j] : pattern.edges) graph.edges.emplace_back(base + i, base + j);
  for (std::int64_t j = base; j < graph.size(); ++j) {
    for (std::int64_t i = 0; i < base; ++i) {
      if (random.uniform() < 0.5) graph.edges.emplace_back(i, j);
    }
  }
  return graph;
}

Blocks draw_clusters(Random& random) {
  Blocks graph;
  graph.add_communities(6, random);
  graph.join(0.55, 0.25, random);
  graph.colour.assign(graph.community.size(), 0);
  for (std::int64_t c = 0, begin = 0; c < 6; ++c) {
    std::int64_t end = begin;
    while (end < graph.size() && graph.community[std::size_t(end)] == c) ++end;
    graph.colour[static_cast<std::size_t>(begin + random.below(end - begin))] = c + 1;
    begin = end;
  }
  return graph;
}

/// The fields of an example, its nodes in random order.
NamedTensors fields_of(const Blocks& graph, std::int64_t colours, bool pattern, Random& random) {
  const std::vector<std::int64_t> order = permutation(graph.size(), Random(random()));
  const Tensor x = at::zeros({graph.size(), colours}),
               labels = at::empty({graph.size()}, at::kLong);
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    const auto from = static_cast<std::size_t>(i);
    const std::int64_t to = order[from];
    x.data_ptr<float>()[to * colours + graph.colour[from]] = 1;
    const std::int64_t community = graph.community[from];
    labels.data_ptr<std::int64_t>()[to] = pattern ? std::int64_t{community == 5} : community;
  }
  std::vector<Edge> edges = graph.edges;
  for (auto& [i, j] : edges) {
    i = order[static_cast<std::size_t>(i)];
    j = order[static_cast<std::size_t>(j)];
  }
  return {
      {"x@node", x}, {"edges@edge>node", edge_tensor(undirected(edges))}, {"class@node", labels}};
}

GraphSet make_set(const SbmOptions& options, const DatasetSetup& setup) {
  const RandomStreams streams =
      options.data_seed < 0 ? setup.streams : RandomStreams(std::uint64_t(options.data_seed));
  const bool pattern = options.name == "pattern";
  const std::int64_t colours = pattern ? 3 : 7;
  std::vector<Blocks> patterns;
  for (std::int64_t k = 0; pattern && k < options.patterns; ++k) {
    patterns.push_back(draw_pattern(streams.stream("synthetic", 3, std::uint64_t(k))));
  }
  GraphSet set;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // split, index
  const std::array<std::int64_t, 3> counts = {options.train, options.validation, options.test};
  for (std::size_t split = 0; split < counts.size(); ++split) {
    for (std::int64_t i = 0; i < counts[split]; ++i) {
      set.splits[split].push_back(static_cast<std::int64_t>(places.size()));
      places.emplace_back(split, i);
    }
  }
  std::vector<NamedTensors> graphs(places.size());
  in_parallel(
      fmt::format("{}: drawing {} graphs", options.name, graphs.size()),
      static_cast<std::int64_t>(graphs.size()), [&](std::int64_t place) {
        const auto [split, index] = places[static_cast<std::size_t>(place)];
        Random random = streams.stream("synthetic", split, index);
        const Blocks graph = pattern ? draw_with_pattern(patterns[index % patterns.size()], random)
                                     : draw_clusters(random);
        graphs[static_cast<std::size_t>(place)] = fields_of(graph, colours, pattern, random);
      });
  set.table = table_of(graphs);
  set.info.name = options.name;
  set.info.source = "stochastic block models, made by rule";
  set.info.classes = pattern ? 2 : 6;
  if (pattern) set.info.class_names = {"other", "pattern"};
  set.info.fingerprint =
      hex(fingerprint(fmt::format("sbm;{}", OptionText::of(options)), streams.key("synthetic")));
  set.info.fields = {{"x@node", {-1, colours}},
                     {"edges@edge>node", {-1, 2}, at::kLong},
                     {"class@node", {-1}, at::kLong, {}, set.info.classes}};
  return set;
}

class Sbm final : public GraphDataset {
 public:
  Sbm(const SbmOptions& options, const DatasetSetup& setup)
      : GraphDataset(make_set(options, setup), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Sbm, SbmOptions,
               {.id = "attnlab/sbm",
                .version = "1.0.0",
                .summary = "PATTERN and CLUSTER: graphs of stochastic block models, generated",
                .citation = "Dwivedi et al. 2020, Benchmarking Graph Neural Networks, "
                            "arXiv:2003.00982",
                .licence = "CC0-1.0",
                .gives = {"x@node", "edges@edge>node", "class@node", ATTNLAB_GRAPH_ENCODINGS}})

}  // namespace attnlab
