// Message passing along edges: what the layers of framework/nn/graph/local_layers.h are made of.
//
//   GINE       m_i = sum_{j -> i} relu(x_j + e_ji)
//   GatedGCN   g_ji = d_i + s_j + c_ji
//              m_i  = (sum_{j -> i} sigmoid(g_ji) b_j) / (sum_{j -> i} sigmoid(g_ji) + 1e-6)
//
// Messages are never stored: a node's edges are read and added up at once. Sums run over each
// node's edges in their order, forward and backward, so that neither threads nor runs change a bit.
// Own kernels for float32 and float64 on the CPU; elsewhere, and for gradients of gradients,
// composed operations of framework/nn/graph/segments.h.
// Sources: Hu et al., ICLR 2020 (GINE); Bresson and Laurent 2017 and the public code of GraphGPS
// (GatedGCN). Cost: O(edges * channels), one pass forward and two backward.
#pragma once

#include "framework/nn/graph/segments.h"

namespace attnlab {

/// The edges of a batch, in the two orders that sums run in.
struct Edges {
  Segments by_target, by_source;

  /// @param ends   [E, 2] int64, source and target, rows of the nodes
  /// @param nodes  N
  /// @throws DataError for a row that is not a node's.
  Edges(const Tensor& ends, std::int64_t nodes);
  Edges(Segments by_target, Segments by_source);

  std::int64_t count() const { return by_target.items(); }  ///< E
  std::int64_t nodes() const { return by_target.count(); }  ///< N
};

/// Edges [E, 2] with one from each node to itself behind them, in place of those that were there.
Tensor with_own_loops(const Tensor& ends, std::int64_t nodes);

/// @param x  [N, C] of the nodes
/// @param e  [E, C] of the edges, of the same dtype and device
/// @returns m, [N, C]; zeros for a node that no edge leads to.
Tensor gine_sum(const Tensor& x, const Tensor& e, const Edges& edges);

struct GatedSums {
  Tensor nodes;  ///< a + m, [N, C]
  Tensor edges;  ///< g, [E, C], before the sigmoid
};

/// @param nodes  [N, 4 C], side by side a (added to the sums), d (of targets), b (what sources
///               send) and s (of sources)
/// @param c      [E, C] of the edges, of the same dtype and device
GatedSums gated_sums(const Tensor& nodes, const Tensor& c, const Edges& edges);

}  // namespace attnlab
