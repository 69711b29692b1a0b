// What a suite says of its comparison, and the command line over it.
#include "runner/compare_options.h"

#include <gtest/gtest.h>

#include "framework/comparison/comparison.h"
#include "framework/config/compose.h"

namespace attnlab::compare_options_test {
namespace {

/// What is compared and how, of a suite with such a section. @param words  of the command line
CompareOptions options_of(const std::string& section, const Words& words) {
  RunCollection collection;
  collection.suites.emplace_back();
  collection.suites.front().compare = parse_yaml(section, "suite.yaml");
  Usage usage;
  usage.most_words = kAnyNumber;
  add_compare_options(usage);
  return compare_options(compare_section(collection, parse_arguments(words, usage)));
}

TEST(CompareOptions, OfASuiteSayOfItsOwnMetricAloneWhichValuesAreBetter) {
  const std::string suite = "{metric: perplexity, better: lower, test: t}";
  EXPECT_EQ(options_of(suite, {}).better, "lower");
  EXPECT_EQ(options_of(suite, {"--metric", "perplexity"}).better, "lower");
  const CompareOptions other = options_of(suite, {"--metric", "accuracy"});
  EXPECT_EQ(other.metric, "accuracy");
  EXPECT_EQ(other.better, "auto");
  EXPECT_EQ(other.test, "t") << "the rest stays";
  EXPECT_EQ(options_of(suite, {"--metric", "accuracy", "--better", "higher"}).better, "higher");
  EXPECT_EQ(options_of(suite, {"--better", "higher"}).metric, "perplexity");
  EXPECT_EQ(options_of("{better: lower}", {"--metric", "accuracy"}).better, "auto");
}

TEST(CompareOptions, PairByExampleWhereTheSuiteOrTheCommandLineSaysSo) {
  const auto pair_of = [](const std::string& section, const Words& words) {
    RunCollection collection;
    collection.suites.emplace_back();
    collection.suites.front().compare = parse_yaml(section, "suite.yaml");
    Usage usage;
    add_compare_options(usage);
    add_pair_option(usage);
    return compare_options(compare_section(collection, parse_arguments(words, usage))).pair;
  };
  EXPECT_EQ(pair_of("{test: t}", {}), "seed");
  EXPECT_EQ(pair_of("{pair: example}", {}), "example");
  EXPECT_EQ(pair_of("{pair: seed}", {"--pair", "example"}), "example");
  EXPECT_THROW(pair_of("{}", {"--pair", "examples"}), ConfigError);
}

TEST(CompareOptions, TakeTheTestThatASuitePlannedWhereNobodyNamesOne) {
  const auto test_of = [](const std::string& section, const Words& words,
                          const std::string& first_planned = "t") {
    RunCollection collection;
    collection.suites.resize(2);
    if (!section.empty()) collection.suites[0].compare = parse_yaml(section, "suite.yaml");
    collection.suites[0].planned_test = first_planned;
    collection.suites[1].planned_test = "t";
    Usage usage;
    add_compare_options(usage);
    return compare_options(compare_section(collection, parse_arguments(words, usage))).test;
  };
  EXPECT_EQ(test_of("", {}), "t");
  EXPECT_EQ(test_of("", {"--test", "wilcoxon"}), "wilcoxon");
  EXPECT_EQ(test_of("{test: permutation}", {}, ""), "permutation") << "a suite names one";
  EXPECT_EQ(test_of("{level: 0.1}", {}), "t");
  EXPECT_EQ(test_of("", {}, ""), "wilcoxon") << "one suite planned none: its seeds are enough";
  EXPECT_EQ(test_of("{level: 0.1}", {}, ""), "wilcoxon");
}

TEST(CompareOptions, TakeNoTestFromTheSectionOfASuiteThatPlannedItForItself) {
  RunCollection collection;
  collection.suites.resize(2);
  collection.suites[0].compare = parse_yaml("{test: t, level: 0.1}", "suite.json");
  collection.suites[0].planned_test = "t";
  const auto options = [&] {
    Usage usage;
    add_compare_options(usage);
    return compare_options(compare_section(collection, parse_arguments({}, usage)));
  };
  EXPECT_EQ(options().test, "wilcoxon");
  EXPECT_EQ(options().level, 0.1) << "the rest stays";
  collection.suites.pop_back();
  EXPECT_EQ(options().test, "t") << "of that suite alone";
}

}  // namespace
}  // namespace attnlab::compare_options_test
