// Files of torch.save, read by LibTorch itself.
#include <fmt/format.h>

#include <torch/serialize.h>

#include "framework/base/files.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/benchmark_graphs/readers.h"

namespace attnlab {
namespace {

/// A tensor of a map; undefined where it is not there, or None.
Tensor entry(const c10::impl::GenericDict& map, const char* name) {
  const auto found = map.find(name);
  return found == map.end() || found->value().isNone() ? Tensor() : found->value().toTensor();
}

NamedTensors graph_of(const c10::IValue& value, const std::string& place) {
  const c10::impl::GenericDict map = value.toGenericDict();
  const Tensor x = entry(map, "x"), edges = entry(map, "edge_index"), y = entry(map, "y");
  Tensor e = entry(map, "edge_attr");
  const bool fits = x.defined() && x.dim() == 2 && edges.defined() && edges.dim() == 2 &&
                    edges.size(0) == 2 && y.defined() &&
                    (!e.defined() || (e.dim() > 0 && e.size(0) == edges.size(1)));
  if (!fits)
    throw DataError(fmt::format("{}: lacks x, edge_index or y, or their shapes do not fit", place));
  NamedTensors graph = {{"x@node", x.to(at::kFloat)},
                        {"edges@edge>node", edges.t().to(at::kLong).contiguous()}};
  if (e.defined()) graph.set("e@edge", e.reshape({e.size(0), -1}).to(at::kFloat));
  const bool nodes = y.numel() == x.size(0) && y.numel() > 1;
  if (!nodes && y.numel() != 1)
    throw DataError(fmt::format("{}: y has neither one value nor one a node", place));
  graph.set(nodes ? "class@node" : "class",
            nodes ? y.reshape({-1}).to(at::kLong) : y.reshape({}).to(at::kLong));
  return with_sorted_edges(graph, place);
}

}  // namespace

std::vector<NamedTensors> read_torch_graphs(const std::string& path) {
  const std::string bytes = read_text(path);
  try {
    const c10::IValue root = torch::pickle_load({bytes.begin(), bytes.end()});
    std::vector<NamedTensors> graphs;
    for (const c10::IValue& value : root.toListRef()) {
      graphs.push_back(graph_of(value, fmt::format("{}: graph {}", path, graphs.size())));
    }
    return graphs;
  } catch (const c10::Error& error) {
    throw DataError(fmt::format("{}: LibTorch cannot read it ({}); fetch the file again", path,
                                error.what_without_backtrace()));
  }
}

}  // namespace attnlab
