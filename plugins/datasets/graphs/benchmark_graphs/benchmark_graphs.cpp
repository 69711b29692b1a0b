// Benchmarks whose graphs are published as such, where a user has their files:
//
//   zinc                              train.pickle, val.pickle, test.pickle; with `subset` the
//                                     12000 of the .index files
//   pascalvoc-sp, coco-sp             LRGB's train.pickle, val.pickle, test.pickle
//   pcqm-contact                      LRGB's train.pt, val.pt, test.pt: 529,434 molecules, with
//   pairs
//                                     of atoms that touch in space or not
//   pattern, cluster, mnist, cifar10  PyG's NAME_v2.pt, which holds all three splits
//
// (LRGB's peptides come as SMILES: `molecules`. Without the files, `sbm` and `superpixels` make
// graphs of the same kind.) Source: Dwivedi et al. 2020 (arXiv:2003.00982) and 2022
// (arXiv:2206.08164). Cost: the graphs are held in memory.
#include <fmt/format.h>

#include <numeric>

#include "framework/base/files.h"
#include "framework/data/cache.h"
#include "framework/data/formats/files.h"
#include "framework/data/graph/graph_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/graphs/benchmark_graphs/readers.h"

namespace attnlab {
namespace {

struct BenchmarkOptions : EncodingOptions {
  std::string name;
  std::string root;
  bool subset = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name,
      required(one_of("zinc", "pascalvoc-sp", "coco-sp", "pcqm-contact", "pattern", "cluster",
                      "mnist", "cifar10")),
      "the benchmark");
    v("root", root, "folder with the files, or the one above it; empty: $ATTNLAB_DATA/graphs/NAME");
    v("subset", subset, "of zinc: the 12000 molecules that the .index files name, not all 250000");
    EncodingOptions::describe(v);
  }
};

/// What is known of a benchmark.
struct Known {
  std::string file;  ///< of all splits; empty: one each, train, val and test
  std::string source;
  std::int64_t classes = 0;
  std::int64_t nodes = 0, edges = 0;  ///< categories
  const char* ending = "pickle";      ///< of a file each
};

template <class Sizes>
std::int64_t sum_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

Known known_of(const std::string& name) {
  const std::string lrgb = "https://github.com/vijaydwivedi75/lrgb";
  const std::string gnn = "https://github.com/graphdeeplearning/benchmarking-gnns";
  const auto pyg = [](const std::string& stem, std::int64_t classes) {
    const std::string folder = "https://data.pyg.org/datasets/benchmarking-gnns";
    return Known{stem + ".pt", fmt::format("{}/{}.zip", folder, stem), classes};
  };
  if (name == "zinc") return {"", gnn, 0, 28, 4};
  if (name == "pascalvoc-sp") return {"", lrgb, 21};
  if (name == "coco-sp") return {"", lrgb, 81};
  if (name == "pcqm-contact") {
    return {"", lrgb, 0, sum_of(kAtomValues), sum_of(kBondValues), "pt"};
  }
  if (name == "mnist") return pyg("MNIST_v2", 10);
  if (name == "cifar10") return pyg("CIFAR10_v2", 10);
  if (name == "pattern") return pyg("PATTERN_v2", 2);
  return pyg("CLUSTER_v2", 6);
}

constexpr const char* kParts[] = {"train", "val", "test"};

/// Values of int64 fields must be known ones: models have a row for each.
void check_range(const GraphTable& table, const std::string& name, std::int64_t count,
                 const std::string& folder) {
  const Tensor* values = table.fields.find(name);
  if (values == nullptr || values->numel() == 0) return;
  const auto least = values->min().item<std::int64_t>(), most = values->max().item<std::int64_t>();
  if (least >= 0 && most < count) return;
  throw DataError(fmt::format("{}: {} holds values from {} to {}, expected 0 to {}", folder, name,
                              least, most, count - 1));
}

