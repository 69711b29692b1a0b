// A model's answers about one test graph, for the report.
#pragma once

#include "framework/base/json.h"
#include "framework/train/run.h"

namespace attnlab {

/// What framework/report/graph_pictures.h reads: the graph, or of a large one the nodes nearest to
/// the chosen one, what the model says, and the chosen node's attention in the last layer.
/// @param node  whose attention; -1: that with the most neighbours
/// @throws ConfigError for a node that the graph does not have.
nlohmann::json picture_of_graph(const BuiltRun& run, std::int64_t index, std::int64_t node);

}  // namespace attnlab
