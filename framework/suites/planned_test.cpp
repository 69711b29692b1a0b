#include "framework/suites/planned_test.h"

#include <algorithm>
#include <map>
#include <set>

namespace attnlab {

std::pair<std::int64_t, std::int64_t> pairs_and_tests(const Suite& suite) {
  std::map<std::string, std::set<std::int64_t>> seeds;
  for (const Cell& cell : suite.cells) seeds[cell.experiment.name].insert(cell.seed);
  std::size_t most = 0;
  for (const auto& [experiment, list] : seeds) most = std::max(most, list.size());
  const std::size_t tests = (suite.attentions.size() - 1) * seeds.size();
  return {static_cast<std::int64_t>(most), static_cast<std::int64_t>(tests)};
}

void plan_test(Suite& suite, bool named) {
  if (named || suite.cells.empty() || suite.attentions.empty()) return;
  const auto [pairs, tests] = pairs_and_tests(suite);
  const CompareOptions options = suite.compare.value_or(CompareOptions{});
  const std::string test = test_for_plan(options, pairs, tests);
  if (test == options.test) return;
  suite.planned_test = test;
  if (suite.compare) suite.compare->test = test;
}

}  // namespace attnlab
