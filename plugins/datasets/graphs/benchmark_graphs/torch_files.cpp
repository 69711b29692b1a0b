// Files of torch.save.
#include <fmt/format.h>

#include "framework/data/formats/files.h"
#include "framework/data/formats/torch_file.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/benchmark_graphs/readers.h"

namespace attnlab {
namespace {

/// A tensor of a map; undefined where it is not there, or None.
Tensor entry(const PickleValue& map, const std::string& name) {
  for (const auto& [key, value] : map.entries()) {
    const bool found = key->kind() == PickleValue::Kind::text && key->text() == name;
    if (found && value->kind() != PickleValue::Kind::none) return value->tensor();
  }
  return {};
}

NamedTensors graph_of(const PickleValue& map, const std::string& place, ValueBudget& taken) {
  const Tensor x = entry(map, "x"), edges = entry(map, "edge_index"), y = entry(map, "y");
  const Tensor e = entry(map, "edge_attr"), pos = entry(map, "pos");
  std::int64_t values = map.length();
  for (const Tensor& field : {x, edges, y, e, pos}) values += field.defined() ? field.numel() : 0;
  taken.add(values);
  const bool fits = x.defined() && x.dim() == 2 && x.size(1) > 0 && edges.defined() &&
                    edges.dim() == 2 && edges.size(0) == 2 && y.defined() &&
                    (!e.defined() || (e.dim() > 0 && e.size(0) == edges.size(1))) &&
                    (!pos.defined() || (pos.dim() == 2 && pos.size(0) == x.size(0)));
  if (!fits)
    throw DataError(fmt::format("{}: lacks x, edge_index or y, or their shapes do not fit", place));
  const Tensor known = x.to(at::kFloat);
  NamedTensors graph = {{"x@node", pos.defined() ? at::cat({known, pos.to(at::kFloat)}, 1) : known},
                        {"edges@edge>node", edges.t().to(at::kLong).contiguous()}};
  if (e.defined()) {
    graph.set("e@edge", (e.dim() == 1 ? e.unsqueeze(1) : e.flatten(1)).to(at::kFloat));
  }
  const bool nodes = y.numel() == x.size(0) && y.numel() > 1;
  if (!nodes && y.numel() != 1)
    throw DataError(fmt::format("{}: y has neither one value nor one per node", place));
  graph.set(nodes ? "class@node" : "class",
            nodes ? y.reshape({-1}).to(at::kLong) : y.reshape({}).to(at::kLong));
  return with_sorted_edges(graph, place);
}

/// Whole numbers of columns, each behind the values of the columns before it.
/// @throws DataError for a value that OGB's lists do not have
template <std::size_t kColumns>
Tensor one_table(const Tensor& columns, const std::array<std::int64_t, kColumns>& sizes,
                 const std::string& what) {
  const Tensor values = columns.to(at::kLong).clone(at::MemoryFormat::Contiguous);
  auto* value = values.data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    std::int64_t before = 0;
    for (const std::int64_t size : sizes) {
      if (*value < 0 || *value >= size) {
        throw DataError(fmt::format("{}: row {} holds {}, expected 0 to {}; fetch the file again",
                                    what, row, *value, size - 1));
      }
      *value++ += before;
      before += size;
    }
  }
  return values;
}

NamedTensors contacts_of(const PickleValue& graph, const std::string& place, ValueBudget& taken) {
  const Tensor x = graph.item(0).tensor(), e = graph.item(1).tensor();
  const Tensor edges = graph.item(2).tensor(), pairs = graph.item(3).tensor();
  const Tensor links = graph.item(4).tensor();
  taken.add(x.numel() + e.numel() + edges.numel() + pairs.numel() + links.numel());
  const auto ends = [](const Tensor& of) { return of.dim() == 2 && of.size(0) == 2; };
  const bool fits = x.dim() == 2 && x.size(1) == std::int64_t(kAtomValues.size()) && ends(edges) &&
                    e.dim() == 2 && e.size(0) == edges.size(1) &&
                    e.size(1) == std::int64_t(kBondValues.size()) && ends(pairs) &&
                    links.numel() == pairs.size(1);
  if (!fits) {
    throw DataError(fmt::format(
        "{}: x is {}, edge_attr {}, edge_index {}, edge_index_labeled {}, edge_label {}; fetch the "
        "file again",
        place, describe(x), describe(e), describe(edges), describe(pairs), describe(links)));
  }
  const Tensor asked = pairs.t().to(at::kLong).contiguous();
  if (asked.lt(0).logical_or(asked.ge(x.size(0))).any().item<bool>()) {
    throw DataError(
        fmt::format("{}: edge_index_labeled names an atom that is not there; fetch the "
                    "file again",
                    place));
  }
  return with_sorted_edges({{"atom@node", one_table(x, kAtomValues, place + ": x")},
                            {"edges@edge>node", edges.t().to(at::kLong).contiguous()},
                            {"bond@edge", one_table(e, kBondValues, place + ": edge_attr")},
                            {"pairs@pair>node", asked},
                            {"link@pair", links.reshape({-1}).to(at::kLong)}},
                           place);
}

}  // namespace

std::vector<NamedTensors> read_contacts(const std::string& path) {
  const std::string bytes = read_data_file(path);
  const TorchFile file(bytes, path);
  std::vector<NamedTensors> graphs;
  ValueBudget taken(bytes.size(), path);
  for (std::int64_t i = 0; i < file.root().length(); ++i) {
    graphs.push_back(contacts_of(file.root().item(i), fmt::format("{}: graph {}", path, i), taken));
  }
  return graphs;
}

SplitGraphs read_torch_graphs(const std::string& path) {
  const std::string bytes = read_data_file(path);
  const TorchFile file(bytes, path);
  SplitGraphs splits;
  if (file.root().length() != std::int64_t(splits.size())) {
    throw DataError(
        fmt::format("{}: holds {} lists, expected those of training, validation and "
                    "test; fetch the file again",
                    path, file.root().length()));
  }
  ValueBudget taken(bytes.size(), path);
  for (std::size_t split = 0; split < splits.size(); ++split) {
    const PickleValue& graphs = file.root().item(std::int64_t(split));
    for (std::int64_t i = 0; i < graphs.length(); ++i) {
      const std::string place = fmt::format("{}: split {}, graph {}", path, split, i);
      splits[split].push_back(graph_of(graphs.item(i), place, taken));
    }
  }
  return splits;
}

}  // namespace attnlab
