#include "framework/config/problems.h"

#include <fmt/format.h>

namespace attnlab {

void add_problem(Problems& problems, const Place& place, const std::string& what) {
  const std::string where = place.str();
  problems.push_back(where.empty() ? what : fmt::format("{}: {}", where, what));
}

}  // namespace attnlab
