#include "framework/data/graph/graph_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace attnlab {
namespace {

constexpr const char* kEdges = "edges@edge>node";
constexpr std::string_view kEnds = "ends of ";  ///< of an axis, where a table is packed

/// Rows of an axis of one graph; 0 where it has no field of that axis.
std::int64_t rows_in(const NamedTensors& graph, std::string_view axis) {
  for (const auto& [name, tensor] : graph) {
    if (parse_field_name(name).axis == axis) return tensor.size(0);
  }
  return 0;
}

void check_edges(const std::int64_t* edges, std::int64_t count, std::int64_t nodes,
                 const std::string& place) {
  for (std::int64_t k = 0; k < 2 * count; ++k) {
    if (edges[k] >= 0 && edges[k] < nodes) continue;
    throw DataError(
        fmt::format("{}: edge {} ({}, {}) names a node that is not there; nodes count "
                    "from 0 to {}",
                    place, k / 2, edges[k / 2 * 2], edges[k / 2 * 2 + 1], nodes - 1));
  }
}

/// In as few bytes as the values need.
Tensor narrowed(const Tensor& values) {
  if (values.scalar_type() != at::kLong || values.numel() == 0) return values;
  const auto least = values.min().item<std::int64_t>(), most = values.max().item<std::int64_t>();
  if (least >= 0 && most <= UINT8_MAX) return values.to(at::kByte);
  if (least >= INT16_MIN && most <= INT16_MAX) return values.to(at::kShort);
  if (least >= INT32_MIN && most <= INT32_MAX) return values.to(at::kInt);
  return values;
}

/// The end of each graph's rows, from 0.
Tensor ends_of(const std::vector<NamedTensors>& graphs, const std::string& name) {
  const Tensor ends = at::zeros({std::int64_t(graphs.size()) + 1}, at::kLong);
  auto* out = ends.data_ptr<std::int64_t>();
  for (const NamedTensors& graph : graphs) {
    out[1] = out[0] + graph.at(name).size(0);
    ++out;
  }
  return ends;
}

}  // namespace

Tensor edge_tensor(const std::vector<Edge>& edges) {
  const Tensor out = at::empty({std::int64_t(edges.size()), 2}, at::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  for (const auto& [source, target] : edges) {
    *to++ = source;
    *to++ = target;
  }
  return out;
}

std::vector<Edge> undirected(const std::vector<Edge>& edges) {
  std::vector<Edge> all;
  all.reserve(2 * edges.size());
  for (const auto& [source, target] : edges) {
    if (source == target) continue;
    all.emplace_back(source, target);
    all.emplace_back(target, source);
  }
  const auto by_target = [](const Edge& a, const Edge& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  };
  std::sort(all.begin(), all.end(), by_target);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

NamedTensors with_sorted_edges(const NamedTensors& graph, const std::string& place) {
  const std::int64_t nodes = rows_in(graph, "node");
  if (nodes == 0)
    throw DataError(fmt::format("{}: the graph has no nodes; remove it from the data", place));
  const Tensor edges = graph.at(kEdges).contiguous();
  const auto* ends = edges.data_ptr<std::int64_t>();
  check_edges(ends, edges.size(0), nodes, place);
  const Tensor order = at::arange(edges.size(0), at::kLong);
  auto* rows = order.data_ptr<std::int64_t>();
  std::stable_sort(rows, rows + order.numel(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(ends[2 * a + 1], ends[2 * a]) < std::pair(ends[2 * b + 1], ends[2 * b]);
  });
  NamedTensors sorted;
  for (const auto& [name, tensor] : graph) {
    const bool of_edges = parse_field_name(name).axis == "edge";
    sorted.set(name, of_edges ? tensor.index_select(0, order) : tensor);
  }
  return sorted;
}

std::pair<std::int64_t, std::int64_t> GraphTable::rows(std::string_view axis,
                                                       std::int64_t graph) const {
  const auto* ends = offsets.at(axis).data_ptr<std::int64_t>();
  return {ends[graph], ends[graph + 1] - ends[graph]};
}

NamedTensors GraphTable::graph(std::int64_t index) const {
  NamedTensors one;
  for (const auto& [name, tensor] : fields) {
    const std::string_view axis = parse_field_name(name).axis;
    const auto [begin, count] =
        axis.empty() ? std::pair(index, std::int64_t{1}) : rows(axis, index);
    Tensor part = tensor.narrow(0, begin, count);
    if (axis.empty()) part = part[0];
    const bool whole = at::isIntegralType(part.scalar_type(), /*includeBool=*/false);
    one.set(name, part.to(part.options().dtype(whole ? at::kLong : part.scalar_type()),
                          /*non_blocking=*/false, /*copy=*/true));
  }
  return one;
}

GraphTable table_of(const std::vector<NamedTensors>& graphs) {
  if (graphs.empty()) throw DataError("there are no graphs");
  GraphTable table;
  table.size = static_cast<std::int64_t>(graphs.size());
  for (const auto& [name, first] : graphs.front()) {
    const std::string_view axis = parse_field_name(name).axis;
    std::vector<Tensor> parts;
    parts.reserve(graphs.size());
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      const Tensor* part = graphs[i].find(name);
      const bool fits = part != nullptr && part->dim() == first.dim() &&
                        (axis.empty() ? part->sizes() == first.sizes()
                                      : part->sizes().slice(1) == first.sizes().slice(1));
      if (!fits) {
        throw DataError(fmt::format("graph {}: its field '{}' is {} where the first graph's is {}",
                                    i, name, part == nullptr ? "missing" : describe(*part),
                                    describe(first)));
      }
      parts.push_back(axis.empty() ? part->unsqueeze(0) : *part);
    }
    table.fields.set(name, narrowed(at::cat(parts)));
    if (axis.empty()) continue;
    const Tensor ends = ends_of(graphs, name);
    const Tensor* before = table.offsets.find(axis);
    if (before != nullptr && !before->equal(ends)) {
      throw DataError(
          fmt::format("field '{}' has other rows than the fields of its axis before it", name));
    }
    if (before == nullptr) table.offsets.set(axis, ends);
  }
  return table;
}

NamedTensors packed(const GraphTable& table) {
  NamedTensors all = table.fields;
  for (const auto& [axis, ends] : table.offsets) all.set(std::string(kEnds) + axis, ends);
  return all;
}

GraphTable unpacked(const NamedTensors& tensors) {
  GraphTable table;
  for (const auto& [name, tensor] : tensors) {
    const bool ends = name.starts_with(kEnds);
    ends ? table.offsets.set(name.substr(kEnds.size()), tensor) : table.fields.set(name, tensor);
  }
  table.size = table.offsets.at("node").numel() - 1;
  return table;
}

Neighbours neighbours_of(const GraphTable& table, std::int64_t graph) {
  const auto [begin, count] = table.rows("edge", graph);
  const Tensor edges = table.fields.at(kEdges).narrow(0, begin, count).to(at::kLong).contiguous();
  const auto* ends = edges.data_ptr<std::int64_t>();
  std::vector<Edge> pairs(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    pairs[static_cast<std::size_t>(k)] = {ends[2 * k], ends[2 * k + 1]};
  }
  Neighbours all;
  all.begins.assign(static_cast<std::size_t>(table.nodes(graph)) + 1, 0);
  for (const auto& [source, target] : undirected(pairs)) {
    ++all.begins[static_cast<std::size_t>(target) + 1];
    all.nodes.push_back(static_cast<std::int32_t>(source));
  }
  std::partial_sum(all.begins.begin(), all.begins.end(), all.begins.begin());
  return all;
}

}  // namespace attnlab
