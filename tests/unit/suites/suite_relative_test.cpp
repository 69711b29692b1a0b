// Metrics as shares of one experiment's value.
#include <algorithm>

#include "tests/unit/suites/made_suites.h"

namespace attnlab::suite_relative_test {
namespace {

using namespace testing;
using nlohmann::json;

TEST_F(SuiteTest, GivesMetricsAsSharesOfOneExperimentsValue) {
  const std::string yaml =
      "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n"
      "seeds: [0, 1]\nrelative: {to: small}\nreference:\n"
      "  - {source: Paper, values: {small: {quest: 88.9}}}\n"
      "  - {source: Paper, metric: relative/fog/accuracy, values: {small: {quest: 72.0}}}\n";
  const Suite suite = load(yaml);
  const auto finish_with = [&](const Cell& cell, double accuracy, double fog) {
    finish(cell, RunState::done, {{"accuracy", accuracy}});
    write_evaluation(cell.folder.path(), evaluated("fog", {{"accuracy", fog}, {"nll", 3}}));
  };
  for (const Cell& cell : suite.cells) {
    if (cell.experiment.attention.label == "standard") continue;
    const bool small = cell.experiment.name == "small";
    if (small && cell.seed == 0) finish_with(cell, 0.8, 0.6);
    if (small && cell.seed == 1) finish_with(cell, 0.5, 0.25);
    if (!small && cell.seed == 0) finish_with(cell, 0.4, 0.2);  // seed 1 has not run
  }
  const std::vector<SuiteRow> rows = summarise(suite);
  const auto row = [&](const std::string& experiment) {
    return *std::find_if(rows.begin(), rows.end(), [&](const SuiteRow& one) {
      return one.experiment == experiment && one.attention == "quest";
    });
  };
  const auto mean = [](const SuiteRow& one, const std::string& metric) {
    return one.metrics.at(metric).mean;
  };
  EXPECT_NEAR(mean(row("small"), "relative/fog/accuracy"), (0.75 + 0.5) / 2, 1e-12);
  EXPECT_EQ(row("small").metrics.count("relative/accuracy"), 0U) << "it is what others are of";
  EXPECT_NEAR(mean(row("large"), "relative/accuracy"), 0.5, 1e-12);
  EXPECT_EQ(row("large").metrics.at("relative/accuracy").count, 1);
  EXPECT_NEAR(mean(row("large"), "relative/fog/accuracy"), 0.25, 1e-12);
  EXPECT_EQ(row("large").metrics.count("relative/fog/nll"), 0U);
  const std::string text = suite_markdown(suite, rows, "x");
  EXPECT_THAT(text, HasSubstr("| accuracy (%)  | Paper (accuracy) | fog/accuracy (%) "));
  EXPECT_THAT(text,
              HasSubstr("| relative/fog/accuracy (%) | Paper (relative/fog/accuracy) | runs "));
  EXPECT_THAT(text, HasSubstr("| 62.50 ± 17.68             | 72.0 "));
  EXPECT_THAT(text, HasSubstr("accuracy as small has"));
  const json read = json::parse(suite_json(suite, rows, "x"));
  EXPECT_EQ(read.at("references").size(), 2U);
  EXPECT_EQ(read.at("rows").at(1).at("references").at(1).at("value"), 72.0);
  temp_.write("runs/s/suite.json", suite_record(suite, "x"));
  const Comparison comparison = compare_runs(find_runs({temp_ / "runs/s"}), {}, "");
  ASSERT_EQ(comparison.published.size(), 1U) << "of what is compared";
  EXPECT_EQ(comparison.published[0].metric, "accuracy");
}

TEST_F(SuiteTest, HasNoSharesOfAnExperimentThatWasLeftOutElsewhere) {
  const std::string both =
      "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n"
      "seeds: [0]\nrelative: {to: small}\n";
  EXPECT_TRUE(load(both).relative);
  const std::string file = temp_.write("s.yaml", both);
  const Catalogue& catalogue = parts().catalogue();
  EXPECT_FALSE(load_suite(file, {"experiments=[large.yaml]"}, catalogue, temp_ / "runs").relative);
  const std::string fewer =
      temp_.write("fewer.yaml", "extends: s.yaml\nexperiments: [large.yaml]\n");
  EXPECT_FALSE(load_suite(fewer, {}, catalogue, temp_ / "runs").relative);
}

TEST_F(SuiteTest, RefusesSharesOfWhatItDoesNotRun) {
  EXPECT_THAT(refusal(kBoth + "relative: {to: smal, metrik: accuracy}\n"),
              mentions("relative.to:", "'small'", "'metrik'", "'metric'"));
}

}  // namespace
}  // namespace attnlab::suite_relative_test
