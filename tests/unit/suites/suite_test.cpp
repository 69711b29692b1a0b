#include "framework/suites/suite.h"

#include <cmath>

#include "framework/manifest/option_lookup.h"
#include "framework/suites/suite_keys.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::suite_test {
namespace {

using namespace testing;
using nlohmann::json;

class SuiteTest : public WithMadeParts {
 protected:
  SuiteTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: {use: quest, eps: 0.5}\n"
                "task: sorting\ndataset: {use: pictures, root: real}\nseeds: [0, 1]\n");
    temp_.write("large.yaml", "extends: small.yaml\nmodel: {dim: 32}\n");
  }

  Suite load(const std::string& yaml, bool use_fallback = false,
             const std::vector<std::string>& overrides = {}) const {
    return load_suite(temp_.write("s.yaml", yaml), overrides, parts().catalogue(), temp_ / "runs",
                      use_fallback);
  }

  /// Why the suite is refused, with the temporary folder's name removed.
  std::string refusal(const std::string& yaml) const {
    std::string message = message_of<ConfigError>([&] { load(yaml); });
    const std::string prefix = temp_.path() + "/";
    for (std::size_t at = message.find(prefix); at != std::string::npos;
         at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  static void finish(const Cell& cell, RunState state, const std::map<std::string, double>& metrics,
                     const std::string& reason = "") {
    cell.folder.freeze(cell.experiment, cell.seed);
    cell.folder.write_status({state, 1, 1, 1, 2, metrics, reason});
    write_environment(cell.folder);
  }

  const TempFolder temp_;
};

const std::string kBoth = "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\n";

// ---- loading

TEST_F(SuiteTest, TakesAnAttentionByTheNameOfItsComposition) {
  temp_.write("configs/attention/soft.yaml", "use: quest\nas: soft\neps: 0.25\n");
  const InFolder inside(temp_.path());
  const Suite suite = load(
      "schema: 1\nattentions: [standard, soft, {use: soft, as: other, eps: 0.125}]\n"
      "experiments: [small.yaml]\nseeds: [0]\n");
  EXPECT_THAT(suite.attentions, ElementsAre("standard", "soft", "other"));
  ASSERT_EQ(suite.cells.size(), 3U);
  const Part& soft = suite.cells[1].experiment.attention;
  EXPECT_EQ(soft.name + " " + soft.label + " " + soft.options.at("eps").text(), "quest soft 0.25");
  EXPECT_THAT(suite.cells[1].folder.path(), HasSubstr("/small/soft/0-"));
  EXPECT_EQ(suite.cells[2].experiment.attention.options.at("eps").text(), "0.125");
}

TEST_F(SuiteTest, HasACellForEachExperimentAttentionAndSeed) {
  const Suite suite =
      load("schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n");
  EXPECT_EQ(suite.name, "s");
  EXPECT_EQ(suite.baseline, "standard") << "the first attention, unless another is named";
  EXPECT_THAT(suite.attentions, ElementsAre("standard", "quest"));
  EXPECT_THAT(suite.experiments, ElementsAre("small", "large"));
  std::vector<std::string> labels;
  for (const Cell& cell : suite.cells)
    labels.push_back(RunFolder::label(cell.experiment, cell.seed));
  EXPECT_THAT(labels, ElementsAre("small/standard/0", "small/standard/1", "small/quest/0",
                                  "small/quest/1", "large/standard/0", "large/standard/1",
                                  "large/quest/0", "large/quest/1"));
  EXPECT_THAT(suite.cells[0].folder.path(), StartsWith(temp_ / "runs/s/small/standard/0-"));
}

TEST_F(SuiteTest, KeepsTheExperimentsOptionsOfTheSamePluginOnly) {
  const Suite suite = load(kBoth);
  EXPECT_EQ(suite.cells[0].experiment.attention.options.find("eps"), nullptr);
  EXPECT_EQ(suite.cells[2].experiment.attention.options.at("eps").as_double(), 0.5);
}

TEST_F(SuiteTest, TellsVariantsOfOneAttentionApartByTheirLabels) {
  const Suite suite = load(
      "schema: 1\nattentions: [quest, {use: quest, as: quest-eps, eps: 0.25}, lab/standard]\n"
      "experiments: [small.yaml]\nseeds: [0]\n");
  EXPECT_THAT(suite.attentions, ElementsAre("quest", "quest-eps", "standard"));
  EXPECT_EQ(suite.cells[1].experiment.attention.label, "quest-eps");
  EXPECT_EQ(suite.cells[1].experiment.attention.options.at("eps").as_double(), 0.25);
  EXPECT_EQ(suite.cells[2].experiment.attention.label, "standard");
}

TEST_F(SuiteTest, UsesItsOwnLabelsWhateverTheExperimentCallsItsAttention) {
  temp_.write("named.yaml", "extends: small.yaml\nattention: {as: special}\n");
  const Suite suite = load("schema: 1\nattentions: [quest]\nexperiments: [named.yaml]\n");
  for (const Cell& cell : suite.cells) EXPECT_EQ(cell.experiment.attention.label, "quest");
}

TEST_F(SuiteTest, RefusesLabelsThatStandTwice) {
  EXPECT_EQ(refusal("schema: 1\nattentions: [quest, {use: quest, eps: 0.1}]\n"
                    "experiments: [small.yaml]\n"),
            "s.yaml:2:21: the attention 'quest' stands twice; tell them apart with `as: LABEL`");
}

TEST_F(SuiteTest, RefusesABaselineThatIsNoneOfItsAttentions) {
  EXPECT_EQ(refusal("baseline: standart\n" + kBoth),
            "s.yaml:1:11: baseline: 'standart' is none of the suite's attentions; did you mean "
            "'standard'?");
}

TEST_F(SuiteTest, RefusesAnExperimentThatStandsTwice) {
  temp_.write("other/small.yaml", "extends: ../small.yaml\nmodel: {dim: 9}\n");
  EXPECT_EQ(
      refusal("schema: 1\nattentions: [quest]\nexperiments: [small.yaml, other/small.yaml]\n"),
      "s.yaml:3:27: the experiment 'small' stands twice; tell different ones apart with "
      "`name:` in their files");
}

TEST_F(SuiteTest, ReportsItsOwnProblemsAndThoseOfItsCellsOnce) {
  temp_.write("bad.yaml", "extends: small.yaml\nmodel: {dmi: 8}\n");
  EXPECT_EQ(
      refusal("schema: 1\nattention: x\nset: 5\nname: a/b\nattentions: [standard, quest, {use: "
              "qest}]\nexperiments: [bad.yaml]\n"),
      "s.yaml:2:1: unknown key 'attention' of a suite; did you mean 'attentions'?\n"
      "s.yaml:3:6: set: expected a map of options, found 5\n"
      "s.yaml:4:7: name: expected a word without slashes\n"
      "bad.yaml:2:9: model: unknown key 'dmi' of model 'vit'; did you mean 'dim'?\n"
      "s.yaml:5:37: attention: there is no attention 'qest'; did you mean 'quest'? (attnlab "
      "list --explain shows where was looked)");
}

TEST_F(SuiteTest, SaysAllMistakesInOneGo) {
  temp_.write("bad.yaml",
              "extends: small.yaml\nmodel: {dmi: 8}\n"
              "evaluate: {fog: {sett: {dataset: {root: x}}}}\n");
  temp_.write("half.yaml", "extends: [small.yaml, gone.yaml]\n");
  const std::string refused = refusal(
      "schema: 1\n"
      "attentions: [standard, {us: quest}, {use: qest}]\n"
      "experiments: [smal.yaml, bad.yaml, half.yaml]\n"
      "set: {train: {epochs: none}, seeds-: [7], model: {dim: '${.dmi}'}}\n"
      "page: {titel: x, columns: [{domain: d, experiment: smal}]}\n"
      "skip: [{experiment: smal, seeds: [5]}]\n"
      "relative: {to: smal}\n");
  for (const char* mistake :
       {"s.yaml:2:24: attentions: expected a name or {use: NAME, as: LABEL, ...}, found {us: "
        "quest}\n",
        "s.yaml:2:43: attention: there is no attention 'qest'; did you mean 'quest'?",
        "s.yaml:3:15: experiments: smal.yaml: there is no such file",
        "half.yaml:1:23: gone.yaml: cannot read: No such file or directory",
        "bad.yaml:2:9: model: unknown key 'dmi' of model 'vit'; did you mean 'dim'?\n",
        "bad.yaml:3:18: evaluate.fog: unknown key 'sett' of an evaluation",
        "s.yaml:4:23: train.epochs: expected an integer, found none\n",
        "s.yaml:4:39: 'seeds' has no item 7 to remove", "s.yaml:5:8: page: unknown key 'titel'",
        "s.yaml:6:8: skip.reason: a suite needs a value"}) {
    EXPECT_THAT(refused, HasSubstr(mistake));
  }
  EXPECT_THAT(refused, Not(HasSubstr("none of the suite's"))) << "which are not all known";
}

TEST_F(SuiteTest, SaysWhatIsWrongBesideWhatComposingFinds) {
  EXPECT_THAT(refusal(kBoth + "seeds: ${sedes}\nset-: [x]\nwarnin: x\n"),
              AllOf(HasSubstr("s.yaml:4:8: ${sedes}"), HasSubstr("s.yaml:5:1: 'set-' removes"),
                    HasSubstr("s.yaml:6:1: unknown key 'warnin' of a suite")));
}

TEST_F(SuiteTest, NeedsAttentionsAndExperiments) {
  EXPECT_EQ(refusal("schema: 1\nexperiments: [small.yaml]\n"),
            "s.yaml:1:1: attentions: a suite needs a value (list): " +
                find_option(schema_of<SuiteKeys>(), "attentions")->help);
  EXPECT_EQ(refusal("schema: 1\nattentions: [quest]\nexperiments: []\n"),
            "s.yaml:3:14: experiments: a suite needs a value (list of string): files relative to "
            "this one, or names below `configs/experiments`");
  EXPECT_THAT(
      refusal("schema: 1\nattentions: [[quest]]\nexperiments: [small.yaml]\n"),
      StartsWith("s.yaml:2:14: attentions: expected a name or {use: NAME, as: LABEL, ...}"));
  EXPECT_THAT(refusal("schema: 1\nattentions: [quest]\nexperiments: [gone.yaml]\n"),
              StartsWith("s.yaml:3:15: experiments: gone.yaml: there is no such file"));
}

TEST_F(SuiteTest, ChangesEveryExperimentBySetAndSeeds) {
  const Suite suite = load(kBoth + "set: {train: {epochs: 2}, model: {dim: 4}}\nseeds: [7]\n");
  ASSERT_EQ(suite.cells.size(), 2u);
  EXPECT_EQ(suite.cells[0].seed, 7);
  EXPECT_EQ(suite.cells[0].experiment.train.epochs, 2);
  EXPECT_EQ(suite.cells[1].experiment.model.options.at("dim").as_int(), 4);
}

TEST_F(SuiteTest, TakesOverridesOfTheSuite) {
  const Suite suite =
      load(kBoth, false, {"set.train.epochs=5", "seeds=[9]", "attentions-=[quest]"});
  ASSERT_EQ(suite.cells.size(), 1u);
  EXPECT_EQ(suite.cells[0].experiment.train.epochs, 5);
}

TEST_F(SuiteTest, ReplacesDataByTheFallbackOnlyWhenAskedTo) {
  const std::string yaml = kBoth + "fallback: {dataset: {root: made-up}}\n";
  EXPECT_EQ(load(yaml).cells[0].experiment.dataset.options.at("root").text(), "real");
  const Suite fallen = load(yaml, true);
  EXPECT_EQ(fallen.cells[0].experiment.dataset.options.at("root").text(), "made-up");
  EXPECT_EQ(to_flow(fallen.fallback), "{dataset: {root: made-up}}");
  EXPECT_NE(fallen.cells[0].folder.path(), load(yaml).cells[0].folder.path())
      << "made-up data must not pass for real data";
}

TEST_F(SuiteTest, DoesNotReadReferencesTwice) {
  const Suite suite = load(kBoth + "set: {dataset: {root: '$${HOME}/x'}}\n");
  EXPECT_EQ(suite.cells[0].experiment.dataset.options.at("root").text(), "${HOME}/x");
}

// ---- absent cells

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
  EXPECT_EQ(refusal(kBoth + "skip: [{attention: qest, reason: x}]\n"),
            "s.yaml:4:8: skip: 'qest' is none of the suite's attentions; did you mean 'quest'?");
  EXPECT_EQ(refusal(kBoth + "skip: [{experiment: smal, reason: x}]\n"),
            "s.yaml:4:8: skip: 'smal' is none of the suite's experiments; did you mean 'small'?");
  EXPECT_EQ(refusal(kBoth + "skip: [{seeds: [5], reason: x}]\n"),
            "s.yaml:4:8: skip: no run has the seed 5; there is 0, 1");
  EXPECT_EQ(
      refusal(kBoth + "skip: [{attention: quest}]\n"),
      "s.yaml:4:8: skip.reason: a suite needs a value (string): what tables show in the place "
      "of the cells");
  EXPECT_EQ(refusal(kBoth + "skip: [{attenton: quest, reason: x}]\n"),
            "s.yaml:4:9: skip: unknown key 'attenton' of a suite; did you mean 'attention'?\n"
            "s.yaml:4:8: skip: names no cells; give experiment, attention or seeds");
  EXPECT_EQ(refusal(kBoth + "skip: [{experiment: small, reason: x}]\n"),
            "s.yaml:4:7: skip: leaves no cell to run; take an entry out");
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
  EXPECT_EQ(suite.absent[1].gap.reason,
            "attention 'quest' does not honour 'causal', which model 'lm' needs; choose another "
            "attention");
}