/// The folder with the files of a benchmark.
std::string folder_of(const BenchmarkOptions& options, const Known& known) {
  DataSearch search{fmt::format("graphs/{}", options.name),
                    {},
                    options.root,
                    fmt::format("fetch them from {}", known.source)};
  if (!known.file.empty()) {
    search.files = {known.file};
    return find_data_folder(search);
  }
  for (const char* part : kParts) {
    search.files.push_back(fmt::format("{}.{}", part, known.ending));
    if (options.name == "zinc" && options.subset)
      search.files.push_back(fmt::format("{}.index", part));
  }
  return find_data_folder(search);
}

SplitGraphs read_graphs(const BenchmarkOptions& options, const Known& known,
                        const std::string& folder) {
  const auto path = [&](const std::string& file) {
    return with_or_without_gz(fmt::format("{}/{}", folder, file));
  };
  if (!known.file.empty()) return read_torch_graphs(path(known.file));
  SplitGraphs splits;
  for (std::size_t split = 0; split < 3; ++split) {
    const std::string pickle = path(fmt::format("{}.{}", kParts[split], known.ending));
    splits[split] =
        options.name == "pcqm-contact" ? read_contacts(pickle)
        : options.name == "zinc"
            ? read_zinc(pickle, options.subset ? path(fmt::format("{}.index", kParts[split])) : "")
            : read_superpixels(pickle, options.name == "coco-sp");
  }
  return splits;
}

GraphSet open_set(const BenchmarkOptions& options) {
  const Known known = known_of(options.name);
  GraphSet set;
  set.info.name = options.name;
  set.info.source = folder_of(options, known);
  std::vector<NamedTensors> graphs;
  SplitGraphs read = read_graphs(options, known, set.info.source);
  for (std::size_t split = 0; split < 3; ++split) {
    for (NamedTensors& graph : read[split]) {
      set.splits[split].push_back(static_cast<std::int64_t>(graphs.size()));
      graphs.push_back(std::move(graph));
    }
  }
  set.table = table_of(graphs);
  set.info.classes = known.classes;
  check_range(set.table, "type@node", known.nodes, set.info.source);
  check_range(set.table, "edge_type@edge", known.edges, set.info.source);
  for (const char* name : {"class", "class@node"})
    check_range(set.table, name, known.classes, set.info.source);
  for (const auto& [name, tensor] : graphs.front()) {
    FieldInfo info{name, tensor.sizes().vec(), tensor.scalar_type()};
    const bool rows = !parse_field_name(name).axis.empty();
    if (rows) info.shape[0] = -1;
    const bool of_node = name == "type@node" || name == "atom@node";
    const bool of_edge = name == "edge_type@edge" || name == "bond@edge";
    info.categories = of_node                     ? known.nodes
                      : of_edge                   ? known.edges
                      : name.starts_with("class") ? known.classes
                                                  : 0;
    if (name == "link@pair") {
      info.categories = 2;
      info.values = {"none", "link"};
    }
    set.info.fields.push_back(info);
  }
  set.info.fingerprint = hex(content_of(packed(set.table)));
  return set;
}

class BenchmarkGraphs final : public GraphDataset {
 public:
  BenchmarkGraphs(const BenchmarkOptions& options, const DatasetSetup&)
      : GraphDataset(open_set(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, BenchmarkGraphs, BenchmarkOptions,
    {.id = "attnlab/benchmark_graphs",
     .version = "1.0.0",
     .summary = "published graphs: ZINC, LRGB's superpixels and contacts, PATTERN, CLUSTER, "
                "CIFAR-10",
     .citation = "Dwivedi et al. 2020, Benchmarking Graph Neural Networks, "
                 "arXiv:2003.00982; 2022, Long Range Graph Benchmark, arXiv:2206.08164",
     .licence = "as each set's",
     .gives = {"type@node?", "atom@node?", "x@node?", "edges@edge>node", "edge_type@edge?",
               "bond@edge?", "e@edge?", "labels?", "class?", "class@node?", "pairs@pair>node?",
               "link@pair?", ATTNLAB_GRAPH_ENCODINGS}})

}  // namespace attnlab
