// Comparisons of made-up runs: what is fair, what is tested, and why a number is missing.
#include "framework/comparison/comparison.h"

#include <cmath>

#include "tests/support/run_folders.h"

namespace attnlab::comparison_test {
namespace {

using namespace testing;
using nlohmann::json;

class ComparisonTest : public WithRunFolders {
 protected:
  static RunStatus done(double accuracy) {
    RunStatus status;
    status.state = RunState::done;
    status.metrics = {{"accuracy", accuracy}, {"examples_per_second", 1000 + accuracy}};
    return status;
  }
  /// Standard and quest with one value a seed.
  void write_pair(const std::string& experiment, const std::vector<double>& standard,
                  const std::vector<double>& quest) const {
    for (std::size_t i = 0; i < standard.size(); ++i) {
      write_run(experiment, "standard", static_cast<std::int64_t>(i), done(standard[i]));
    }
    for (std::size_t i = 0; i < quest.size(); ++i) {
      write_run(experiment, "quest", static_cast<std::int64_t>(i), done(quest[i]));
    }
  }

  Comparison compare(const CompareOptions& options = {}, const std::string& baseline = "") const {
    return compare_runs(find_runs({root()}), options, baseline, &parts().catalogue());
  }
  /// Standard and quest on data with a fingerprint.
  void write_on_data(const std::string& experiment, std::int64_t seed,
                     const std::string& data) const {
    for (const char* attention : {"standard", "quest"}) {
      write_environment(write_run(experiment, attention, seed, done(0.5)),
                        {{"data", {{"fingerprint", data}}}});
    }
  }
  static const ComparisonRow& row(const Comparison& comparison, std::string_view experiment,
                                  std::string_view attention) {
    for (const ComparisonRow& row : comparison.rows) {
      if (row.experiment == experiment && row.attention == attention) return row;
    }
    throw std::runtime_error("no row " + std::string(experiment) + "/" + std::string(attention));
  }
};

// ---- fairness

TEST_F(ComparisonTest, OfRunsThatDifferInTheAttentionAloneIsFair) {
  write_pair("small", {0.5, 0.6}, {0.7, 0.8});
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_EQ(comparison.runs, 4U);
  EXPECT_GT(comparison.values, 20U) << "every option of model, task, dataset and training";
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              mentions("frozen configurations", "4 runs agree"));
}

TEST_F(ComparisonTest, NamesEveryOtherValueInWhichRunsDiffer) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 1, done(0.5));
  write_run("small", "quest", 0, done(0.5), "train: {epochs: 11, optimizer: {lr: 0.01}}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 2U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "train.epochs", "10 in standard (seeds 0, 1)", "11 in quest (seed 0)"}));
  EXPECT_THAT(comparison.differences[1].text(),
              says({"small:", "train.optimizer.lr", "0.001 in standard (seeds 0, 1)",
                    "0.01 in quest (seed 0)"}));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              AllOf(HasSubstr("NOT A FAIR COMPARISON"), HasSubstr("train.epochs is 10")));
}

TEST_F(ComparisonTest, TakesOneNumberWrittenTwoWaysForOne) {
  write_run("small", "standard", 0, done(0.5), "train: {optimizer: {lr: 1.0e-3}}");
  write_run("small", "quest", 0, done(0.5), "train: {optimizer: {lr: 0.001}}");
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparisonTest, DoesNotAskWhatChangesNoNumber) {
  write_run("small", "standard", 0, done(0.5), "published: {parameters: 5.7e6}");
  write_run("small", "quest", 0, done(0.5), "trace: {every: 10}\ntrain: {tensorboard: false}");
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparisonTest, WantsOneAttentionsOptionsEqualOverSeeds) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "quest", 0, done(0.5));
  write_run("small", "quest", 1, done(0.5), "attention: {eps: 0.5}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "attention.eps", "0.5 in quest (seed 1)", "1e-12 in quest (seed 0)"}));
}

TEST_F(ComparisonTest, WantsALabelToBeOnePluginInAllExperiments) {
  for (const char* experiment : {"large", "small"}) {
    write_run(experiment, "standard", 0, done(0.5));
    write_run(experiment, "quest", 0, done(0.5));
  }
  EXPECT_THAT(compare().differences, IsEmpty());
  write_run("large", "standard", 0, done(0.5), "attention: {as: mine}");
  write_run("small", "quest", 0, done(0.5), "attention: {as: mine}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(comparison.differences[0].text(),
              says({"label 'mine'", "attention.use", "quest in small", "standard in large"}));
}