TEST_F(SuiteWithCausalModel, ASkippedIncompatibleCellIsSkipped) {
  const Suite suite = load(both_ + "skip: [{experiment: causal, attention: quest, reason: x}]\n");
  ASSERT_EQ(suite.absent.size(), 2U);
  EXPECT_EQ(suite.absent[0].gap.kind, Absence::skipped);
}

TEST_F(SuiteWithCausalModel, NothingThatFitsIsAnError) {
  EXPECT_THAT(refusal("schema: 1\nattentions: [quest]\nexperiments: [causal.yaml]\n"),
              EndsWith("attention 'quest' does not honour 'causal', which model 'lm' needs; choose "
                       "another attention"));
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
  EXPECT_THAT(text,
              HasSubstr("- small, standard, seed 1: stale: the file of attention 'standard'"));
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
  EXPECT_THAT(
      comparison.notes,
      ::testing::Contains("not compared: large, standard, quest, seeds 0, 1: skipped: slow"));
}

// ---- tables

TEST_F(SuiteTest, SummarisesMeanAndSampleDeviationOverFinishedSeeds) {
  const Suite suite = load(kBoth + "seeds: [0, 1, 2]\n");
  const double values[] = {0.5, 0.25, 0.9};
  for (int i = 0; i < 3; ++i) {
    finish(suite.cells[static_cast<std::size_t>(i)], RunState::done, {{"accuracy", values[i]}});
  }
  const std::vector<SuiteRow> rows = summarise(suite);
  ASSERT_EQ(rows.size(), 2u);
  const Summary& accuracy = rows[0].metrics.at("accuracy");
  EXPECT_EQ(accuracy.count, 3);
  EXPECT_NEAR(accuracy.mean, 0.55, 1e-12);                      // 1.65 / 3
  EXPECT_NEAR(accuracy.deviation, 0.32787192621510003, 1e-12);  // sqrt((.05^2 + .3^2 + .35^2) / 2)
  EXPECT_EQ(rows[0].states, (std::map<RunState, std::int64_t>{{RunState::done, 3}}));
  EXPECT_TRUE(rows[1].metrics.empty());
}

