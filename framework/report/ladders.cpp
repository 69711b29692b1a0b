#include "framework/report/ladders.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "framework/base/text.h"

namespace attnlab {
namespace {

/// A name cut at the first of its parts that is a number, with something before and behind it.
struct NumberedName {
  std::string over, metric;
  double at = 0;
};

std::optional<double> number_of(std::string_view text) {
  const auto value = parsed_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<NumberedName> numbered(const std::string& name) {
  for (std::size_t begin = name.find('/'); begin != std::string::npos;) {
    const std::size_t end = name.find('/', begin + 1);
    if (end == std::string::npos) break;
    if (const auto at = number_of(std::string_view(name).substr(begin + 1, end - begin - 1))) {
      return NumberedName{name.substr(0, begin), name.substr(end + 1), *at};
    }
    begin = end;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Ladder> ladders_of(const std::vector<PooledCell>& cells) {
  std::map<std::tuple<std::size_t, std::string, std::string, std::string>, Ladder> found;
  for (const PooledCell& cell : cells) {
    for (const auto& [name, summary] : cell.metrics) {
      const auto parts = numbered(name);
      if (!parts) continue;
      Ladder& ladder = found[{cell.slice, parts->over, parts->metric, cell.attention}];
      ladder.slice = cell.slice;
      ladder.attention = cell.attention;
      ladder.over = parts->over;
      ladder.metric = parts->metric;
      ladder.rungs.push_back({parts->at, summary, name});
    }
  }
  std::vector<Ladder> out;
  for (auto& [key, ladder] : found) {
    if (ladder.rungs.size() < 2) continue;
    std::sort(ladder.rungs.begin(), ladder.rungs.end(),
              [](const Ladder::Rung& a, const Ladder::Rung& b) { return a.at < b.at; });
    out.push_back(std::move(ladder));
  }
  return out;
}

}  // namespace attnlab