TEST_F(ComparisonTest, SaysWhereALabelHasOtherOptionsInOtherExperiments) {
  for (const char* experiment : {"large", "small", "\"small,eps=0.25\""}) {
    write_run(experiment, "standard", 0, done(0.5));
  }
  write_run("large", "quest", 0, done(0.5));
  write_run("\"small,eps=0.25\"", "quest", 0, done(0.5), "attention: {eps: 0.25}");
  EXPECT_THAT(compare().notes, Not(::testing::Contains(HasSubstr("the label"))))
      << "the experiment's name says what it varies";
  write_run("small", "quest", 0, done(0.5), "attention: {eps: 0.5}");
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(mentions("label 'quest'", "other options", "attention.as",
                                           "eps is", " in large and 0.5 in small")));
}

TEST_F(ComparisonTest, ComparesDataAndPluginsAsTheyWere) {
  const auto environment = [](const RunFolder& folder, const std::string& data,
                              const std::string& model, int threads) {
    write_environment(folder, {{"data", {{"fingerprint", data}}},
                               {"model", {{"hash", model}}},
                               {"threads", threads},
                               {"parameters", 321}});
  };
  environment(write_run("small", "standard", 0, done(0.5)), "d1", "m1", 2);
  environment(write_run("small", "quest", 0, done(0.5)), "d2", "m1", 4);
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "data.fingerprint", "d1 in standard (seed 0)", "d2 in quest (seed 0)"}));
  EXPECT_THAT(comparison.notes, ::testing::Contains(mentions("small:", "threads is 2 in standard")))
      << "another number of threads is said, yet refuses nothing";
  EXPECT_EQ(row(comparison, "small", "quest").costs.at("parameters"), 321);
  EXPECT_NEAR(row(comparison, "small", "quest").costs.at("examples_per_second"), 1000.5, 1e-9);
}

TEST_F(ComparisonTest, AllowsDataThatAreAFunctionOfTheSeed) {
  for (const char* attention : {"standard", "quest"}) {
    for (const std::int64_t seed : {0, 1}) {
      const RunFolder folder = write_run("small", attention, seed, done(0.5));
      write_environment(folder, {{"data", {{"fingerprint", "d" + std::to_string(seed)}}}});
    }
  }
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparisonTest, RefusesTwoRunsOfOneCell) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 0, done(0.6), "train: {epochs: 3}");
  const std::string message = message_of<ConfigError>([&] { compare(); });
  EXPECT_THAT(message,
              mentions("two runs", "small/standard", "seed 0", "they differ in train.epochs"));
}

TEST_F(ComparisonTest, LeavesOutRunsThatTheSuiteNoLongerKnows) {
  const RunFolder present = write_run("small", "standard", 0, done(0.5));
  const RunFolder quest = write_run("small", "quest", 0, done(0.7));
  const RunFolder stale = write_run("small", "standard", 0, done(0.1), "train: {epochs: 3}");
  const json table = {{"suite", "s"},
                      {"baseline", "quest"},
                      {"notes", {"made-up data"}},
                      {"compare", {{"test", "t"}, {"level", 0.1}}},
                      {"runs", {{{"folder", present.path()}}, {{"folder", quest.path()}}}}};
  temp_.write("runs/table.json", table.dump());
  const RunCollection found = find_runs({root()});
  EXPECT_EQ(found.runs.size(), 2U);
  ASSERT_EQ(found.notes.size(), 2U);
  EXPECT_EQ(found.notes[0], "made-up data") << "the suite's own warning goes along";
  EXPECT_THAT(found.notes[1], StartsWith(root() + ": 1 run is left out"));
  EXPECT_THAT(found.notes[1], EndsWith(": " + stale.path().substr(root().size() + 1)));
  ASSERT_EQ(found.suites.size(), 1U);
  const CompareOptions options = compare_options(found.suites[0].compare);
  EXPECT_EQ(options.test, "t");
  EXPECT_EQ(options.level, 0.1);
  const Comparison comparison = compare_runs(found, options, "");
  EXPECT_EQ(comparison.baseline, "quest") << "the suite's";
  EXPECT_EQ(row(comparison, "small", "standard").summary.mean, 0.5);
}