TEST_F(SuiteTest, LeavesSeedsThatAreNotDoneOutOfTheMean) {
  const Suite suite = load(kBoth + "seeds: [0, 1, 2, 3]\n");
  finish(suite.cells[0], RunState::done, {{"nll", 2.0}});
  finish(suite.cells[1], RunState::diverged, {{"nll", 1000.0}});
  finish(suite.cells[2], RunState::failed, {{"nll", 0.0}});
  const SuiteRow row = summarise(suite).front();
  EXPECT_EQ(row.metrics.at("nll").count, 1);
  EXPECT_EQ(row.metrics.at("nll").mean, 2.0);
  EXPECT_EQ(row.metrics.at("nll").deviation, 0.0);
  EXPECT_EQ(row.states, (std::map<RunState, std::int64_t>{{RunState::pending, 1},
                                                          {RunState::done, 1},
                                                          {RunState::diverged, 1},
                                                          {RunState::failed, 1}}));
}

TEST_F(SuiteTest, MarkdownShowsWhatIsMissingAsMissing) {
  Suite suite = load(kBoth + "name: tiny\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.9}, {"examples_per_second", 1234}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.8}, {"examples_per_second", 1244}});
  finish(suite.cells[2], RunState::diverged, {});
  suite.notes = {"made-up data"};
  EXPECT_EQ(suite_markdown(suite, summarise(suite), "attnlab suite s.yaml"),
            "# Suite tiny\n"
            "\n"
            "| experiment | attention           | accuracy (%) | examples_per_second | runs      "
            "            |\n"
            "|------------|---------------------|--------------|---------------------|-----------"
            "------------|\n"
            "| small      | standard (baseline) | 85.00 ± 7.07 | 1239.0 ± 7.1        | 2 done    "
            "            |\n"
            "| small      | quest               | -            | -                   | 1 pending, "
            "1 diverged |\n"
            "\n"
            "mean ± sample standard deviation over the seeds that are done\n"
            "\n"
            "**made-up data**\n"
            "\n"
            "Repeat it with\n"
            "\n"
            "    attnlab suite s.yaml\n");
}

TEST_F(SuiteTest, CountsNoValueThatIsNotFiniteAndMarksTheRun) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}, {"nll", std::nan("")}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.7}, {"nll", 2.0}});
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("nll").mean, 2.0);
  EXPECT_EQ(rows[0].metrics.at("nll").count, 1);
  EXPECT_EQ(rows[0].not_finite, 1);
  EXPECT_THAT(suite_markdown(suite, rows, "x"), HasSubstr("| 2 done (1 not finite) |"));
  EXPECT_EQ(json::parse(suite_json(suite, rows, "x")).at("rows").at(0).at("not_finite"), 1);
}

