#include "runner/compare_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/comparison/metric_choice.h"

namespace attnlab {

namespace po = boost::program_options;

void add_compare_options(Usage& usage, bool metrics) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  auto add = usage.options.add_options();
  add("baseline", text("LABEL"), "attention to compare with; default: the suite's, else standard");
  if (metrics) {
    add("metric", text("NAME"),
        "a metric, or headline (default): the metric that each task is judged by");
    add("better", text("WHICH"), "higher or lower; default: as the task states");
  }
  add("test", text("NAME"), "wilcoxon, t or permutation; default: the suite's, else wilcoxon");
  add("correct", text("NAME"), "correction for several comparisons: holm (default) or none");
  add("level", text("P"), "significance level; default: 0.05");
}

void add_pair_option(Usage& usage) {
  usage.options.add_options()("pair", po::value<std::string>()->value_name("seed|example"),
                              "example: also test answers to the same examples, from the "
                              "predictions that evaluations kept");
}

RunCollection runs_to_compare(const Words& folders) {
  RunCollection collection = find_runs(folders);
  if (!collection.runs.empty()) return collection;
  throw ConfigError(folders.front() +
                    ": no run belongs to the present suite; run the suite, or name the runs' own "
                    "folders");
}

namespace {

/// What suites planned for their seeds, where none names a test: of several only what all planned.
void take_planned_test(const std::vector<SuiteRecord>& suites, Node& section) {
  const auto names_one = [](const SuiteRecord& suite) {
    return suite.planned_test.empty() && suite.compare.find("test") != nullptr;
  };
  if (suites.empty() || std::any_of(suites.begin(), suites.end(), names_one)) return;
  const SuiteRecord& first = suites.front();
  const bool alike = std::all_of(suites.begin(), suites.end(), [&](const SuiteRecord& suite) {
    return suite.planned_test == first.planned_test;
  });
  section.erase("test");  // a suite's section holds what it planned
  if (!alike || first.planned_test.empty()) return;
  section.set("test", Node::scalar(first.planned_test, Place{first.folder, 0, 0}));
}

}  // namespace

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
  take_planned_test(collection.suites, section);
  // A suite says of its own metric which values are better.
  const Node* const own = section.find("metric");
  const std::string metric = own == nullptr ? kHeadline : own->text();
  if (arguments.text("metric", metric) != metric) section.erase("better");
  for (const char* key : {"metric", "test", "pair", "correct", "level", "better"}) {
    if (!arguments.has(key)) continue;
    const Place place{std::string("--") + key, 0, 0};
    section.set(key, Node::scalar(arguments.text(key, ""), place));
  }
  return section;
}

}  // namespace attnlab
