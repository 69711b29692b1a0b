// Cells that a suite leaves out or that do not fit, in tables and in comparisons.
#include "tests/unit/suites/made_suites.h"

namespace attnlab::suite_absence_test {
namespace {

using namespace testing;
using nlohmann::json;

const std::string kSkip = kBoth +
                          "skip:\n  - {experiment: small, attention: quest, seeds: [1], "
                          "reason: diverges at once}\n";

TEST_F(SuiteTest, LeavesSkippedCellsOutWithTheirReasons) {
  const Suite suite = load(kSkip);
  EXPECT_EQ(suite.cells.size(), 3U);
  ASSERT_EQ(suite.absent.size(), 1U);
  EXPECT_EQ(suite.absent[0].attention, "quest");
  EXPECT_EQ(suite.absent[0].seed, 1);
  EXPECT_EQ(suite.absent[0].gap.text(), "skipped: diverges at once");
}

TEST_F(SuiteTest, SkipsByLists) {
  const Suite suite = load(kBoth + "skip: [{attention: [quest], seeds: [0, 1], reason: x}]\n");
  EXPECT_EQ(suite.cells.size(), 2U);
  EXPECT_EQ(suite.absent.size(), 2U);
}

TEST_F(SuiteTest, RefusesSkipsOfUnknownCellsAndWithoutReasons) {
  EXPECT_THAT(refusal(kBoth + "skip: [{attention: qest, reason: x}]\n"),
              says({"s.yaml:4:8:", "skip:", "'qest'", "'quest'"}));
  EXPECT_THAT(refusal(kBoth + "skip: [{experiment: smal, reason: x}]\n"),
              says({"s.yaml:4:8:", "skip:", "'smal'", "'small'"}));
  EXPECT_THAT(refusal(kBoth + "skip: [{seeds: [5], reason: x}]\n"),
              says({"s.yaml:4:8:", "skip:", "seed 5", "0, 1"}));
  EXPECT_THAT(refusal(kBoth + "skip: [{attention: quest}]\n"),
              says({"s.yaml:4:8:", "skip.reason:", "needs a value (string)"}));
  EXPECT_THAT(refusal(kBoth + "skip: [{attenton: quest, reason: x}]\n"),
              says_lines({{"s.yaml:4:9:", "skip:", "'attenton'", "'attention'"},
                          {"s.yaml:4:8:", "skip:", "give experiment, attention or seeds"}}));
  EXPECT_THAT(refusal(kBoth + "skip: [{experiment: small, reason: x}]\n"),
              says({"s.yaml:4:7:", "skip:", "take an entry out"}));
}

class SuiteWithCausalModel : public SuiteTest {
 protected:
  SuiteWithCausalModel() {
    temp_.write("causal.yaml",
                "schema: 1\nmodel: lm\nattention: standard\ntask: sorting\ndataset: texts\n"
                "seeds: [0, 1]\n");
  }
  const std::string both_ =
      "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, causal.yaml]\n";
};

TEST_F(SuiteWithCausalModel, AnAttentionThatDoesNotFitIsAnAbsenceNotAnError) {
  const Suite suite = load(both_);
  EXPECT_EQ(suite.cells.size(), 6U);
  ASSERT_EQ(suite.absent.size(), 2U);
  EXPECT_EQ(suite.absent[1].experiment, "causal");
  EXPECT_EQ(suite.absent[1].gap.kind, Absence::incompatible);
  EXPECT_THAT(suite.absent[1].gap.reason,
              says({"'quest'", "'causal'", "'lm'", "choose another attention"}));
}

TEST_F(SuiteWithCausalModel, ASkippedIncompatibleCellIsSkipped) {
  const Suite suite = load(both_ + "skip: [{experiment: causal, attention: quest, reason: x}]\n");
  ASSERT_EQ(suite.absent.size(), 2U);
  EXPECT_EQ(suite.absent[0].gap.kind, Absence::skipped);
}

TEST_F(SuiteWithCausalModel, NothingThatFitsIsAnError) {
  EXPECT_THAT(refusal("schema: 1\nattentions: [quest]\nexperiments: [causal.yaml]\n"),
              mentions("'quest'", "'causal'", "'lm'", "choose another attention"));
}

TEST_F(SuiteWithCausalModel, AMistakeInTheFileStaysAnError) {
  EXPECT_THAT(refusal(both_ + "set: {train: {epohcs: 1}}\n"), HasSubstr("did you mean 'epochs'?"));
}

TEST_F(SuiteWithCausalModel, TablesShowWhatIsAbsentAndWhy) {
  Suite suite =
      load(both_ + "skip: [{experiment: small, attention: quest, seeds: [1], reason: slow}]\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.25}});
  suite.cells[1].action = CellAction::stale;
  suite.cells[1].reason = "the file of attention 'standard' changed";
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("accuracy").mean, 0.5) << "a stale run does not count";
  const std::string text = suite_markdown(suite, rows, "x");
  EXPECT_THAT(text, HasSubstr("| 1 done, 1 stale "));
  EXPECT_THAT(text, HasSubstr("| 1 pending, 1 skipped "));
  EXPECT_THAT(text, HasSubstr("| 2 incompatible "));
  EXPECT_THAT(text, HasSubstr("- causal, quest, seeds 0, 1: incompatible: attention 'quest' does"));
  EXPECT_THAT(text, HasSubstr("- small, quest, seed 1: skipped: slow\n"));
  EXPECT_THAT(text, mentions("- small, standard, seed 1: stale:", "'standard'"));
  const json read = json::parse(suite_json(suite, rows, "x"));
  EXPECT_EQ(read.at("absent").size(), 4U);
  EXPECT_EQ(read.at("runs").size(), 4U) << "without the stale one";
  EXPECT_EQ(read.at("rows").at(1).at("absences"), json({{"skipped", 1}}));
  EXPECT_FALSE(complete(suite));
}

TEST_F(SuiteWithCausalModel, ComparisonsGiveTheSameReasons) {
  Suite suite =
      load(both_ + "skip: [{experiment: small, attention: quest, seeds: [1], reason: slow}]\n");
  for (const Cell& cell : suite.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  temp_.write("runs/s/suite.json", suite_record(suite, "x"));
  const Comparison comparison = compare_runs(find_runs({temp_ / "runs/s"}), {}, "");
  std::map<std::string, std::string> gaps;
  for (const ComparisonRow& row : comparison.rows) {
    for (const SeedValue& seed : row.seeds) {
      if (!seed.gap) continue;
      gaps[row.experiment + "/" + row.attention + "/" + std::to_string(seed.seed)] =
          seed.gap.text();
    }
  }
  EXPECT_EQ(gaps.size(), 3U);
  EXPECT_EQ(gaps["small/quest/1"], "skipped: slow");
  EXPECT_THAT(gaps["causal/quest/0"], StartsWith("incompatible: attention 'quest' does not"));
}

TEST_F(SuiteTest, ComparisonsCountSeedsThatNoAttentionHas) {
  const Suite suite = load(kBoth + "seeds: [0, 1, 2]\nskip: [{seeds: [2], reason: slow}]\n");
  for (const Cell& cell : suite.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  temp_.write("runs/s/suite.json", suite_record(suite, "x"));
  const Comparison comparison = compare_runs(find_runs({temp_ / "runs/s"}), {}, "");
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              AllOf(HasSubstr("standard (baseline)  2 of 3 "),
                    HasSubstr("small/standard seed 2: skipped: slow\n"),
                    HasSubstr("small/quest seed 2: skipped: slow\n")));
}

TEST_F(SuiteTest, ComparisonsNameExperimentsThatNobodyRan) {
  const std::string both =
      "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n";
  const Suite suite = load(both + "skip: [{experiment: large, reason: slow}]\n");
  for (const Cell& cell : suite.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  temp_.write("runs/s/suite.json", suite_record(suite, "x"));
  const Comparison comparison = compare_runs(find_runs({temp_ / "runs/s"}), {}, "");
  EXPECT_THAT(comparison.experiments, ElementsAre("small"));
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(
                  mentions("not compared: large, standard, quest, seeds 0, 1:", "skipped: slow")));
}

// A suite over domains that is run part by part has hundreds of such runs.
TEST_F(SuiteTest, RunsThatWereNotChosenLastAreOneNote) {
  const std::string both = "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\n";
  const Suite all = load(both + "seeds: [0, 1]\n");
  for (const Cell& cell : all.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  const Suite narrow = load(both + "seeds: [0]\n");
  temp_.write("runs/s/suite.json", suite_record(narrow, "x"));
  const RunCollection found = find_runs({temp_ / "runs/s"});
  EXPECT_EQ(found.runs.size(), 2U);
  EXPECT_THAT(found.notes, ElementsAre(mentions("2 runs are left out", "run last", "small/quest/1-",
                                                "and others")));
}

}  // namespace
}  // namespace attnlab::suite_absence_test
