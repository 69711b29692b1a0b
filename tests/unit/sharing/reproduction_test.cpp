// Results side by side: when they count as the same.
#include "framework/sharing/reproduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/config/compose.h"
#include "framework/sharing/errors.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing::reproduction_test {
namespace {

using attnlab::testing::mentions;
using sharing::compare_results;
using sharing::notes_of;
using sharing::Reproduced;
using sharing::RunPair;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunRecord run_of(std::int64_t seed, double accuracy) {
  RunRecord run;
  run.experiment = "small";
  run.attention = "quest";
  run.seed = seed;
  run.infos = {{"accuracy", Better::higher, "share"}};
  run.status.state = RunState::done;
  run.status.metrics = {{"accuracy", accuracy}};
  return run;
}

/// Runs by seed; those beyond the shorter list could not be run here.
std::vector<RunPair> pairs_of(const std::vector<double>& there, const std::vector<double>& here) {
  std::vector<RunPair> pairs;
  for (std::size_t seed = 0; seed < there.size(); ++seed) {
    RunPair pair{run_of(static_cast<std::int64_t>(seed), there[seed]), std::nullopt, false, {}};
    if (seed < here.size()) pair.here = run_of(static_cast<std::int64_t>(seed), here[seed]);
    pairs.push_back(pair);
  }
  return pairs;
}

std::string verdict(const std::vector<double>& there, const std::vector<double>& here) {
  const auto all = compare_results(pairs_of(there, here));
  return all.size() == 1 ? all[0].verdict : "no one row";
}

TEST(Reproduction, IsIdenticalWhereEverySeedIs) {
  EXPECT_EQ(verdict({0.5, 0.6}, {0.5, 0.6}), "identical");
  EXPECT_EQ(verdict({0.5}, {0.5}), "identical");
}

TEST(Reproduction, AgreesWithinTheSeedsSpread) {
  EXPECT_EQ(verdict({0.50, 0.60, 0.55}, {0.52, 0.58, 0.56}), "agrees");
  EXPECT_EQ(verdict({0.50, 0.51, 0.52}, {0.60, 0.61, 0.62}), "DIFFERS");
}

TEST(Reproduction, OfOneSeedNeedsAnEqualNumber) {
  EXPECT_EQ(verdict({0.5}, {0.51}), "DIFFERS");
  EXPECT_EQ(verdict({1e-9}, {2e-9}), "DIFFERS") << "small numbers are not rounding";
}

TEST(Reproduction, AgreesToRoundingHoweverManySeedsThereAre) {
  EXPECT_EQ(verdict({0.5}, {0.5 + 4e-7}), "agrees");
  EXPECT_EQ(verdict({0.5}, {0.5 + 6e-7}), "DIFFERS");
  EXPECT_EQ(verdict({0.5, 0.5}, {0.5 + 4e-7, 0.5 + 4e-7}), "agrees") << "seeds without spread";
  EXPECT_EQ(verdict({0.5, 0.5}, {0.5 + 6e-7, 0.5 + 6e-7}), "DIFFERS");
  EXPECT_EQ(verdict({-200, -200}, {-200.0001, -200.0001}), "agrees");
}

// A divergence is a finding: one that is not found again is not reproduced.
TEST(Reproduction, DiffersWhereASeedHasAValueOnOneSideAlone) {
  const double none = std::nan("");
  EXPECT_EQ(verdict({0.5}, {none}), "DIFFERS");
  EXPECT_EQ(verdict({0.5, none}, {0.5, 0.6}), "DIFFERS");
  EXPECT_EQ(verdict({0.5, 0.6}, {0.5, none}), "DIFFERS");
  EXPECT_EQ(verdict({0.5, none}, {none, 0.5}), "DIFFERS") << "as many values on both sides";
  std::vector<RunPair> pairs = pairs_of({0.5, 0.6, 0.7}, {0.5, 0.6, 0.7});
  pairs[1].there.status.state = RunState::diverged;
  pairs[2].there.status.state = RunState::diverged;
  const auto all = compare_results(pairs);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].verdict, "DIFFERS");
  EXPECT_EQ(all[0].why, "seed 1: diverged there, 0.6 here; 1 more");
}

TEST(Reproduction, OfADivergenceIsADivergence) {
  std::vector<RunPair> pairs = pairs_of({0.5, 0.6}, {0.5, 0.6});
  pairs[1].there.status.state = pairs[1].here->status.state = RunState::diverged;
  auto all = compare_results(pairs);
  EXPECT_EQ(all[0].verdict, "identical");
  EXPECT_THAT(all[0].why, HasSubstr("1 without a finite value"));
  pairs[0].there.status.state = pairs[0].here->status.state = RunState::diverged;
  EXPECT_EQ(compare_results(pairs)[0].verdict, "agrees");
}

