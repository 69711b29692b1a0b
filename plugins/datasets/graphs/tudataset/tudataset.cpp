// Collections of labelled graphs: MUTAG, ENZYMES, PROTEINS and whatever else is published in the
// layout of the TU Dortmund collection, or in that of DGCNN (graph_files.h).
//
// Cross-validation: graphs of each class are dealt to the folds one by one, in random order. Fold
// `fold` tests, the next one validates, the others train. DGCNN's folders bring folds of their own.
// Source: Morris et al. 2020 (arXiv:2007.08663); Zhang et al. 2018 (DGCNN). Cost: small.
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/lines.h"
#include "framework/data/graph/graph_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/graphs/tudataset/graph_files.h"

namespace attnlab {
namespace {

struct TuOptions : EncodingOptions {
  std::string name;
  std::string layout = "tudataset";
  std::string root;
  std::string split = "folds";
  std::int64_t folds = 10, fold = 0, fold_seed = 0;
  bool validation = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, required(), "the collection, as its files are called: MUTAG");
    v("layout", layout, one_of("tudataset", "dgcnn"), "NAME_A.txt and others, or NAME.txt");
    v("root", root,
      "folder with the files, or the one above it; empty: $ATTNLAB_DATA/graphs/LAYOUT");
    v("split", split, one_of("folds", "published"),
      "folds by seed, or those of DGCNN's 10fold_idx");
    v("folds", folds, range(2, 100), "number of folds");
    v("fold", fold, range(0, 99), "the test fold");
    v("fold_seed", fold_seed, at_least(-1), "seed of the folds; -1: the run's seed");
    v("validation", validation,
      "the fold after the test fold is for validation; false: for training");
    EncodingOptions::describe(v);
  }
};

/// A part for each graph, its class's graphs dealt evenly.
std::vector<std::int64_t> dealt_parts(const GraphTable& table, std::int64_t folds, Random random) {
  std::vector<std::int64_t> order = permutation(table.size, random);
  const Tensor* classes = table.fields.find("class");
  if (classes != nullptr) {
    const Tensor wide = classes->to(at::kLong).contiguous();
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return wide.data_ptr<std::int64_t>()[a] < wide.data_ptr<std::int64_t>()[b];
    });
  }
  std::vector<std::int64_t> parts(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    parts[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i) % folds;
  }
  return parts;
}

/// As 10fold_idx/test_idx-1.txt, ... say; -1 for graphs that no part tests.
std::vector<std::int64_t> published_parts(const std::string& folder, std::int64_t graphs,
                                          std::int64_t folds, std::uint64_t& hash) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(graphs), -1);
  for (std::int64_t part = 0; part < folds; ++part) {
    const TextLines lines = read_lines(
        with_or_without_gz(fmt::format("{}/10fold_idx/test_idx-{}.txt", folder, part + 1)));
    hash = content_fingerprint(*lines.text, hash);
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
      for (const std::int64_t graph : lines.integers(i)) {
        const bool known = graph >= 0 && graph < graphs;
        if (!known || parts[static_cast<std::size_t>(graph)] >= 0) {
          throw DataError(fmt::format("{}: graph {} {}", lines.place(i), graph,
                                      known ? "stands in two parts" : "is not there"));
        }
        parts[static_cast<std::size_t>(graph)] = part;
      }
    }
  }
  return parts;
}

GraphSet open_set(const TuOptions& options, const DatasetSetup& setup) {
  if (options.fold >= options.folds) {
    throw OptionError(
        "fold", fmt::format("is {}; folds count from 0 to {}", options.fold, options.folds - 1));
  }
  const bool tu = options.layout == "tudataset", published = options.split == "published";
  if (published && (tu || options.folds != 10)) {
    throw OptionError("split", "published is for `layout: dgcnn` and 10 folds");
  }
  DataSearch search;
  search.name = fmt::format("graphs/{}/{}", options.layout, options.name);
  search.root = options.root;
  search.files = {options.name + (tu ? "_A.txt" : ".txt")};
  if (tu) search.files.push_back(fmt::format("{}_graph_indicator.txt", options.name));
  search.hint =
      fmt::format("fetch {} from https://{}", options.name,
                  tu ? "chrsmrrs.github.io/datasets" : "github.com/muhanzhang/pytorch_DGCNN");
  GraphSet set;
  set.info.name = options.name;
  set.info.source = find_data_folder(search);
  GraphFiles files = tu ? read_tu_files(set.info.source, options.name)
                        : read_dgcnn_file(set.info.source, options.name);
  set.table = table_of(files.graphs);
  set.info.fields = files.fields;
  set.info.class_names = files.class_names;
  set.info.classes = static_cast<std::int64_t>(files.class_names.size());
  const RandomStreams streams =
      options.fold_seed < 0 ? setup.streams : RandomStreams(std::uint64_t(options.fold_seed));
  const std::vector<std::int64_t> parts =
      published ? published_parts(set.info.source, set.table.size, options.folds, files.hash)
                : dealt_parts(set.table, options.folds, streams.stream("split"));
  for (std::size_t graph = 0; graph < parts.size(); ++graph) {
    const bool held = options.validation && parts[graph] == (options.fold + 1) % options.folds;
    set.splits[parts[graph] == options.fold ? 2 : held ? 1 : 0].push_back(std::int64_t(graph));
  }
  if (options.validation && set.splits[1].empty()) {
    throw OptionError("folds",
                      fmt::format("{} parts of {} graphs leave none to validate with; take "
                                  "fewer, or set validation: false",
                                  options.folds, set.table.size));
  }
  set.info.fingerprint = hex(files.hash);
  return set;
}

class TuDataset final : public GraphDataset {
 public:
  TuDataset(const TuOptions& options, const DatasetSetup& setup)
      : GraphDataset(open_set(options, setup), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, TuDataset, TuOptions,
               {.id = "attnlab/tudataset",
                .version = "1.0.0",
                .summary = "collections of labelled graphs (MUTAG, ENZYMES, ...) in folds",
                .citation = "Morris et al. 2020, TUDataset, arXiv:2007.08663",
                .licence = "as each collection's",
                .gives = {"type@node?", "x@node?", "edges@edge>node", "edge_type@edge?", "e@edge?",
                          "class?", "labels?", ATTNLAB_GRAPH_ENCODINGS}})

}  // namespace attnlab