TEST_F(SuiteTest, GoesOnWithoutARunThatCannotBeRead) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  for (const Cell& cell : suite.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  const std::string status = suite.cells[1].folder.file("status.json"), whole = read_text(status);
  write_file(status, "{");
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("accuracy").count, 1);
  const std::string text = suite_markdown(suite, rows, "x");
  EXPECT_THAT(text, AllOf(HasSubstr("| 1 done, 1 unreadable |"),
                          HasSubstr(suite.cells[1].folder.path() + " cannot be read")));
  const json read = json::parse(suite_json(suite, rows, "x"));
  EXPECT_EQ(read.at("runs").at(1).at("state"), "unreadable");
  EXPECT_FALSE(complete(suite));
  write_file(status, whole);  // it could not be read for a moment
  EXPECT_TRUE(complete(suite));
  EXPECT_FALSE(json::parse(suite_json(suite, rows, "x")).at("complete"));
}

TEST_F(SuiteTest, ShowsTheHeadlineOfEachEvaluationAndMarksRunsTrainedTogether) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}, {"peak_memory", 3e9}});
    write_environment(cell.folder, {{"together", 2}});
    EvaluationRecord fog{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics};
    fog.metrics = {{"accuracy", 0.25}, {"nll", 3}};
    write_evaluation(cell.folder.path(), fog);
  }
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("fog/nll").mean, 3) << "for programs";
  EXPECT_THAT(suite_markdown(suite, rows, "x"),
              AllOf(HasSubstr("| accuracy (%) | fog/accuracy (%) | runs "), HasSubstr("| 25.00 "),
                    Not(HasSubstr("peak_memory (MB)")),
                    HasSubstr("trained together with others in one process (2 runs)")));
}

