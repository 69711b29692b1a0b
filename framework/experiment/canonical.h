// canonical_text (identity.h) of a part of a tree.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// The keys of maps that lead to an entry, its own last.
using KeyPath = std::vector<std::string_view>;

/// @param without  asked for the entries of maps outside lists: whether one is left out
std::string canonical_text(const Node& node,
                           const std::function<bool(const KeyPath&, const Node&)>& without);

}  // namespace attnlab
