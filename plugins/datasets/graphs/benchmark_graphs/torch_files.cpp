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
    throw DataError(fmt::format("{}: y has neither one value nor one a node", place));
  graph.set(nodes ? "class@node" : "class",
            nodes ? y.reshape({-1}).to(at::kLong) : y.reshape({}).to(at::kLong));
  return with_sorted_edges(graph, place);
}

}  // namespace

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
