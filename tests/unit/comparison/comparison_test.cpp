// Comparisons of made-up runs: what is tested, and why a number is missing.
#include "framework/comparison/comparison.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/comparison/made_comparison.h"

namespace attnlab::comparison_test {
namespace {

using namespace testing;
using nlohmann::json;

// ---- numbers

TEST_F(ComparisonTest, PairsRunsBySeed) {
  write_pair("small", {0.50, 0.60, 0.70, 0.40}, {0.52, 0.61, 0.73, 0.44});
  const Comparison comparison = compare();
  const Contrast& contrast = *row(comparison, "small", "quest").contrast;
  EXPECT_EQ(contrast.difference.count, 4);
  EXPECT_NEAR(contrast.difference.mean, 0.025, 1e-12);
  EXPECT_NEAR(contrast.difference.deviation, std::sqrt(5e-4 / 3), 1e-10);
  // The t quantile 0.975 with 3 degrees of freedom is 3.18245.
  EXPECT_NEAR(contrast.interval->low, 0.025 - 3.182446 * std::sqrt(5e-4 / 3) / 2, 1e-7);
  EXPECT_NEAR(*contrast.dz, 0.025 / std::sqrt(5e-4 / 3), 1e-8);
  EXPECT_EQ(*contrast.rank_biserial, 1);
  EXPECT_EQ(contrast.test->p_value, 0.125);
  EXPECT_FALSE(contrast.significant);
  EXPECT_FALSE(row(comparison, "small", "standard").contrast.has_value());
  const ComparisonRow& standard = row(comparison, "small", "standard");
  EXPECT_NEAR(standard.summary.mean, 0.55, 1e-12);
  EXPECT_NEAR(standard.interval->high, 0.55 + 3.182446 * std::sqrt(0.05 / 3) / 2, 1e-6);
}

TEST_F(ComparisonTest, CallsARankedDifferenceAsItsRanksSay) {
  std::vector<double> standard(20, 0.5), quest(20, 0.6);
  for (std::size_t i = 0; i < quest.size(); ++i) quest[i] += 0.001 * double(i);
  quest[7] = -20;  // and the mean lies below the baseline's
  write_pair("small", standard, quest);
  const Comparison comparison = compare();
  const ComparisonRow& found = row(comparison, "small", "quest");
  EXPECT_LT(found.contrast->difference.mean, 0);
  EXPECT_TRUE(found.contrast->significant);
  EXPECT_TRUE(found.improves());
  EXPECT_EQ(verdict_text(comparison, found), "better");
}

TEST_F(ComparisonTest, CorrectsOverAllItsTests) {
  std::vector<double> low, high, mixed;
  for (int i = 0; i < 7; ++i) {
    low.push_back(0.5 + 0.01 * i);
    high.push_back(0.6 + 0.011 * i);
    mixed.push_back(0.5 + 0.01 * i + (i % 2 == 0 ? 0.005 : -0.004) * (i + 1));
  }
  write_pair("large", low, high);
  write_pair("small", low, mixed);
  const Comparison corrected = compare();
  EXPECT_EQ(corrected.tests, 2);
  const Contrast& clear = *row(corrected, "large", "quest").contrast;
  EXPECT_EQ(clear.test->p_value, 0.015625);
  EXPECT_EQ(clear.adjusted_p, 0.03125);
  EXPECT_TRUE(clear.significant);
  EXPECT_FALSE(row(corrected, "small", "quest").contrast->significant);
  CompareOptions plain;
  plain.correct = "none";
  EXPECT_EQ(row(compare(plain), "large", "quest").contrast->adjusted_p, 0.015625);
  EXPECT_THAT(comparison_text(corrected, TableStyle::text), HasSubstr("better"));
}

TEST_F(ComparisonTest, SaysWhenSeedsAreTooFewToShowAnything) {
  write_pair("small", {0.1, 0.2, 0.3, 0.4, 0.5}, {0.2, 0.31, 0.42, 0.53, 0.64});
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.notes.size(), 1U);
  EXPECT_THAT(comparison.notes[0],
              says({"5 paired seeds", "p = 0.0625", "'wilcoxon'", "level 0.05", "6 seeds"}));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text), HasSubstr("out of reach"));
  EXPECT_THAT(compare_by("t").notes, IsEmpty());
  EXPECT_THAT(reach_note({}, 6, 2),
              says({"6 paired seeds", "p = 0.0312", "'wilcoxon'", "0.0625 after Holm",
                    "2 comparisons", "level 0.05", "7 seeds"}));
  EXPECT_EQ(reach_note({}, 7, 2), "");
}

