// Collections of graphs in the two layouts in which they are published.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/contracts/dataset.h"

namespace attnlab {

struct GraphFiles {
  std::vector<NamedTensors> graphs;  ///< edges sorted
  std::vector<FieldInfo> fields;
  std::vector<std::string> class_names;  ///< as the files call them; empty: values to predict
  std::uint64_t hash = 0;                ///< of all that was read
};

/// NAME_A.txt and its companions: https://chrsmrrs.github.io/datasets/docs/format
/// @throws DataError with file and line.
GraphFiles read_tu_files(const std::string& folder, const std::string& name);

/// NAME.txt, a block a graph: https://github.com/muhanzhang/pytorch_DGCNN
///   graphs
///   nodes class
///   label neighbours neighbour neighbour ... [attribute ...]      one line per node
/// @throws DataError with file and line.
GraphFiles read_dgcnn_file(const std::string& folder, const std::string& name);

/// Values as 0, 1, ... in their order. @param names  gets what each stands for
std::vector<std::int64_t> categories_of(const std::vector<std::int64_t>& values,
                                        std::vector<std::string>& names);

}  // namespace attnlab
