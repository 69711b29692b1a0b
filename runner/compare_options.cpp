#include "runner/compare_options.h"

#include <fmt/format.h>

#include "framework/comparison/metric_choice.h"

namespace attnlab {

namespace po = boost::program_options;

void add_compare_options(Usage& usage, bool metrics) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  auto add = usage.options.add_options();
  add("baseline", text("LABEL"), "attention to compare with; default: the suite's, else standard");
  if (metrics) {
    add("metric", text("NAME"), "or headline (default): what each experiment's task is judged by");
    add("better", text("WHICH"), "higher or lower; default: as the task states");
  }
  add("test", text("NAME"), "wilcoxon, t or permutation; default: the suite's, else wilcoxon");
  add("correct", text("NAME"), "holm (default) or none");
  add("level", text("P"), "significance level; default: 0.05");
}

RunCollection runs_to_compare(const Words& folders) {
  RunCollection collection = find_runs(folders);
  if (!collection.runs.empty()) return collection;
  throw ConfigError(folders.front() +
                    ": no run belongs to the present suite; run the suite, or name the runs' own "
                    "folders");
}

Node compare_section(const RunCollection& collection, const Arguments& arguments) {
  Node section = Node::map();
  for (const SuiteRecord& suite : collection.suites) {
    if (suite.compare.is_null()) continue;
    if (!section.entries().empty() && to_flow(section) != to_flow(suite.compare)) {
      throw ConfigError(
          fmt::format("the suites {} and {} compare in different ways; compare one at a time",
                      collection.suites.front().folder, suite.folder));
    }
    section = suite.compare;
  }
  for (const SuiteRecord& suite : collection.suites) {
    if (suite.planned_test.empty() || section.find("test") != nullptr) continue;
    section.set("test", Node::scalar(suite.planned_test, Place{suite.folder, 0, 0}));
  }
  // A suite says of its own metric which values are better.
  const Node* const own = section.find("metric");
  const std::string metric = own == nullptr ? kHeadline : own->text();
  if (arguments.text("metric", metric) != metric) section.erase("better");
  for (const char* key : {"metric", "test", "correct", "level", "better"}) {
    if (!arguments.has(key)) continue;
    const Place place{std::string("--") + key, 0, 0};
    section.set(key, Node::scalar(arguments.text(key, ""), place));
  }
  return section;
}

}  // namespace attnlab
