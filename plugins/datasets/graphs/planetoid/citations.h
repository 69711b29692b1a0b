// The files of a citation graph, as Planetoid published them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/graph/graph_table.h"

namespace attnlab {

/// What the files say.
struct Citations {
  Tensor words;    ///< [papers, words] float32
  Tensor classes;  ///< [papers] int64, -1: not known
  std::vector<Edge> edges;
  std::int64_t class_count = 0, training = 0;
  std::vector<std::int64_t> test;  ///< papers
  std::string folder;
  std::uint64_t hash = 0;  ///< of all files
};

/// @param name  "cora"
/// @param root  the folder or the one above it; empty: below $ATTNLAB_DATA/graphs
/// @param normalise  divide each paper's words by their sum
/// @throws DataMissingError, DataError with the file for what is damaged or does not fit.
Citations read_citations(const std::string& name, const std::string& root, bool normalise);

}  // namespace attnlab
