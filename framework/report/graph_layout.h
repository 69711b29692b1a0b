// Where the nodes of a small graph are drawn: distances on paper like distances in the graph.
//
//   start   classical scaling: the two largest eigenvectors of -J D² J / 2 (power iterations)
//   then    stress majorisation: each step lowers sum over pairs of (|p_i - p_j| - d_ij)² / d_ij²
//
// d_ij counts the edges of the shortest path; nodes of different components are as far apart as
// the longest path, and one more. The same graph is always drawn alike.
// Source: Gansner, Koren, North 2004, Graph drawing by stress majorization. Cost: O(n²) a step.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace attnlab {

struct DrawnPoint {
  double x = 0, y = 0;
};

/// @param edges  pairs of nodes below `nodes`
/// @returns a place for each node, within [0, 1] in both directions, proportions kept
std::vector<DrawnPoint> graph_layout(std::size_t nodes,
                                     const std::vector<std::pair<std::size_t, std::size_t>>& edges);

}  // namespace attnlab