TEST_F(SuiteTest, CountsAndNamesEvaluationsThatFailed) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    EvaluationRecord fog{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics};
    fog.metrics = {{"accuracy", 0.25}};
    fog.done = cell.seed == 0 || cell.experiment.attention.label == "quest";
    if (!fog.done) fog.reason = "no memory";
    write_evaluation(cell.folder.path(), fog);
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              AllOf(HasSubstr("| 50.00 ± 0.00 | 25.00 (1 of 2)   | 2 done |"),
                    HasSubstr("| 50.00 ± 0.00 | 25.00 ± 0.00     | 2 done |"),
                    HasSubstr("\n- small/standard: evaluation fog: failed: no memory\n")));
}

TEST_F(SuiteTest, ShowsWhatIsADetailInOneExperimentWhereItIsAnothersHeadline) {
  const Suite suite = load(
      "schema: 1\nattentions: [standard]\nexperiments: [small.yaml, large.yaml]\nseeds: [0]\n");
  const std::vector<MetricInfo> loss_first = {kMadeMetrics[1], kMadeMetrics[0]};
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    EvaluationRecord fog{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics};
    if (cell.experiment.name == "large") fog.infos = loss_first;
    fog.metrics = {{"accuracy", 0.25}, {"nll", 3}};
    write_evaluation(cell.folder.path(), fog);
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              AllOf(HasSubstr("fog/accuracy (%)"), HasSubstr("fog/nll (nats)")));
}