/// What a run's evaluation of an entry gave.
void add_evaluation(RunRecord& run, const std::string& entry, double accuracy, double loss) {
  EvaluationRecord record;
  record.entry = entry;
  record.done = true;
  run.evaluations.push_back(record);
  run.evaluation_headlines.push_back({entry + "/accuracy", Better::higher, "share"});
  run.status.metrics[entry + "/accuracy"] = accuracy;
  run.status.metrics[entry + "/nll"] = loss;
}

/// Two equal runs with a loss, a cost, and evaluations: noise at two levels, and their mean.
RunPair pair_of_all_kinds() {
  RunRecord run = run_of(0, 0.5);
  run.config = parse_yaml("evaluate: {noise: {over: {dataset.noise: [1, 2]}}}\n", "made.yaml");
  run.infos.push_back({"nll", Better::lower, "nats"});
  run.status.metrics["nll"] = 0.7;
  run.status.metrics["examples_per_second"] = run.costs["examples_per_second"] = 100;
  for (const char* entry : {"noise", "noise/1", "noise/2"}) add_evaluation(run, entry, 0.4, 0.9);
  return {run, run, false, {}};
}

const Reproduced& row(const std::vector<Reproduced>& all, const std::string& metric) {
  for (const Reproduced& one : all) {
    if (one.metric == metric) return one;
  }
  ADD_FAILURE() << "no row for " << metric;
  return all.front();
}

TEST(Reproduction, ShowsEveryMetricButCosts) {
  RunPair pair = pair_of_all_kinds();
  pair.here->status.metrics["examples_per_second"] = 900;
  pair.here->costs["examples_per_second"] = 900;
  pair.here->status.metrics["noise/2/nll"] = 0.91;
  const auto all = compare_results({pair});
  std::vector<std::string> names;
  for (const Reproduced& one : all) names.push_back(one.metric);
  EXPECT_THAT(
      names, ::testing::ElementsAre("accuracy", "noise/accuracy", "nll", "noise/1/accuracy",
                                    "noise/1/nll", "noise/2/accuracy", "noise/2/nll", "noise/nll"));
  for (const Reproduced& one : all) {
    EXPECT_EQ(one.verdict, one.metric == "noise/2/nll" ? "DIFFERS" : "identical") << one.metric;
    EXPECT_EQ(one.decides, one.metric == "accuracy" || one.metric == "noise/accuracy")
        << one.metric;
  }
  const std::string whole = reproduction_text(all), brief = reproduction_text(all, false);
  EXPECT_THAT(whole, AllOf(HasSubstr("noise/1/nll"), HasSubstr("noise/2/nll")));
  EXPECT_THAT(brief, AllOf(HasSubstr("noise/accuracy"), HasSubstr("noise/2/nll"),
                           Not(HasSubstr("noise/1/nll")), HasSubstr("5 other metrics agree")));
}

TEST(Reproduction, OfAnEvaluationDecidesToo) {
  RunPair pair = pair_of_all_kinds();
  pair.here->status.metrics["noise/accuracy"] = 0.1;
  EXPECT_EQ(row(compare_results({pair}), "noise/accuracy").verdict, "DIFFERS");
  pair.here->evaluations.clear();  // it failed here
  pair.here->evaluation_headlines.clear();
  for (const char* name : {"accuracy", "nll"}) {
    pair.here->status.metrics.erase(std::string("noise/") + name);
  }
  const Reproduced failed = row(compare_results({pair}), "noise/accuracy");
  EXPECT_TRUE(failed.decides);
  EXPECT_EQ(failed.verdict, "DIFFERS");
  EXPECT_THAT(failed.why, HasSubstr("seed 0: 0.4 there, no value here"));
}

TEST(Reproduction, DoesNotDecideByWhatTheConfigurationDoesNotAskFor) {
  RunPair pair = pair_of_all_kinds();
  add_evaluation(pair.there, "added", 0.3, 1);
  const auto all = compare_results({pair});
  EXPECT_EQ(row(all, "added/accuracy").verdict, "not repeated");
  EXPECT_FALSE(row(all, "added/accuracy").decides);
}

EvaluationRecord& evaluation(RunRecord& run, const std::string& entry) {
  for (EvaluationRecord& one : run.evaluations) {
    if (one.entry == entry) return one;
  }
  throw Error("no " + entry);
}