TEST_F(ComparisonTest, ClaimsNoChoiceOfATestBeforeRunsThatItCannotKnow) {
  json runs = json::array();
  for (const char* attention : {"standard", "quest"}) {
    for (const std::int64_t seed : {0, 1}) {
      const RunFolder folder = write_run("small", attention, seed, done(0.5));
      runs.push_back({{"folder", folder.path()}});
    }
  }
  const json suite = {
      {"suite", "s"}, {"baseline", "standard"}, {"planned_test", "t"}, {"runs", runs}};
  temp_.write("runs/suite.json", suite.dump());
  EXPECT_THAT(compare_by("t").notes,
              ElementsAre(mentions("t test", "number of seeds", "added or removed")));
  EXPECT_THAT(compare().notes, ElementsAre(HasSubstr("cannot go below"))) << "another test";
}

TEST_F(ComparisonTest, PromisesNoNumberOfSeedsWhereNoneIsEnough) {
  CompareOptions drawn;
  drawn.test = "permutation";
  drawn.level = 1e-6;
  EXPECT_THAT(reach_note(drawn, 25, 1),
              says({"25 paired seeds", "p = 1e-05", "'permutation'", "level 1e-06"}));
  EXPECT_THAT(reach_note(drawn, 25, 1), Not(HasSubstr("it takes")));
  EXPECT_THAT(reach_note(drawn, 5, 1), Not(HasSubstr("it takes")));
  drawn.level = 5e-6;
  EXPECT_THAT(reach_note(drawn, 25, 1), Not(HasSubstr("it takes"))) << "19 would be enough";
  EXPECT_THAT(reach_note(drawn, 5, 1), HasSubstr("it takes 19 seeds"));
}

// ---- the baseline

TEST_F(ComparisonTest, OfOneAttentionAloneNeedsNoBaseline) {
  write_pair("small", {}, {0.7, 0.8});
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.attentions, ElementsAre("quest"));
  EXPECT_EQ(row(comparison, "small", "quest").summary.mean, 0.75);
  EXPECT_EQ(comparison.tests, 0);
  EXPECT_THAT(message_of<ConfigError>([&] { compare({}, "qest"); }),
              mentions("no run", "baseline 'qest'"))
      << "what is asked for must be there";
}

TEST_F(ComparisonTest, SuggestsBaselines) {
  write_pair("small", {0.5}, {0.6});
  EXPECT_THAT(message_of<ConfigError>([&] { compare({}, "standart"); }),
              HasSubstr("did you mean 'standard'?"));
  EXPECT_EQ(compare({}, "quest").attentions, (std::vector<std::string>{"quest", "standard"}));
}

TEST_F(ComparisonTest, KnowsWhenTheBaselineIsMissing) {
  write_pair("small", {0.5, 0.6}, {0.6, 0.7});
  write_run("large", "quest", 0, done(0.5));
  const Contrast contrast = *row(compare(), "large", "quest").contrast;
  EXPECT_EQ(contrast.gap.text(), "no baseline: no run");
}

// ---- absences

