// Citation graphs: Cora, CiteSeer and PubMed in Planetoid's files, with the public split.
//
//   ind.NAME.allx, tx   sparse matrices: the words of each paper; allx all but the test papers
//   ind.NAME.ally, ty   classes, one-hot; ind.NAME.y as many rows as there are training papers
//   ind.NAME.graph      a map from each paper to those that it is linked with
//   ind.NAME.test.index the place of each row of tx
//
// One graph; its three splits differ in the labels: `class@node` is -1 for nodes of other splits.
// The first papers of allx train (20 per class), the 500 behind them validate, those of tx test.
// CiteSeer has papers without words and links between its test papers; they are nodes without
// labels. Links count in both directions, once, without loops. With `links`, a share of the links
// is held out, for validation and for testing: each split has `pairs@pair>node` with `link@pair`:
// links, and as many pairs drawn at random that are none. The graph keeps the others, which are the
// pairs to train on. `links@link>node` has all links, for metrics that leave out what is known.
// Source: Yang et al. 2016 (arXiv:1603.08861). Cost: 4 bytes per word and paper.
#include <array>
#include <set>

#include "framework/base/files.h"
#include "framework/base/share.h"
#include "framework/data/graph/graph_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/graphs/planetoid/citations.h"

namespace attnlab {
namespace {

struct PlanetoidOptions : EncodingOptions {
  std::string name;
  std::string root;
  bool normalise = true;
  double links = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, required(),
      "the set, as its files are called: cora of ind.cora.x; published are cora, citeseer, pubmed");
    v("root", root, "folder with the files, or the one above it; empty: $ATTNLAB_DATA/graphs");
    v("normalise", normalise, "each paper's words divided by their sum, as is usual");
    v("links", links, range(0, 0.45),
      "share of the links held out for validation, and as many for testing; 0: predict labels, not "
      "links");
    EncodingOptions::describe(v);
  }
};

/// The graph, and the fields that each split has of its own.
struct LoadedGraph {
  GraphSet set;
  std::array<NamedTensors, 3> own;
};

/// Labels of the nodes of each split, -1 elsewhere.
void add_classes(const Citations& graph, LoadedGraph& opened) {
  std::array<Tensor, 3> rows = {at::arange(graph.training),
                                at::arange(graph.training, graph.training + 500),
                                at::tensor(graph.test, at::kLong)};
  for (std::size_t split = 0; split < rows.size(); ++split) {
    const Tensor labels = at::full_like(graph.classes, -1);
    labels.index_copy_(0, rows[split], graph.classes.index_select(0, rows[split]));
    opened.own[split].set("class@node", labels);
  }
  opened.set.info.classes = graph.class_count;
  opened.set.info.fields.push_back({"class@node", {-1}, at::kLong, {}, graph.class_count});
}

/// Links and as many pairs of nodes that are none, for each split.
/// @returns the links that the graph keeps, in both directions
std::vector<Edge> add_links(const Citations& graph, double share, Random random,
                            LoadedGraph& opened) {
  std::vector<Edge> links;  // each once
  for (const Edge& edge : graph.edges) {
    if (edge.first < edge.second) links.push_back(edge);
  }
  const std::set<Edge> known(links.begin(), links.end());
  const auto count = static_cast<std::int64_t>(links.size());
  const auto held = static_cast<std::int64_t>(share * double(count));
  if (held == 0) refuse_share("links", share, count, 1.0 / double(count));
  const std::int64_t nodes = graph.words.size(0);
  if (4 * count > nodes * (nodes - 1) / 2) {
    throw OptionError("links", "is for sparse graphs; here too many pairs are links");
  }
  const Tensor all = edge_tensor(links);
  const std::vector<std::int64_t> order = permutation(count, Random(random()));
  std::vector<Edge> kept;
  const std::array<std::int64_t, 3> begins = {2 * held, held, 0};
  for (std::size_t split = 0; split < 3; ++split) {
    const std::int64_t end = split == 0 ? count : begins[split] + held;
    std::vector<Edge> pairs;
    for (std::int64_t k = begins[split]; k < end; ++k) {
      pairs.push_back(links[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])]);
    }
    if (split == 0) kept = pairs;
    const std::size_t real = pairs.size();
    while (pairs.size() < 2 * real) {
      const std::int64_t i = random.below(nodes), j = random.below(nodes);
      if (i < j && known.count({i, j}) == 0) pairs.emplace_back(i, j);
    }
    const Tensor is_link = at::zeros({std::int64_t(pairs.size())}, at::kLong);
    is_link.narrow(0, 0, std::int64_t(real)).fill_(1);
    opened.own[split].set("pairs@pair>node", edge_tensor(pairs));
    opened.own[split].set("link@pair", is_link);
    opened.own[split].set("links@link>node", all);
  }
  opened.set.info.fields.push_back({"pairs@pair>node", {-1, 2}, at::kLong});
  opened.set.info.fields.push_back({"link@pair", {-1}, at::kLong, {"none", "link"}, 2});
  opened.set.info.fields.push_back({"links@link>node", {-1, 2}, at::kLong});
  return undirected(kept);
}

LoadedGraph open_graph(const PlanetoidOptions& options, const DatasetSetup& setup) {
  const Citations graph = read_citations(options.name, options.root, options.normalise);
  LoadedGraph opened;
  GraphSet& set = opened.set;
  set.info.name = options.name;
  set.info.source = graph.folder;
  set.info.fields = {{"x@node", {-1, graph.words.size(1)}},
                     {"edges@edge>node", {-1, 2}, at::kLong}};
  std::vector<Edge> edges = graph.edges;
  if (options.links > 0) {
    edges = add_links(graph, options.links, setup.streams.stream("split"), opened);
  } else {
    add_classes(graph, opened);
  }
  set.table = table_of({{{"x@node", graph.words}, {"edges@edge>node", edge_tensor(edges)}}});
  set.splits = {{{0}, {0}, {0}}};
  set.info.fingerprint = hex(graph.hash);
  return opened;
}

class Planetoid final : public GraphDataset {
 public:
  Planetoid(const PlanetoidOptions& options, const DatasetSetup& setup)
      : Planetoid(options, open_graph(options, setup)) {}

  NamedTensors make_example(Split split, std::int64_t index, Random* random) const override {
    NamedTensors fields = GraphDataset::make_example(split, index, random);
    for (const auto& [name, tensor] : own_.at(static_cast<std::size_t>(split))) {
      fields.set(name, tensor.clone());
    }
    return fields;
  }

 private:
  Planetoid(const PlanetoidOptions& options, LoadedGraph opened)
      : GraphDataset(std::move(opened.set), options), own_(std::move(opened.own)) {}

  std::array<NamedTensors, 3> own_;
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, Planetoid, PlanetoidOptions,
    {.id = "attnlab/planetoid",
     .version = "1.0.0",
     .summary = "citation graphs (Cora, CiteSeer, PubMed) with the public split, or links",
     .citation = "Yang et al. 2016, Revisiting Semi-Supervised Learning with Graph "
                 "Embeddings, arXiv:1603.08861",
     .licence = "none stated; research use",
     .gives = {"x@node", "edges@edge>node", "class@node?", "pairs@pair>node?", "link@pair?",
               "links@link>node?", ATTNLAB_GRAPH_ENCODINGS}})

}  // namespace attnlab
