#include "framework/data/graph/graph_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/share.h"

namespace attnlab {

GraphSplits random_splits(std::int64_t n, double validation, double test, Random random) {
  const std::int64_t tested = share_of("test", test, n);
  const std::int64_t held = std::min(n - tested, share_of("validation", validation, n));
  const std::vector<std::int64_t> order = permutation(n, random);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> graphs(order.begin() + begin, order.begin() + end);
    std::sort(graphs.begin(), graphs.end());
    return graphs;
  };
  return {part(tested + held, n), part(tested, tested + held), part(0, tested)};
}

GraphDataset::GraphDataset(GraphSet set, const EncodingOptions& encodings) : set_(std::move(set)) {
  DatasetInfo& info = set_.info;
  if (set_.splits[0].empty())
    throw DataError(fmt::format("{}: no graphs are left to train on", info.source));
  add_encodings(set_.table, encodings, info.name);
  const std::int64_t steps = encodings.rwse, pairs = encodings.laplacian;
  if (steps > 0) info.fields.push_back({"rwse@node", {-1, steps}});
  if (pairs > 0) {
    info.fields.push_back({"lap_vectors@node", {-1, pairs}});
    info.fields.push_back({"lap_values@node", {-1, pairs}});
    info.fields.push_back({"lap_valid@node", {-1, pairs}, at::kBool});
  }
  info.unit = "nodes";
  info.unit_field = "node";
}

std::int64_t GraphDataset::size(Split split) const {
  return static_cast<std::int64_t>(set_.splits.at(static_cast<std::size_t>(split)).size());
}

std::int64_t GraphDataset::place_of(Split split, std::int64_t index) const {
  return set_.splits.at(static_cast<std::size_t>(split)).at(static_cast<std::size_t>(index));
}

NamedTensors GraphDataset::make_example(Split split, std::int64_t index, Random*) const {
  const std::int64_t place = place_of(split, index);
  const NamedTensors graph = set_.table.graph(place);
  if (graph.find("lap_values") == nullptr) return graph;
  NamedTensors fields;  // the eigenvalues stand in each row
  for (const auto& [name, tensor] : graph) {
    if (name != "lap_values") fields.set(name, tensor);
  }
  const Tensor& values = graph.at("lap_values");
  const std::int64_t nodes = set_.table.nodes(place);
  fields.set("lap_values@node", values.expand({nodes, -1}).contiguous());
  fields.set("lap_valid@node",
             at::arange(values.numel()).lt(nodes).expand({nodes, -1}).contiguous());
  return fields;
}

std::int64_t GraphDataset::cost(Split split, std::int64_t index) const {
  return set_.table.nodes(place_of(split, index));
}

}  // namespace attnlab
