// The values of a JSON text one after the other, each with where it stands: for files of which a
// message must name the line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/base/json.h"
#include "framework/data/text/text.h"

namespace attnlab {

/// One value that is neither a map nor a list.
struct JsonLeaf {
  const std::vector<std::string>& path;  ///< keys, and places in lists from 0: {"model", "merges"}
  const nlohmann::json& value;
  std::size_t at;  ///< byte of the text in which it ends
};

/// Calls `use` with every value, in their order; a key that stands twice comes twice.
/// @throws DataError, with file and line, for what is not JSON or nested more than 100 levels deep
void each_leaf(const TextPiece& file, const std::function<void(const JsonLeaf&)>& use);

}  // namespace attnlab