TEST_F(SuiteTest, ShowsWhatIsPublishedOfAnEvaluationBesideItsHeadline) {
  const Suite suite = load(kBoth +
                           "seeds: [0]\nreference: {source: Paper, metric: fog/nll, values: "
                           "{small: {quest: 2.5}}}\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    EvaluationRecord fog{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics};
    fog.metrics = {{"accuracy", 0.25}, {"nll", 3}};
    write_evaluation(cell.folder.path(), fog);
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              HasSubstr("| fog/accuracy (%) | fog/nll (nats) | Paper | runs "));
}

TEST_F(SuiteTest, GivesMetricsAsSharesOfOneExperimentsValue) {
  const std::string yaml =
      "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n"
      "seeds: [0, 1]\nrelative: {to: small}\nreference:\n"
      "  - {source: Paper, values: {small: {quest: 88.9}}}\n"
      "  - {source: Paper, metric: relative/fog/accuracy, values: {small: {quest: 72.0}}}\n";
  const Suite suite = load(yaml);
  const auto finish_with = [&](const Cell& cell, double accuracy, double fog) {
    finish(cell, RunState::done, {{"accuracy", accuracy}});
    EvaluationRecord record{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics};
    record.metrics = {{"accuracy", fog}, {"nll", 3}};
    write_evaluation(cell.folder.path(), record);
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
  EXPECT_THAT(text, HasSubstr("of accuracy as small has it with the same attention and seed"));
  const json read = json::parse(suite_json(suite, rows, "x"));
  EXPECT_EQ(read.at("references").size(), 2U);
  EXPECT_EQ(read.at("rows").at(1).at("references").at(1).at("value"), 72.0);
  temp_.write("runs/s/suite.json", suite_record(suite, "x"));
  const Comparison comparison = compare_runs(find_runs({temp_ / "runs/s"}), {}, "");
  ASSERT_EQ(comparison.published.size(), 1U) << "of what is compared";
  EXPECT_EQ(comparison.published[0].metric, "accuracy");
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
  EXPECT_THAT(
      found.notes,
      ElementsAre(AllOf(HasSubstr("2 runs are left out, not of the suite as it was run last"),
                        HasSubstr("small/quest/1-"), HasSubstr("and others"))));
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
              AllOf(HasSubstr("relative.to: expected one of the suite's experiments; did you mean "
                              "'small'"),
                    HasSubstr("unknown key 'metrik' of a suite; did you mean 'metric'")));
}

