// Molecules as graphs: a table with SMILES and targets, read by RDKit, with OGB's features.
//
//   peptides-func    LRGB's raw/peptide_multi_class_dataset.csv, 10 labels, official split
//   peptides-struct  LRGB's raw/peptide_structure_normalized_dataset.csv, 11 values, official split
//   esol, freesolv, lipophilicity   MoleculeNet's files, one value, random split
//   molhiv           MoleculeNet's HIV.csv, that is ogbg-molhiv: two classes, scaffold split
//   table            any other: the options name file, columns and split
//
// Each file may be gzipped. Fields: chemistry.h has atoms, bonds and edges; targets are `labels`
// [T] float32, NaN where missing, or `class`. Graphs and encodings are kept in the user's cache
// folder. Source: Dwivedi et al. 2022 (arXiv:2206.08164), Wu et al. 2018 (arXiv:1703.00564), Hu et
// al. 2020 (arXiv:2005.00687). Cost: some 10 bytes an atom and 5 an edge, and 4 a value of the
// encodings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/cache.h"
#include "framework/data/formats/files.h"
#include "framework/data/long_work.h"
#include "plugins/datasets/graphs/molecules/chemistry.h"
#include "plugins/datasets/graphs/molecules/layout.h"
#include "plugins/datasets/graphs/molecules/rows.h"

