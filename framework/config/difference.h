// What differs between two configurations, key by key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// A key whose values differ; a value that is missing has no node.
struct Difference {
  std::string key;  ///< from the top: "train.optimizer.lr"
  std::optional<Node> before, after;
};

/// Keys in the order of `before`, then what only `after` has. Maps are compared key by key, lists
/// as a whole. Numbers differ when their values do: 1e-3 is 0.001.
std::vector<Difference> differences(const Node& before, const Node& after);

}  // namespace attnlab
