#include "framework/config/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace attnlab {
namespace {

/// "file:line:column" of a problem.
std::string place_of(const std::string& problem) {
  return problem.substr(0, std::min(problem.find(": "), problem.size()));
}

}  // namespace

void add_problem(Problems& problems, const Place& place, const std::string& what) {
  const std::string where = place.str();
  problems.push_back(where.empty() ? what : fmt::format("{}: {}", where, what));
}

void add_elsewhere(Problems& problems, const Problems& before, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool there = std::any_of(before.begin(), before.end(), [&](const std::string& problem) {
      return place_of(problem) == place_of(line);
    });
    if (!there) problems.push_back(line);
  }
}

}  // namespace attnlab
