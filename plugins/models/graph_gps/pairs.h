// What the nodes of a graph are to each other, as attention is told it: a bias for each pair of
// nodes, or who sees whom.
//
//   distance   b_ij = T_d,   d: edges of a shortest path from i to j, at most max_distance; nodes
//              that no path joins, and pairs with the graph's token, have a row of T of their own
//   edges      c_ij = 1/n sum_{m = 1}^n v_{e_m} W_m,   n = min(d, max_distance), e_m the m-th edge
//              of a shortest path, v_e the encoding of an edge's features in one channel per head;
//              0 where there is no path
//   neighbours i sees j where an edge leads from j to i, as messages go, and itself
//
// T is [max_distance + 2 or 3, H], W_m are [H, H]; all layers share them. Of several shortest paths
// it is the one that is found first, in the order of the edges. A graph's token stands behind its
// nodes; all see it, and it sees all.
// Source: Ying et al., Do transformers really perform bad for graph representation?, NeurIPS 2021
// (Graphormer), and its public code (graphormer/model.py of August 2021), whose T has a row for
// every distance up to 38, and W_m one for 40 of them.
// Cost: the search O(n (n + edges)) a graph of n nodes, on the CPU; O(graphs L^2 H) numbers for
// graphs of up to L nodes.
#pragma once

#include "framework/nn/graph/segments.h"
#include "plugins/models/graph_gps/encoders.h"

namespace attnlab {

/// All pairs of tokens of one graph, of every graph of a batch that is padded to the largest one,
/// and the shortest paths between them. On the CPU.
struct NodePairs {
  /// Paths of one length, one more than those of the level before.
  struct Level {
    Tensor before;  ///< [K] int64, the path without its last edge, of the level before
    Tensor edge;    ///< [K] int64, the last edge
  };
  std::int64_t graphs = 0, longest = 0;  ///< B and L
  Tensor place;                          ///< [P] int64, (graph L + i) L + j
  Tensor kind;                ///< [P] int64, d; max_distance + 1: no path; + 2: with the token
  Tensor path;                ///< [P] int64: 0 none, else 1 + the path's number among all levels'
  std::vector<Level> levels;  ///< of 1, 2, ... edges

  /// @param ends     [E, 2] int64, source and target
  /// @param offsets  [B + 1] int64, where each graph's nodes begin
  /// @param token    each graph has a token behind its nodes
  /// @throws DataError for an end that is not a node.
  NodePairs(const Tensor& ends, const Tensor& offsets, bool token, std::int64_t max_distance);
};

/// Who sees whom under `attend: neighbours`, [B, 1, L, L] bool on the CPU; arguments as above.
Tensor neighbours_see(const Tensor& ends, const Tensor& offsets, bool token);

/// The biases that the options name.
class PairBias : public torch::nn::Module {
 public:
  /// @throws OptionError for a bias of edges where the dataset says nothing of them.
  PairBias(const GraphGpsOptions& options, const DatasetInfo& data);
  /// [B, H, L, L] in `dtype`, 0 at padding.
  Tensor forward(const Batch& batch, const NodePairs& pairs, at::ScalarType dtype) const;

 private:
  /// Means along all paths, behind a row of zeros. @param edges  [E, H]
  Tensor along_paths(const Tensor& edges, const NodePairs& pairs) const;

  std::int64_t heads_;
  Tensor distances_;                       ///< T; undefined: not asked for
  std::shared_ptr<FeatureEncoder> edges_;  ///< null: not asked for
  Tensor hops_;                            ///< W_m, [max_distance, H, H]; undefined likewise
};

}  // namespace attnlab