TEST_F(ComparisonTest, GivesEveryEmptyCellItsReason) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 1, ended(RunState::interrupted));
  write_run("small", "standard", 2, ended(RunState::running));
  write_run("small", "quest", 0, ended(RunState::diverged, "loss is nan at step 3"));
  write_run("small", "quest", 1, ended(RunState::failed, "killed by signal 9 (Killed)"));
  RunStatus infinite = done(0.5);
  infinite.metrics["accuracy"] = std::nan("");
  write_run("small", "quest", 3, infinite);
  write_run("small", "quest", 4, ended(RunState::pending));
  const Comparison comparison = compare();
  const auto kinds = [&](const std::string& attention) {
    std::vector<std::string> names;
    for (const SeedValue& seed : row(comparison, "small", attention).seeds) {
      names.emplace_back(name_of(seed.gap.kind));
    }
    return names;
  };
  EXPECT_THAT(kinds("standard"), ElementsAre("", "interrupted", "running", "no run", "no run"));
  EXPECT_THAT(kinds("quest"), ElementsAre("diverged", "failed", "no run", "not finite", "pending"));
  const ComparisonRow& quest = row(comparison, "small", "quest");
  EXPECT_THAT(quest.gap.text(), says({"diverged:", "nan at step 3"}));
  EXPECT_EQ(quest.contrast->gap.kind, Absence::diverged);
  EXPECT_FALSE(quest.contrast->test.has_value());
  EXPECT_EQ(comparison.tests, 0) << "what is not tested is not corrected for";
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              AllOf(Not(HasSubstr("nan,")),
                    mentions("small/quest seed 0:", "diverged: loss is nan at step 3\n",
                             "small/quest seed 1:", "killed by signal 9 (Killed)\n",
                             "small/standard seeds 3, 4: no run\n")));
}

TEST_F(ComparisonTest, NeedsTwoPairs) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 1, done(0.5));
  write_run("small", "quest", 1, done(0.7));
  write_run("small", "quest", 2, done(0.7));
  const Comparison comparison = compare();
  const Contrast& contrast = *row(comparison, "small", "quest").contrast;
  EXPECT_THAT(contrast.gap.text(), says({"too few pairs:", "1 of the two"}));
  EXPECT_NEAR(contrast.difference.mean, 0.2, 1e-12);
  EXPECT_FALSE(contrast.interval.has_value());
}

TEST_F(ComparisonTest, TestsNoDifferencesWithoutSpreadByT) {
  write_pair("small", {0.5, 0.6, 0.7}, {0.6, 0.7, 0.8});
  EXPECT_EQ(row(compare_by("t"), "small", "quest").contrast->gap.kind, Absence::no_spread);
}

TEST_F(ComparisonTest, KnowsAnAttentionThatDoesNotFit) {
  write_pair("small", {0.5, 0.6}, {0.6, 0.7});
  write_run("lm", "standard", 0, done(0.5));
  const Gap gap = row(compare(), "lm", "quest").gap;
  EXPECT_EQ(gap.kind, Absence::incompatible);
  EXPECT_THAT(gap.reason, says({"'quest'", "'causal'", "'lm'", "choose another attention"}));
  const Comparison blind = compare_runs(find_runs({root()}), {}, "");
  EXPECT_EQ(row(blind, "lm", "quest").gap.kind, Absence::no_run) << "without plugins to ask";
}

TEST(CompareSection, IsCheckedLikeAnyOther) {
  const CompareOptions options =
      compare_options(parse_yaml("{test: permutation, pair: seed, correct: none}", "s.yaml"));
  EXPECT_EQ(options.test, "permutation");
  EXPECT_EQ(options.correct, "none");
  EXPECT_EQ(options.level, 0.05);
  const std::string message = message_of<ConfigError>(
      [] { compare_options(parse_yaml("{tset: t, correct: bonferroni, level: 5}", "s.yaml")); });
  EXPECT_THAT(message, AllOf(HasSubstr("s.yaml:1:2: compare: unknown key 'tset'"),
                             HasSubstr("did you mean 'test'?"), HasSubstr("compare.correct"),
                             HasSubstr("compare.level: 5 is out of range")));
}

}  // namespace
}  // namespace attnlab::comparison_test
