// Graphs in memory: what datasets of graphs read their files into, and take examples from.
//
// A graph is an example of the contract (contracts/batch.h): fields along the axes `node` and
// `edge`, `edges@edge>node` [E, 2] int64 with source and target of each edge, counted from 0 within
// the graph, and fields of the whole graph. Edges lead in both directions, unless a dataset says
// otherwise, and are sorted by target, then source, so that sums over a node's edges are sums over
// neighbouring rows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/contracts/batch.h"

namespace attnlab {

/// Source and target.
using Edge = std::pair<std::int64_t, std::int64_t>;

/// [E, 2] int64.
Tensor edge_tensor(const std::vector<Edge>& edges);

/// Both directions of every edge once, without loops, sorted by target, then source.
std::vector<Edge> undirected(const std::vector<Edge>& edges);

/// The graph with its edges sorted, and the other fields of the axis `edge` with them; equal edges
/// keep their order.
/// @param place  for messages: "MUTAG.txt:24", "graph 3"
/// @throws DataError where an edge names a node that is not there, or there are no nodes.
NamedTensors with_sorted_edges(const NamedTensors& graph, const std::string& place);

/// Many graphs, laid end to end. Values may be of a narrower integer dtype than examples have.
struct GraphTable {
  NamedTensors fields;
  NamedTensors offsets;  ///< by axis: [graphs + 1] int64
  std::int64_t size = 0;

  /// Where a graph begins on an axis, and how many rows it has there.
  std::pair<std::int64_t, std::int64_t> rows(std::string_view axis, std::int64_t graph) const;
  std::int64_t nodes(std::int64_t graph) const { return rows("node", graph).second; }
  /// A copy of one graph; integers as int64.
  NamedTensors graph(std::int64_t index) const;
};

/// @param graphs  with the same fields; sorted edges. Integers are kept in as few bytes as they
/// need.
/// @throws DataError for no graphs, or for fields that do not fit each other.
GraphTable table_of(const std::vector<NamedTensors>& graphs);

/// A table as tensors alone, for a file, and back.
NamedTensors packed(const GraphTable& table);
GraphTable unpacked(const NamedTensors& tensors);

/// Who neighbours whom in one graph: every two different nodes that an edge joins, in either
/// direction, once. The neighbours of node i are [begins[i], begins[i + 1]), rising.
struct Neighbours {
  std::vector<std::int32_t> begins, nodes;

  std::int64_t size() const { return static_cast<std::int64_t>(begins.size()) - 1; }
  std::int64_t degree(std::int64_t node) const { return begins[node + 1] - begins[node]; }
};
Neighbours neighbours_of(const GraphTable& table, std::int64_t graph);

}  // namespace attnlab
