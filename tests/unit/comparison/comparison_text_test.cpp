// Comparisons of made-up runs as texts for people and as JSON.
#include <string>
#include <vector>

#include "tests/unit/comparison/made_comparison.h"

namespace attnlab::comparison_text_test {
namespace {

using namespace testing;
using nlohmann::json;

TEST_F(ComparisonTest, HasNoLineThatOthersWrote) {
  write_pair("small", {0.85, 0.86}, {0.87, 0.88});
  Comparison comparison = compare();
  comparison.notes = {"note\x1b[2J\n- forged", std::string(100'000, 'x')};
  comparison.left_out = {"e: \xe2\x80\xae\n## forged"};
  for (const TableStyle style : {TableStyle::text, TableStyle::markdown}) {
    const std::string text = comparison_text(comparison, style);
    EXPECT_THAT(text, HasSubstr("\n- note\\x1b[2J - forged\n"));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
    EXPECT_LT(text.size(), 10'000U);
  }
}

TEST_F(ComparisonTest, WritesForeignWordsAsPlainMarkdown) {
  write_pair("small", {0.85, 0.86}, {0.87, 0.88});
  Comparison comparison = compare();
  comparison.notes = {"see [the site](https://forged.example) <img src=x>"};
  EXPECT_THAT(comparison_text(comparison, TableStyle::markdown),
              HasSubstr("\n- see [the site\\](https://forged.example) \\<img src=x>\n"));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              HasSubstr("\n- see [the site](https://forged.example) <img src=x>\n"));
}

TEST_F(ComparisonTest, WritesTablesForPeople) {
  write_pair("small", {0.85, 0.86}, {0.87, 0.88});
  const std::string text = comparison_text(compare(), TableStyle::text);
  EXPECT_THAT(text, StartsWith("Comparison of accuracy (higher is better) with standard\n\n"
                               "experiment  attention            seeds   accuracy (%)"));
  EXPECT_THAT(text, HasSubstr("standard (baseline)  2 of 2  85.50 ± 0.71  [79.15, 91.85]"));
  EXPECT_THAT(text, HasSubstr("+2.00"));
  EXPECT_THAT(text, mentions("Wilcoxon", "pairs by seed", "Holm", "1 comparison", "level 0.05"));
  EXPECT_THAT(text, HasSubstr("95 % interval"));
  const std::string markdown = comparison_text(compare(), TableStyle::markdown);
  EXPECT_THAT(markdown, StartsWith("# Comparison of accuracy"));
  EXPECT_THAT(markdown, HasSubstr("| small      | quest     "));
}

/// A suite's record that gives published numbers, beside the runs that it names.
void write_published(const TempFolder& folder, const std::string& suite,
                     const std::vector<RunFolder>& runs, const json& reference) {
  json named = json::array();
  for (const RunFolder& run : runs) named.push_back({{"folder", run.path()}});
  folder.write(
      "runs/" + suite + "/suite.json",
      json({{"suite", suite}, {"baseline", "standard"}, {"reference", reference}, {"runs", named}})
          .dump());
}

TEST_F(ComparisonTest, PutsPublishedNumbersAndTheirDifferencesBesideItsOwn) {
  write_pair("small", {0.40, 0.42}, {0.48, 0.49});
  write_run("small", "{use: quest, as: other}", 0, done(0.4));
  write_published(
      temp_, "a", {},
      {{"source", "A paper"},
       {"metric", "accuracy"},
       {"values",
        {{"small", {{"standard", "42.00"}, {"quest", "49.18"}}}, {"other", {{"quest", "1"}}}}}});
  const Comparison comparison = compare();
  const std::string text = comparison_text(comparison, TableStyle::text);
  EXPECT_THAT(text, ::testing::ContainsRegex("95 % interval +A paper +examples_per_second"));
  EXPECT_THAT(text, ::testing::ContainsRegex("standard \\(baseline\\).*\\] +42.00 +1000"));
  EXPECT_THAT(text, ::testing::ContainsRegex("quest +2 +\\+7.50 .*\\] +\\+7.18 +"));
  EXPECT_THAT(text, ::testing::ContainsRegex("other +1 of 2 +40.00 +- +- +1000"));
  const json read = json::parse(comparison_json(comparison));
  ASSERT_EQ(read.at("rows").size(), 3U);
  EXPECT_FALSE(read.at("rows").at(1).contains("published")) << "other";
  EXPECT_EQ(read.at("rows").at(2).at("published"), json({{"A paper", 49.18}})) << "quest";
}

TEST_F(ComparisonTest, ShowsNoPublicationOfOtherMetricsOrExperiments) {
  write_pair("small", {0.40, 0.42}, {0.48, 0.49});
  const auto paper = [](const std::string& source, const std::string& metric,
                        const std::string& experiment) {
    return json(
        {{"source", source}, {"metric", metric}, {"values", {{experiment, {{"quest", "1.5"}}}}}});
  };
  write_published(temp_, "a", {}, paper("Paper A", "nll", "small"));
  write_published(temp_, "b", {}, paper("Paper B", "accuracy", "large"));
  write_published(temp_, "c", {}, {{"source", "Paper C"}, {"metric", "accuracy"}});
  EXPECT_THAT(compare().published, IsEmpty()) << "C is the record of an earlier version";
}

TEST_F(ComparisonTest, WritesEverythingForPrograms) {
  write_pair("a", {0.5, 0.6, 0.7}, {0.6, 0.8, 0.75});
  write_pair("b", {0.5, 0.6, 0.7}, {0.6, 0.8, 0.75});
  write_run("b", "quest", 3, ended(RunState::diverged, "nan"));
  const json read = json::parse(comparison_json(compare()));
  EXPECT_EQ(read.at("baseline"), "standard");
  EXPECT_EQ(read.at("better"), "higher");
  EXPECT_EQ(read.at("fair"), true);
  EXPECT_EQ(read.at("tests"), 2);
  ASSERT_EQ(read.at("rows").size(), 4U);
  const json& quest = read.at("rows").at(1);
  EXPECT_EQ(quest.at("attention"), "quest");
  EXPECT_EQ(quest.at("against_baseline").at("p"), 0.25);
  EXPECT_EQ(quest.at("against_baseline").at("adjusted_p"), 0.5);
  EXPECT_EQ(quest.at("against_baseline").at("verdict"), "out of reach");
  EXPECT_EQ(read.at("rows").at(3).at("seeds").at(3).at("absent"),
            json({{"kind", "diverged"}, {"reason", "nan"}}));
  EXPECT_EQ(read.at("ranking").at("mean_ranks"), json({2.0, 1.0}));
  EXPECT_EQ(read.at("ranking").at("not_told_apart").size(), 1U);
}

}  // namespace
}  // namespace attnlab::comparison_text_test