namespace attnlab {
namespace {

/// Raised when the same SMILES would become another graph.
constexpr int kVersion = 2;

template <std::size_t columns>
std::int64_t sum_of(const std::array<std::int64_t, columns>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

/// Reads all rows. `refused` [R] int64 are those that RDKit refuses, where they are skipped.
/// @throws DataError with file and line of the first of them, where not.
NamedTensors parse(const CsvTable& table, std::size_t column, bool skip, const std::string& name) {
  std::vector<NamedTensors> graphs(table.rows.size());
  in_parallel(fmt::format("{}: reading {} SMILES", name, table.rows.size()),
              static_cast<std::int64_t>(table.rows.size()), [&](std::int64_t i) {
                const auto row = static_cast<std::size_t>(i);
                try {
                  graphs[row] = ogb_graph(table.rows[row].values[column]);
                } catch (const DataError& error) {
                  if (skip) return;
                  throw DataError(fmt::format("{}: {}; repair the line, or set `refused: skip`",
                                              table.place(row), error.what()));
                }
              });
  std::vector<std::int64_t> refused;
  for (std::size_t row = 0; row < graphs.size(); ++row) {
    if (graphs[row].size() == 0) refused.push_back(static_cast<std::int64_t>(row));
  }
  std::erase_if(graphs, [](const NamedTensors& graph) { return graph.size() == 0; });
  if (graphs.empty()) throw DataError(fmt::format("{}: RDKit refuses every SMILES", table.path));
  NamedTensors out = packed(table_of(graphs));
  out.set("refused", at::tensor(refused, at::kLong));
  return out;
}

/// The graphs of a table, from the cache where they are there. Rows that are skipped are taken out.
/// @param rows  gets the numbers of the rows that are left
GraphTable graphs_of(CsvTable& table, std::size_t column, bool skip, const std::string& name,
                     std::vector<std::int64_t>& rows) {
  std::uint64_t hash = 0;
  for (const CsvTable::Row& row : table.rows)
    hash = fingerprint(fmt::format("{}\n", row.values[column]), hash);
  const std::string key =
      fmt::format("OGB graphs of {} SMILES {}{}, RDKit {}, version {}", table.rows.size(),
                  hex(hash), skip ? ", refused ones skipped" : "", chemistry_version(), kVersion);
  NamedTensors kept;
  std::vector<bool> refused(table.rows.size());
  for (const auto& [field, tensor] :
       cached("molecules", key, [&] { return parse(table, column, skip, name); })) {
    if (field != "refused") {
      kept.set(field, tensor);
      continue;
    }
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      refused[static_cast<std::size_t>(tensor.data_ptr<std::int64_t>()[i])] = true;
    }
  }
  std::vector<CsvTable::Row> left;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (refused[row]) continue;
    rows.push_back(static_cast<std::int64_t>(row));
    left.push_back(std::move(table.rows[row]));
  }
  table.rows = std::move(left);
  return unpacked(kept);
}

/// The split of a file, of the rows that are left; these become 0, 1, ...
GraphSplits file_splits(const std::string& path, const std::vector<std::int64_t>& rows,
                        std::size_t all) {
  GraphSplits splits = pickled_splits(path, static_cast<std::int64_t>(all));
  std::vector<std::int64_t> places(all, -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    places[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  }
  for (std::vector<std::int64_t>& split : splits) {
    for (std::int64_t& row : split) row = places[static_cast<std::size_t>(row)];
    std::erase(split, -1);
  }
  return splits;
}

GraphSplits scaffold_split(const CsvTable& table, std::size_t column,
                           const MoleculesOptions& options) {
  std::vector<std::string> scaffolds(table.rows.size());
  in_parallel(fmt::format("{}: scaffolds of {} molecules", options.name, scaffolds.size()),
              static_cast<std::int64_t>(scaffolds.size()), [&](std::int64_t i) {
                const auto row = static_cast<std::size_t>(i);
                scaffolds[row] =
                    scaffold_of(table.rows[row].values[column], options.scaffold_chirality);
              });
  GraphSplits splits = scaffold_splits(scaffolds, options.validation, options.test);
  const auto expect_some = [&](const char* option, double share, std::size_t split) {
    if (share == 0 || !splits[split].empty()) return;
    throw OptionError(option, fmt::format("a share of {} of {} molecules is empty, as scaffolds "
                                          "are not split; take a larger share, or 0",
                                          shortest(share), scaffolds.size()));
  };
  expect_some("validation", options.validation, 1);
  expect_some("test", options.test, 2);
  return splits;
}

/// Columns less their mean over rows, over their deviation; what is missing stays so.
Tensor scaled(const Tensor& targets, const std::vector<std::int64_t>& training, FieldInfo& info) {
  const Tensor rows = targets.index_select(0, at::tensor(training, at::kLong));
  const Tensor known = rows.isnan().logical_not().sum(0).clamp_min(1);
  const Tensor mean = rows.nan_to_num(0).sum(0) / known;
  const Tensor deviation = ((rows - mean).nan_to_num(0).square().sum(0) / known).sqrt();
  for (std::int64_t t = 0; t < targets.size(1); ++t) {
    info.mean.push_back(mean[t].item<double>());
    info.deviation.push_back(deviation[t].item<double>());
    // Of equal numbers rounding may leave a deviation, which is none to divide by.
    if (info.deviation.back() > 1e-12 * std::abs(info.mean.back())) continue;
    throw OptionError("scale_targets",
                      fmt::format("target {} is the same in every training row; leave it out of "
                                  "`targets`, or set scale_targets: false",
                                  t));
  }
  return (targets - mean) / deviation;
}

/// Puts the targets beside the graphs.
void add_targets(const CsvTable& table, const Layout& layout, bool scale, GraphSet& set) {
  Tensor targets = targets_of(table, layout.targets);
  if (layout.target == "class") {
    if (targets.size(1) != 1)
      throw OptionError("targets", "must be one column for `target: class`");
    const Tensor classes = classes_of(table, targets);
    set.info.classes = std::max<std::int64_t>(2, classes.max().item<std::int64_t>() + 1);
    set.info.fields.push_back({"class", {}, at::kLong, {}, set.info.classes});
    return set.table.fields.set("class", classes);
  }
  if (layout.target == "labels") check_labels(table, targets);
  FieldInfo info{"labels", {targets.size(1)}};
  if (targets.size(1) == std::int64_t(layout.targets.size())) info.values = layout.targets;
  if (scale) targets = scaled(targets, set.splits[0], info);
  set.info.fields.push_back(info);
  set.table.fields.set("labels", targets.to(at::kFloat));
}

GraphSet open_set(const MoleculesOptions& options, const DatasetSetup& setup) {
  const ChemistryEnvironment as_before;
  const Layout layout = layout_of(options);
  if (options.scale_targets && layout.target != "values") {
    throw OptionError("scale_targets",
                      fmt::format("is for values; {} has {}", options.name, layout.target));
  }
  const std::string split = options.split == "published" ? layout.split : options.split;
  const bool below = options.root.empty() && !options.archive.empty();
  DataSearch search{below ? fmt::format("{}/{}", options.archive, layout.folder) : layout.folder,
                    {layout.file},
                    options.root,
                    fmt::format("fetch {} from {}", layout.file, layout.source)};
  if (split == "file") search.files.push_back(layout.split_file);

  GraphSet set;
  set.info.name = options.name;
  set.info.source = find_data_folder(search);
  const std::string path = with_or_without_gz(fmt::format("{}/{}", set.info.source, layout.file));
  CsvTable table = parse_csv(read_data_file(path), path);
  const std::size_t column = table.column(layout.smiles), all = table.rows.size();
  std::vector<std::int64_t> rows;
  set.table = graphs_of(table, column, options.refused == "skip", options.name, rows);
  set.info.fields = {{"atom@node", {-1, 9}, at::kLong, {}, sum_of(kAtomSizes)},
                     {"edges@edge>node", {-1, 2}, at::kLong},
                     {"bond@edge", {-1, 3}, at::kLong, {}, sum_of(kBondSizes)}};
  const RandomStreams streams =
      options.split_seed < 0 ? setup.streams : RandomStreams(std::uint64_t(options.split_seed));
  std::uint64_t hash = 0;
  if (split == "file") {
    const std::string split_path =
        with_or_without_gz(fmt::format("{}/{}", set.info.source, layout.split_file));
    hash = content_fingerprint(read_data_file(split_path));
    set.splits = file_splits(split_path, rows, all);
  } else if (split == "scaffold") {
    set.splits = scaffold_split(table, column, options);
  } else {
    set.splits =
        random_splits(set.table.size, options.validation, options.test, streams.stream("split"));
  }
  add_targets(table, layout, options.scale_targets, set);
  set.info.fingerprint = hex(content_of(packed(set.table)) ^ hash);
  return set;
}

class Molecules final : public GraphDataset {
 public:
  Molecules(const MoleculesOptions& options, const DatasetSetup& setup)
      : GraphDataset(open_set(options, setup), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, Molecules, MoleculesOptions,
    {.id = "attnlab/molecules",
     .version = "1.0.0",
     .summary = "molecules as graphs with OGB's features: LRGB's peptides, MoleculeNet",
     .citation = "Dwivedi et al. 2022, Long Range Graph Benchmark, arXiv:2206.08164; Wu "
                 "et al. 2018, MoleculeNet, arXiv:1703.00564; Hu et al. 2020, Open Graph "
                 "Benchmark, arXiv:2005.00687",
     .licence = "CC-BY-NC-4.0 (peptides), MIT (MoleculeNet)",
     .gives = {"atom@node", "edges@edge>node", "bond@edge", "labels?", "class?",
               ATTNLAB_GRAPH_ENCODINGS}})

}  // namespace attnlab