TEST(Reproduction, ComparesNoEvaluationsThatAskAnotherThingUnderOneName) {
  RunPair pair = pair_of_all_kinds();
  evaluation(pair.there, "noise/2").set = R"({"dataset":{"noise":9}})";
  const auto all = compare_results({pair});
  for (const char* metric : {"noise/accuracy", "noise/2/accuracy", "noise/2/nll"}) {
    EXPECT_EQ(row(all, metric).verdict, "other settings") << metric;
    EXPECT_FALSE(row(all, metric).decides) << metric;
  }
  EXPECT_EQ(row(all, "noise/1/accuracy").verdict, "identical");
  EXPECT_EQ(row(all, "accuracy").verdict, "identical");
  EXPECT_THAT(reproduction_text(all, false), HasSubstr("had another evaluation"));

  RunPair splits = pair_of_all_kinds();
  evaluation(splits.there, "noise").split = "validation";
  EXPECT_EQ(row(compare_results({splits}), "noise/accuracy").verdict, "other settings");
  // The first seed need not have the result.
  RunPair first = pair_of_all_kinds();
  first.there.evaluations.clear();
  EXPECT_EQ(row(compare_results({first, splits}), "noise/accuracy").verdict, "other settings");
}

TEST(Reproduction, TakesAMeanThatDoesNotSayItsPointsForOneOfThem) {
  RunPair pair = pair_of_all_kinds();
  evaluation(*pair.here, "noise").set = R"({"over":["noise/1","noise/2"]})";
  EXPECT_EQ(row(compare_results({pair}), "noise/accuracy").verdict, "identical");
  evaluation(pair.there, "noise").set = R"({"over":["noise/1","noise/3"]})";
  EXPECT_EQ(row(compare_results({pair}), "noise/accuracy").verdict, "other settings");
}

TEST(Reproduction, NamesEvaluationsOfTheConfigurationWithoutAResult) {
  RunPair pair = pair_of_all_kinds();
  pair.there.config = parse_yaml("evaluate: {clean: {}, noise: {}, fog: {}}\n", "made.yaml");
  const auto all = compare_results({pair});
  const Reproduced& fog = row(all, "evaluation fog");
  EXPECT_EQ(fog.verdict, "not compared");
  EXPECT_FALSE(fog.decides);
  EXPECT_THAT(reproduction_text(all, false), HasSubstr("no result there or here"));
  for (const Reproduced& one : all) {
    EXPECT_NE(one.metric, "evaluation clean") << "it is the run itself";
    EXPECT_NE(one.metric, "evaluation noise");
  }
  pair.there.status.state = pair.here->status.state = RunState::diverged;
  for (const Reproduced& one : compare_results({pair})) {
    EXPECT_NE(one.metric, "evaluation fog") << "nobody evaluates a run that diverged";
  }
}

TEST(Reproduction, SaysHowManySeedsHaveNoValueOnBothSides) {
  std::vector<RunPair> pairs = pairs_of({0.5, 0.6}, {0.5, 0.6});
  pairs[1].there.status.metrics.clear();
  pairs[1].here->status.metrics.clear();
  const auto all = compare_results(pairs);
  EXPECT_EQ(all[0].verdict, "identical");
  EXPECT_THAT(all[0].why, HasSubstr("1 without a value"));
}

TEST(Reproduction, OnOtherDataOfAnEvaluationSaysSoThere) {
  RunPair pair = pair_of_all_kinds();
  pair.other_data_of = {"noise/2"};
  const auto all = compare_results({pair});
  EXPECT_EQ(row(all, "accuracy").verdict, "identical");
  EXPECT_EQ(row(all, "noise/1/accuracy").verdict, "identical");
  EXPECT_EQ(row(all, "noise/2/accuracy").verdict, "OTHER DATA");
  EXPECT_EQ(row(all, "noise/accuracy").verdict, "OTHER DATA") << "the mean over both";
}

TEST(Reproduction, SaysWhereThereIsNoValue) {
  EXPECT_EQ(verdict({0.5}, {}), "no value") << "it could not be run";
  std::vector<RunPair> pairs = pairs_of({0.5}, {0.5});
  pairs[0].there.status.metrics.clear();
  pairs[0].here->status.metrics.clear();
  EXPECT_EQ(compare_results(pairs)[0].verdict, "no value");
}

TEST(Reproduction, ComparesSeedsThatBothHave) {
  const auto all = compare_results(pairs_of({0.5, 0.6, 0.7}, {0.5, 0.6}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].there.size(), 2U);
  EXPECT_THAT(reproduction_text(all), HasSubstr("identical"));
}

// A stored result that is packed again must not pass for a run of the lab that packs it.
TEST(Reproduction, ComparesEachRunWithItsOwnRepetition) {
  // Two configurations of one label and seed: by the label they would be crossed.
  std::vector<RunPair> pairs = pairs_of({0.1, 0.9}, {0.1, 0.9});
  pairs[1].there.seed = pairs[1].here->seed = 0;
  const auto all = compare_results(pairs);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].there, all[0].here);
  EXPECT_EQ(all[0].verdict, "identical");
}

