// Graphs that `attnlab show` kept beside a run (graphs.json): what the model answered, and how one
// node's attention lies over the others.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/report/kept_pictures.h"

namespace attnlab {

/// One test graph, or the part of a large one that lies nearest to the chosen node.
struct GraphPicture {
  PictureOrigin origin;
  std::int64_t index = 0;  ///< of the graph in the test split
  std::int64_t nodes = 0;  ///< of the whole graph
  std::size_t shown = 0;
  std::vector<std::int64_t> numbers;  ///< in the whole graph, of each node that is shown
  std::size_t chosen = 0;             ///< among those that are shown, as the ends of edges
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  /// Of the chosen node to each that is shown: the mean over heads, in the last layer; empty where
  /// the model has no attention.
  std::vector<double> attention_to;
  std::string answer;              ///< of the graph, or of its nodes; may be empty
  std::vector<std::string> words;  ///< of each node that is shown: "says 2, is 1"; or none
  std::vector<bool> wrong;         ///< of each node that is shown; or none
};

/// Of the first seed of each experiment and attention that has any.
/// @param notes  gets a note for a file that cannot be read
std::vector<GraphPicture> graph_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes);

/// A drawing: darker nodes have more of the chosen node's attention.
std::string graph_svg(const GraphPicture& picture);

/// One row for each graph, one drawing for each attention.
std::string graph_pictures_html(const std::vector<GraphPicture>& pictures);

}  // namespace attnlab
