// What the kernels of this folder share: who takes which numbers, and the edges of a node.
#pragma once

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/nn/graph/message_passing.h"

namespace attnlab {

/// Whether our own kernels take these numbers; composed operations do elsewhere.
inline bool has_graph_kernel(const Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

/// Calls work(r) for every segment, in parallel. @param width  numbers of an item
template <class Work>
void each_segment(const Segments& s, std::int64_t width, const Work& work) {
  constexpr std::int64_t kThreadNumbers = 32 * 1024;  // below which a thread is not worth waking
  const std::int64_t numbers = width * (s.items() / std::max<std::int64_t>(1, s.count()) + 1);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kThreadNumbers / std::max<std::int64_t>(1, numbers));
  at::parallel_for(0, s.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) work(r);
  });
}

/// Edges as a backward pass keeps them.
inline std::vector<Tensor> kept(const Edges& edges) {
  const Segments &t = edges.by_target, &s = edges.by_source;
  return {t.index, t.order, t.offsets, s.index, s.order, s.offsets};
}

inline Edges edges_of(const std::vector<Tensor>& kept) {
  return {{kept[0], kept[1], kept[2]}, {kept[3], kept[4], kept[5]}};
}

/// The edges of one node, in the order that they are summed in.
struct NodeEdges {
  const std::int64_t* edge;
  std::int64_t count;
  const std::int64_t* other_end;  ///< of every edge of the batch
};

inline NodeEdges edges_of_node(const Segments& own, const Segments& other, std::int64_t node) {
  const auto* const at = own.offsets.data_ptr<std::int64_t>();
  return {own.order.data_ptr<std::int64_t>() + at[node], at[node + 1] - at[node],
          other.index.data_ptr<std::int64_t>()};
}

/// The same as `segments_by` of LibTorch's own operations, as devices without our kernels take it.
Segments composed_segments_by(const Tensor& index, std::int64_t count);

/// @throws ShapeError for other than nodes [N, parts C] and edges [E, C] of one dtype and device.
inline void check_like(const char* what, const Tensor& nodes, const Tensor& e, const Edges& edges,
                       std::int64_t parts) {
  if (nodes.dim() == 2 && e.dim() == 2 && nodes.size(0) == edges.nodes() &&
      e.size(0) == edges.count() && nodes.size(1) == parts * e.size(1) &&
      nodes.scalar_type() == e.scalar_type() && nodes.device() == e.device()) {
    return;
  }
  throw ShapeError(
      fmt::format("{} takes nodes [{}, {} C] and edges [{}, C] of one dtype, found {} and {}", what,
                  edges.nodes(), parts, edges.count(), describe(nodes), describe(e)));
}

}  // namespace attnlab