TEST_F(ComparisonTest, OfSuitesBelowOneAnotherEachHasItsOwnRuns) {
  namespace fs = std::filesystem;
  const auto record = [](const std::string& run) {
    const json entry = {{"folder", run}};
    const json suite = {{"suite", "s"}, {"baseline", "standard"}, {"runs", json::array({entry})}};
    return suite.dump();
  };
  const RunFolder outer = write_run("small", "standard", 0, done(0.5));
  const RunFolder moved = write_run("large", "standard", 0, done(0.7));
  const std::string below = root() + "/other/s";
  fs::create_directories(below);
  fs::rename(root() + "/large", below + "/large");
  temp_.write("runs/suite.json", record(outer.path()));
  temp_.write("runs/other/s/suite.json", record(below + moved.path().substr(root().size())));
  for (const std::vector<std::string>& folders :
       {std::vector<std::string>{temp_.path()}, std::vector<std::string>{root(), below}}) {
    const RunCollection found = find_runs(folders);
    EXPECT_EQ(found.runs.size(), 2U) << folders.front();
    EXPECT_THAT(found.notes, ElementsAre());
  }
  EXPECT_EQ(find_runs({below}).runs.size(), 1U);
  const RunCollection own = find_runs({root()});
  ASSERT_EQ(own.runs.size(), 1U) << "a suite's table is of its own runs";
  EXPECT_EQ(own.runs[0].experiment, "small");
  EXPECT_THAT(own.notes, ElementsAre(HasSubstr("1 run is left out")));
}

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

TEST_F(ComparisonTest, ReadsEachRunOnceHoweverItIsNamed) {
  const RunFolder folder = write_run("small", "standard", 0, done(0.5));
  EXPECT_EQ(find_runs({root(), folder.path(), root() + "/small"}).runs.size(), 1U);
}

TEST_F(ComparisonTest, FollowsLinksAndReadsARunOnceThatSeveralLeadTo) {
  namespace fs = std::filesystem;
  const RunFolder standard = write_run("small", "standard", 0, done(0.5));
  write_run("small", "quest", 0, done(0.7));
  const std::string store = temp_ / "store", quest = root() + "/small/quest";
  fs::rename(quest, store);
  fs::create_directory_symlink(store, quest);
  fs::create_directory_symlink(standard.path(), root() + "/again");
  fs::create_directory_symlink(root() + "/small", store + "/back");
  fs::create_directory_symlink(fs::path(root()).parent_path(), root() + "/up");
  fs::create_symlink(temp_ / "none", root() + "/small/standard/1-01234567");
  fs::create_symlink("user@host", root() + "/.#suite.json");  // an editor's lock
  const RunCollection found = find_runs({root()});
  ASSERT_EQ(found.runs.size(), 2U);
  EXPECT_THAT(found.runs[0].folder, StartsWith(quest + "/0-"));
  EXPECT_EQ(found.runs[1].folder, standard.path());
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_THAT(found.notes,
              ElementsAre(mentions("/1-01234567", "left out", "the link cannot be followed")));
  EXPECT_EQ(find_runs({root(), store}).runs.size(), 2U);
}

TEST_F(ComparisonTest, RefusesFoldersWithoutRuns) {
  EXPECT_THAT(message_of<ConfigError>([&] { find_runs({temp_ / "gone"}); }),
              mentions("gone:", "no such folder"));
  EXPECT_THAT(message_of<ConfigError>([&] { find_runs({temp_.path()}); }),
              HasSubstr("holds no run folder"));
}

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
  CompareOptions t;
  t.test = "t";
  EXPECT_THAT(compare(t).notes, IsEmpty());
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
  CompareOptions t;
  t.test = "t";
  EXPECT_THAT(compare(t).notes,
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

TEST_F(ComparisonTest, SuggestsBaselines) {
  write_pair("small", {0.5}, {0.6});
  EXPECT_THAT(message_of<ConfigError>([&] { compare({}, "standart"); }),
              HasSubstr("did you mean 'standard'?"));
  EXPECT_EQ(compare({}, "quest").attentions, (std::vector<std::string>{"quest", "standard"}));
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
  CompareOptions options;
  options.test = "t";
  EXPECT_EQ(row(compare(options), "small", "quest").contrast->gap.kind, Absence::no_spread);
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

TEST_F(ComparisonTest, KnowsWhenTheBaselineIsMissing) {
  write_pair("small", {0.5, 0.6}, {0.6, 0.7});
  write_run("large", "quest", 0, done(0.5));
  const Contrast contrast = *row(compare(), "large", "quest").contrast;
  EXPECT_EQ(contrast.gap.text(), "no baseline: no run");
}

// ---- ranks

TEST_F(ComparisonTest, RanksAcrossExperiments) {
  write_pair("a", {0.5, 0.6}, {0.7, 0.8});
  write_pair("b", {0.5, 0.6}, {0.7, 0.8});
  write_pair("c", {0.5, 0.6}, {0.4, 0.3});
  write_run("d", "standard", 0, done(0.5));
  const Comparison comparison = compare();
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "b", "c"));
  EXPECT_THAT(comparison.ranking->attentions, ElementsAre("standard", "quest"));
  EXPECT_NEAR(comparison.ranking->test.mean_ranks[1], 4.0 / 3, 1e-12) << "more accuracy is better";
  EXPECT_NEAR(comparison.ranking->critical_difference, 1.959964 * std::sqrt(2 * 3 / 18.0), 1e-5);
  EXPECT_THAT(comparison.left_out, ElementsAre(mentions("d:", "no seed")));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              mentions("1.33  quest", "critical difference 1.13", "No difference", "significant"));
}