/// Two equal runs in folders, which may have locks.
class ReproducedRuns : public ::testing::Test {
 protected:
  ReproducedRuns() {
    pair_.there.folder = folder_ / "there";
    pair_.here->folder = folder_ / "here";
    pair_.there.environment = pair_.here->environment = {{"data.fingerprint", "1"}};
  }
  void write_lock(const std::string& side, const std::string& data,
                  const std::string& of_noise = "a") const {
    folder_.write(side + "/lock.json", R"({"framework":{"revision":"r"},"parts":[],"data":[)" +
                                           data + R"(],"evaluations":{"noise":{"parts":[],)" +
                                           R"("data":")" + of_noise + R"("}}})");
  }
  bool has_other_data() {
    compare_data(pair_);
    return pair_.other_data;
  }

  TempFolder folder_;
  RunPair pair_ = pair_of_all_kinds();
};

TEST_F(ReproducedRuns, AreOfOtherDataByTheirLocks) {
  write_lock("there", R"("d1")");
  write_lock("here", R"("d1")");
  pair_.here->environment["data.fingerprint"] = "2";
  EXPECT_FALSE(has_other_data()) << "the locks say it";
  EXPECT_TRUE(pair_.other_data_of.empty());
  write_lock("here", R"("d2")", "b");
  EXPECT_TRUE(has_other_data());
  EXPECT_EQ(pair_.other_data_of, std::set<std::string>{"noise"});
}

TEST_F(ReproducedRuns, AreOfOtherDataByWhatTheyRecordedWhereALockIsMissingOrNamesNone) {
  EXPECT_FALSE(has_other_data());
  pair_.here->environment["data.fingerprint"] = "2";
  EXPECT_TRUE(has_other_data());
  write_lock("here", R"("d1")");
  EXPECT_TRUE(has_other_data());
  write_lock("there", "");
  EXPECT_TRUE(has_other_data());
  pair_.there.environment.clear();
  EXPECT_FALSE(has_other_data()) << "nobody knows";
  EXPECT_THAT(notes_of({pair_}), ::testing::Contains(HasSubstr("they were not compared")));
  folder_.write("there/lock.json", "{");
  EXPECT_THROW(compare_data(pair_), sharing::BundleError);
}

TEST_F(ReproducedRuns, WithoutALockAreSaidToBeComparedInPart) {
  write_lock("here", R"("d1")");
  EXPECT_THAT(notes_of({pair_}),
              ::testing::ElementsAre(mentions("small/quest/0:", "no lock there")));
  write_lock("there", R"("d1")");
  EXPECT_THAT(notes_of({pair_}), ::testing::IsEmpty());
}

TEST_F(ReproducedRuns, BringTheirNotesAndWhatTheyRanOn) {
  write_lock("here", R"("d1")");
  write_lock("there", R"("d1")");
  pair_.there.notes = {"begun with\n2 threads"};
  pair_.here->notes = {"an evaluation cannot be read"};
  for (const char* key : {"products", "device", "kernel", "libtorch"}) {
    pair_.there.environment[key] = "old";
    pair_.here->environment[key] = "new";
  }
  pair_.there.environment["threads"] = "2";  // nothing to tell: it differs nearly everywhere
  pair_.here->environment["threads"] = "4";
  RunPair other = pair_;
  other.there.seed = other.here->seed = 1;
  other.here->notes.clear();
  EXPECT_THAT(notes_of({pair_, other}),
              ::testing::UnorderedElementsAre(
                  mentions("small/quest/0, small/quest/1:", "there:", "2 threads"),
                  mentions("small/quest/0:", "here:", "cannot be read"),
                  mentions("small/quest/0, small/quest/1:", "products are old there, new here"),
                  mentions("small/quest/0, small/quest/1:", "device is old there, new here"),
                  mentions("small/quest/0, small/quest/1:", "attention is old there, new here"),
                  mentions("small/quest/0, small/quest/1:", "LibTorch is old there, new here")));
}

TEST(Reproduction, OnOtherDataIsNone) {
  std::vector<RunPair> pairs = pairs_of({0.5, 0.6}, {0.5, 0.6});
  pairs[1].other_data = true;
  const auto all = compare_results(pairs);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].verdict, "OTHER DATA");
  EXPECT_FALSE(all[0].agrees());
  EXPECT_THAT(all[0].why, mentions("1 of its runs", "other data"));
}

}  // namespace
}  // namespace attnlab::testing::reproduction_test