TEST_F(SuiteTest, MarkdownClaimsNoSpreadOfOneSeed) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.9}});
  const std::string text = suite_markdown(suite, summarise(suite), "x");
  EXPECT_THAT(text, HasSubstr("| 90.00 "));
  EXPECT_THAT(text, Not(HasSubstr("90.00 ±")));
}

TEST_F(SuiteTest, JsonHoldsEveryRunWithItsStateAndReason) {
  const Suite suite = load(kBoth);
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.75}});
  finish(suite.cells[2], RunState::diverged, {{"nll", std::nan("")}}, "loss is nan");
  const json read = json::parse(suite_json(suite, summarise(suite), "again"));
  EXPECT_EQ(read.at("suite"), "s");
  EXPECT_EQ(read.at("baseline"), "standard");
  EXPECT_EQ(read.at("command"), "again");
  EXPECT_EQ(read.at("complete"), false);
  const json& accuracy = read.at("rows").at(0).at("metrics").at("accuracy");
  EXPECT_EQ(accuracy.at("mean"), 0.625);
  EXPECT_EQ(accuracy.at("n"), 2);
  EXPECT_NEAR(accuracy.at("sd").get<double>(), 0.17677669529663687, 1e-15);
  EXPECT_FALSE(read.at("rows").at(1).contains("metrics")) << "absent, not zero";
  EXPECT_EQ(read.at("rows").at(1).at("states"), json::parse(R"({"diverged": 1, "pending": 1})"));
  const json& diverged = read.at("runs").at(2);
  EXPECT_EQ(diverged.at("state"), "diverged");
  EXPECT_EQ(diverged.at("reason"), "loss is nan");
  EXPECT_TRUE(diverged.at("metrics").at("nll").is_null());
  EXPECT_EQ(diverged.at("folder"), suite.cells[2].folder.path());
  EXPECT_EQ(read.at("runs").at(3).at("state"), "pending");
}

TEST_F(SuiteTest, JsonHasNoDeviationOfOneSeed) {
  const Suite suite = load(kBoth);
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}});
  const json read = json::parse(suite_json(suite, summarise(suite), "again"));
  const json& accuracy = read.at("rows").at(0).at("metrics").at("accuracy");
  EXPECT_EQ(accuracy.at("n"), 1);
  EXPECT_TRUE(accuracy.at("sd").is_null()) << "not zero";
}

TEST_F(SuiteTest, IsCompleteWhenEveryCellIsDoneOrDiverged) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  EXPECT_FALSE(complete(suite));
  finish(suite.cells[0], RunState::done, {});
  finish(suite.cells[1], RunState::failed, {});
  EXPECT_FALSE(complete(suite));
  finish(suite.cells[1], RunState::diverged, {});
  EXPECT_TRUE(complete(suite));
}

}  // namespace
}  // namespace attnlab::suite_test