TEST_F(ComparisonTest, RanksMeansOverSeedsThatAllHave) {
  write_pair("a", {0.5, 0.6, 0.0}, {0.4, 0.5});
  write_pair("b", {0.5, 0.6}, {0.4, 0.5});
  EXPECT_THAT(compare().ranking->test.mean_ranks, ElementsAre(1, 2))
      << "standard's third seed has no counterpart and must not count";
}

TEST_F(ComparisonTest, RanksNothingOfOneExperiment) {
  write_pair("a", {0.5, 0.6}, {0.4, 0.5});
  EXPECT_FALSE(compare().ranking.has_value());
  EXPECT_THAT(compare().no_ranking, HasSubstr("there are 2 and 1"));
}

TEST_F(ComparisonTest, RanksPointsOfASweepOnTheSameDataAsOneExperiment) {
  for (const char* point : {"\"a,lr=0.1\"", "\"a,lr=0.2\""}) {
    write_pair(point, {0.5, 0.6}, {0.7, 0.8});
  }
  Comparison comparison = compare();
  EXPECT_FALSE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.no_ranking, AllOf(HasSubstr("there are 2 and 1"), HasSubstr("settings")));
  EXPECT_THAT(test_sentence(comparison),
              mentions("2 comparisons", "1 attention", "2 settings", "1 experiment"));
  write_pair("b", {0.5, 0.6}, {0.4, 0.3});
  comparison = compare();
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "b"));
  EXPECT_THAT(comparison.ranking->test.mean_ranks, ElementsAre(1.5, 1.5)) << "a counts once";
}

TEST_F(ComparisonTest, RanksPointsOfASweepOverDataApart) {
  for (const std::string data : {"cora", "citeseer"}) {
    for (const char* attention : {"standard", "quest"}) {
      write_environment(write_run("\"a,dataset=" + data + "\"", attention, 0, done(0.5)),
                        {{"data", {{"fingerprint", data}}}});
    }
  }
  ASSERT_TRUE(compare().ranking.has_value());
  EXPECT_THAT(compare().ranking->experiments, ElementsAre("a,dataset=citeseer", "a,dataset=cora"))
      << "each data set is an experiment";
}

TEST_F(ComparisonTest, CallsNoPointsOnOtherDataAfterAnExperiment) {
  write_on_data("a", 0, "d1");
  write_on_data("\"a,lr=0.1\"", 0, "d2");
  write_on_data("\"a,lr=0.2\"", 0, "d2");
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.settings,
              ElementsAre(::testing::Pair("a", "a"), ::testing::Pair("a,lr=0.1", "a,lr=0.1"),
                          ::testing::Pair("a,lr=0.2", "a,lr=0.1")));
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "a,lr=0.1"));
}

TEST_F(ComparisonTest, KnowsThePointsDataByASeedThatTheyShare) {
  for (const char* attention : {"standard", "quest"}) {  // not begun: nothing recorded its data
    frozen_run("\"a,lr=0.1\"", attention, 0);
  }
  write_on_data("\"a,lr=0.1\"", 1, "d1");
  write_on_data("\"a,lr=0.2\"", 0, "d0");
  write_on_data("\"a,lr=0.2\"", 1, "d1");
  write_on_data("\"a,lr=0.3\"", 1, "d1");
  write_on_data("\"a,lr=0.3\"", 2, "d2");
  EXPECT_THAT(compare().settings,
              ElementsAre(::testing::Pair("a,lr=0.1", "a"), ::testing::Pair("a,lr=0.2", "a"),
                          ::testing::Pair("a,lr=0.3", "a")));
}

// ---- output

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
