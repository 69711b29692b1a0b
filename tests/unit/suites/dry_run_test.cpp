#include "framework/suites/dry_run.h"

#include "tests/support/made_parts.h"

namespace attnlab::dry_run_test {
namespace {

using namespace testing;

class DryRunTest : public ::testing::Test {
 protected:
  DryRunTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: vit\nattention: quest\ntask: sorting\ndataset: pictures\n");
  }
  Suite load(const std::string& more = "") const {
    return load_suite(temp_.write("s.yaml",
                                  "schema: 1\nattentions: [standard, quest]\n"
                                  "experiments: [small.yaml]\nseeds: [0, 1]\n" +
                                      more),
                      {}, parts_.catalogue(), temp_ / "runs");
  }
  /// Standard: 12 s and 1 GB per run; quest: 22 s and 2 GB.
  static SuiteForecast costs() {
    return {{{"small", "standard"}, {"d", 1000, 0, 10, 1.0, 2.0, 1'000'000'000}},
            {{"small", "quest"}, {"d", 1000, 0, 10, 2.0, 2.0, 2'000'000'000}}};
  }

  const MadeParts parts_;
  const TempFolder temp_;
};

TEST_F(DryRunTest, SumsWhatIsLeftToDo) {
  Suite suite = load();
  const TotalForecast all = total_of(suite, costs(), 2);
  EXPECT_EQ(all.runs, 4);
  EXPECT_DOUBLE_EQ(all.seconds, 2 * 12 + 2 * 22);
  EXPECT_DOUBLE_EQ(all.memory, 4e9) << "the two largest side by side";
  EXPECT_DOUBLE_EQ(all.seconds_with(2), 34);
  EXPECT_DOUBLE_EQ(all.seconds_with(100), 22) << "no run is shorter than itself";
  suite.cells[0].action = CellAction::finished;
  suite.cells[3].folder.freeze(suite.cells[3].experiment, 1);
  suite.cells[3].folder.write_status({RunState::interrupted, 5, 10, 1, 1, {}, ""});
  EXPECT_DOUBLE_EQ(total_of(suite, costs(), 1).seconds, 12 + 22 + 11) << "half of the last is done";
}

TEST_F(DryRunTest, DryRunCountsCellsOfEachKind) {
  Suite suite = load("skip: [{attention: quest, seeds: [1], reason: broken node}]\n");
  suite.cells[1].action = CellAction::stale;
  suite.cells[1].reason = "the file of attention 'standard' changed";
  const std::string text = dry_run_text(suite, costs(), 2, "");
  EXPECT_THAT(text, AllOf(StartsWith("dry run of s:"),
                          HasSubstr("4 runs: 2 to run, 1 stale, 1 skipped\n")));
  EXPECT_THAT(text, mentions("small/standard/1", "stale:", "'standard' changed"));
  EXPECT_THAT(text, HasSubstr("small, quest, seed 1: skipped: broken node"));
  EXPECT_THAT(text, mentions("2 runs to do", "34 s", "22 s with -j 2", "3.0 GB"));
}

TEST_F(DryRunTest, DryRunNamesEvaluationsThatItDoesNotCount) {
  EXPECT_THAT(dry_run_text(load(), costs(), 1, ""), Not(HasSubstr("not counted")));
  temp_.write("small.yaml",
              "schema: 1\nmodel: vit\nattention: quest\ntask: sorting\ndataset: pictures\n"
              "evaluate: {clean: {}, fog: {set: {}}, pgd: {set: {}}}\n");
  Suite suite = load();
  EXPECT_THAT(dry_run_text(suite, costs(), 1, ""), mentions("not counted:", "fog, pgd\n"));
  for (Cell& cell : suite.cells) cell.action = CellAction::finished;
  EXPECT_THAT(dry_run_text(suite, costs(), 1, ""), Not(HasSubstr("not counted")));
}

TEST_F(DryRunTest, NamesWhatCannotBeBuilt) {
  SuiteForecast known = costs();
  known[{"small", "quest"}].problem = "patch_size: 5 does not divide 28";
  EXPECT_THAT(dry_run_text(load(), known, 1, ""),
              mentions("small, quest cannot be built:", "patch_size: 5"));
}

TEST_F(DryRunTest, SaysWhetherTheSeedsCanReachTheLevel) {
  EXPECT_EQ(seeds_text(load()), "") << "nothing is compared";
  const std::string few = seeds_text(load("compare: {test: wilcoxon}\n"));
  EXPECT_THAT(few, AllOf(StartsWith("2 paired seeds"), HasSubstr("p = 0.5")));
  EXPECT_EQ(seeds_warning(load("compare: {test: wilcoxon}\n")), few);
  const Suite enough =
      load_suite(temp_ / "s.yaml", {"seeds=[0,1,2,3,4,5]", "compare={test: wilcoxon}"},
                 parts_.catalogue(), "runs");
  EXPECT_THAT(seeds_text(enough), AllOf(StartsWith("6 paired seeds"), HasSubstr("level 0.05")));
  EXPECT_EQ(seeds_warning(enough), "");
}

TEST_F(DryRunTest, PlansTheTestThatTheSeedsCanReachTheLevelWith) {
  EXPECT_EQ(load().planned_test, "t") << "two seeds";
  const Suite compared = load("compare: {metric: nll}\n");
  EXPECT_EQ(compared.compare->test, "t");
  EXPECT_EQ(seeds_warning(compared), "") << "it can be significant";
  EXPECT_EQ(load("compare: {test: wilcoxon}\n").planned_test, "") << "the suite's own word";
  load();
  const auto with = [&](const std::string& seeds) {
    return load_suite(temp_ / "s.yaml", {"seeds=" + seeds}, parts_.catalogue(), "runs");
  };
  EXPECT_EQ(with("[0,1,2,3,4,5,6,7,8,9]").planned_test, "") << "enough for Wilcoxon's";
  EXPECT_EQ(with("[0]").planned_test, "") << "no test is possible";
}

}  // namespace
}  // namespace attnlab::dry_run_test
