// A list without repetition, in the order in which its items came.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace attnlab {

/// Cost: as many comparisons as there are items; for short lists.
inline void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace attnlab
