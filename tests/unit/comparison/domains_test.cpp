// The page over domains: planted winners and losers are found where they are, identical attentions
// are not told apart more often than the level says, and what is missing is named.
#include "framework/comparison/domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/comparison/domain_effects.h"
#include "tests/support/made_domains.h"
#include "tests/support/message_of.h"

namespace attnlab::domains_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using testing::add_alike;
using ::testing::AllOf;
using testing::claim_of;
using testing::column;
using ::testing::Contains;
using testing::diverge;
using testing::DomainRuns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDomains;
using ::testing::Not;
using testing::outcomes;
using testing::plant;
using testing::with_verdict;

TEST(DomainPage, FindsAPlantedWinnerWhereItIsAndNowhereElse) {
  DomainRuns runs;
  add_alike(runs, {"standard", "oracle", "plain"}, 5, 1);
  plant(runs, "oracle", "graphs", 0.15);
  const DomainPage page = runs.build();
  EXPECT_THAT(with_verdict(page, "oracle", "better"), ElementsAre("graphs"));
  EXPECT_THAT(with_verdict(page, "oracle", "worse"), IsEmpty());
  EXPECT_THAT(with_verdict(page, "plain", "better"), IsEmpty());
  EXPECT_THAT(with_verdict(page, "plain", "worse"), IsEmpty());
  const std::size_t graphs = column(page, "graphs");
  EXPECT_NEAR(page.row("oracle").cells[graphs].row.contrast->difference.mean, 0.15, 0.02);
}

TEST(DomainPage, FindsAPlantedLoserAndDoesNotHideItBehindAverages) {
  DomainRuns runs;
  add_alike(runs, {"standard", "dud"}, 5, 2);
  for (const char* domain : kDomains) plant(runs, "dud", domain, 0.02);
  plant(runs, "dud", "points", -0.4);
  const DomainPage page = runs.build();
  EXPECT_THAT(with_verdict(page, "dud", "worse"), ElementsAre("points"));
  ASSERT_TRUE(page.row("dud").worst);
  EXPECT_EQ(page.columns[*page.row("dud").worst].domain, "points");
}

TEST(DomainPage, OneDomainMovesTheSummaryAndWidensItsInterval) {
  DomainRuns runs;
  add_alike(runs, {"standard", "dud", "oracle"}, 5, 3);
  const DomainPage before = runs.build();
  plant(runs, "dud", "points", -0.3);
  plant(runs, "oracle", "graphs", 0.3);
  const DomainPage after = runs.build();
  const auto mean = [](const DomainPage& page, const char* name) {
    return page.row(name).summary->mean;
  };
  EXPECT_LT(mean(after, "dud"), mean(before, "dud") - 1);
  EXPECT_GT(mean(after, "oracle"), mean(before, "oracle") + 1);
  const Interval interval = *after.row("oracle").summary->interval;
  EXPECT_LT(interval.low, 0) << "one domain says nothing of the others";
  EXPECT_GT(interval.high, mean(after, "oracle") + 1);
}

TEST(DomainPage, TheWorstColumnIsOneThatIsShownToBeWorse) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 5, 13);
  plant(runs, "mine", "points", -0.4);
  DomainPage page = runs.build();
  DomainRow row = page.row("mine");
  ASSERT_TRUE(row.cells[4].row.contrast->significant);
  row.cells[0].effect = Effect{-100, 1, 5};  // lower, and not significant
  row.worst.reset();
  row.without_effect.clear();
  add_effects(page, row);
  EXPECT_EQ(*row.worst, 4U);
}

// 100 % and 0 % in every seed: no spread, no test, and nothing worse.
TEST(DomainPage, ALossThatIsAlwaysTheSameIsNotHidden) {
  DomainRuns runs;
  add_alike(runs, {"standard", "dud"}, 3, 17);
  for (RunRecord& run : runs.all.runs) {
    if (run.experiment != "points") continue;
    run.status.metrics["score"] = run.attention == "dud" ? 0 : 1;
  }
  plant(runs, "dud", "images", -0.9);
  const DomainPage page = runs.build();
  ASSERT_THAT(with_verdict(page, "dud", "worse"), ElementsAre("images"));
  const DomainRow& dud = page.row("dud");
  ASSERT_TRUE(dud.worst);
  EXPECT_EQ(page.columns[*dud.worst].domain, "points");
  EXPECT_EQ(cell_verdict(page, dud, column(page, "points")), "no spread");
  EXPECT_THAT(dud.without_effect, ElementsAre("points: every pair differs by -100.00"));
}

TEST(DomainPage, ALossOfTooFewPairsIsNotHidden) {
  DomainRuns runs;
  add_alike(runs, {"standard", "dud"}, 1, 18);
  for (const char* domain : kDomains) plant(runs, "dud", domain, 0.1);
  plant(runs, "dud", "graphs", -0.2);
  plant(runs, "dud", "points", -0.6);
  const DomainPage page = runs.build();
  ASSERT_TRUE(page.row("dud").worst);
  EXPECT_EQ(page.columns[*page.row("dud").worst].domain, "points");
  EXPECT_THAT(page.row("dud").without_effect, Contains(mentions("points:", "1 of the 3 pairs")));
}

TEST(DomainPage, NoWorstColumnWhereNothingIsLost) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 1, 19);
  for (const char* domain : kDomains) plant(runs, "mine", domain, 0.2);
  EXPECT_FALSE(runs.build().row("mine").worst);
}

/// A seed of an attention in one domain fails; another has no run.
DomainRuns with_lost_seeds() {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine", "other"}, 3, 20);
  for (RunRecord& run : runs.all.runs) {
    if (run.attention != "mine" || run.experiment != "images" || run.seed != 2) continue;
    run.status.state = RunState::failed;
    run.status.reason = "out of memory";
  }
  std::erase_if(runs.all.runs, [](const RunRecord& run) {
    return run.attention == "standard" && run.experiment == "graphs" && run.seed == 1;
  });
  return runs;
}

TEST(DomainPage, CountsAndListsSeedsThatAreMissing) {
  const DomainPage page = with_lost_seeds().build();
  const std::size_t images = column(page, "images"), graphs = column(page, "graphs");
  EXPECT_EQ(missing_text(page, page.row("mine"), images), "1 of 3 missing");
  EXPECT_EQ(missing_text(page, page.row("other"), images), "");
  EXPECT_EQ(missing_text(page, page.row("mine"), graphs), "1 of 3 missing") << "the baseline's";
  EXPECT_THAT(plain(domain_cell(page, page.row("mine"), images)),
              ::testing::EndsWith("; 1 of 3 missing"));
  EXPECT_THAT(page_absences(page),
              ElementsAre(mentions("images, mine, seed 2:", "failed: out of memory"),
                          "graphs, standard, seed 1: no run"));
}

TEST(DomainPage, NamesSeedsThatRanksLeaveOut) {
  const DomainPage page = with_lost_seeds().build();
  EXPECT_THAT(page.left_out, ElementsAre(mentions("images, seed 2:", "mine"),
                                         mentions("graphs, seed 1:", "standard")));
}

TEST(DomainPage, NamesAnUnfairEvaluationThatOnlyOneColumnShows) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 14);
  runs.page().columns.push_back({"images", "images", "fog/score", "fog", ColumnRole::robustness});
  for (RunRecord& run : runs.all.runs) {
    if (run.experiment != "images") continue;
    run.status.metrics["fog/score"] = 0.5 + 0.01 * static_cast<double>(run.seed);
    run.infos.push_back({"fog/score", Better::higher, "share"});
    EvaluationRecord fog;
    fog.entry = "fog";
    fog.done = true;
    fog.set = run.attention == "mine" ? R"({"severity": 1})" : R"({"severity": 5})";
    run.evaluations.push_back(fog);
  }
  const DomainPage page = runs.build();
  ASSERT_EQ(page.differences.size(), 1U);
  EXPECT_THAT(page.differences.front().text(), AllOf(HasSubstr("images"), HasSubstr("fog")));
}

TEST(DomainPage, TakesTheDirectionOfOneMetricForNoOther) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 14);
  runs.page().columns.push_back({"images", "images", "fog/loss", "fog", ColumnRole::robustness});
  for (RunRecord& run : runs.all.runs) {
    if (run.experiment != "images") continue;
    run.status.metrics["fog/loss"] = 0.5 + 0.01 * static_cast<double>(run.seed);
    run.infos.push_back({"fog/loss", Better::neither, ""});
  }
  CompareOptions options;
  options.metric = "fog/loss";
  options.better = "lower";
  const DomainPage page = build_domain_page(runs.all, options, "");
  EXPECT_EQ(page.metrics.front().better, Better::higher) << "of each domain's own metric";
  EXPECT_EQ(page.metrics.back().better, Better::lower);
}

TEST(DomainPage, KeepsColumnsOfTwoSuitesApartThatHaveOneName) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 15);
  SuiteRecord other;
  other.folder = "runs/other";
  other.baseline = "standard";
  other.page = PageSpec{"Others", {}, {}};
  other.page->columns = {{"images", "graphs", "headline", "images"},
                         {"images", "images", "fog/score", "images"},
                         {"series", "series", "headline", "series"},
                         {"points", "points", "headline", "points", ColumnRole::robustness}};
  runs.all.suites.push_back(other);
  const DomainPage page = runs.build();
  ASSERT_EQ(page.columns.size(), std::size(kDomains) + 2) << "the same is there once";
  EXPECT_EQ(page.columns[6].name(), "images: (graphs)");
  EXPECT_EQ(page.row("mine").cells[6].row.summary.mean,
            page.row("mine").cells[column(page, "graphs")].row.summary.mean);
  EXPECT_EQ(page.columns[7].name(), "images: (fog/score)");
  EXPECT_THAT(page.notes,
              Contains(mentions("'points'", "of robustness in runs/other", "of quality here")));
}

TEST(DomainPage, CountsASeedOnceThatIsARunAndAnAbsence) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 15);
  runs.page().columns.push_back({"images", "images", "fog/score", "fog", ColumnRole::robustness});
  runs.all.absent.push_back({"images", "mine", 1, {Absence::stale, "the data changed"}, ""});
  const DomainPage page = runs.build();
  EXPECT_EQ(page.row("mine").cells.back().row.seeds.size(), 3U);
}

// A/A: one attention under two names. The stated rate is the chance of any false verdict in a row.
TEST(DomainPage, TellsIdenticalAttentionsApartNoMoreOftenThanTheLevelSays) {
  constexpr int kStudies = 1500;
  for (const std::int64_t seeds : {3, 5}) {
    int told_apart = 0;
    for (int study = 0; study < kStudies; ++study) {
      DomainRuns runs;
      add_alike(runs, {"standard", "same"}, seeds, 1000 + static_cast<std::uint64_t>(study));
      const DomainPage page = runs.build();
      const bool any = !with_verdict(page, "same", "better").empty() ||
                       !with_verdict(page, "same", "worse").empty();
      told_apart += any ? 1 : 0;
    }
    const double rate = static_cast<double>(told_apart) / kStudies;
    const double error = std::sqrt(0.05 * 0.95 / kStudies);
    EXPECT_LE(rate, 0.05 + 3 * error) << seeds << " seeds";
    EXPECT_GE(rate, 0.05 - 4 * error) << seeds << " seeds: the rate is the level, not below it";
    RecordProperty("rate_with_" + std::to_string(seeds) + "_seeds", std::to_string(rate));
  }
}

TEST(DomainPage, SaysNothingOfRunsThatAreTheSameToTheLastDigit) {
  DomainRuns runs;
  for (const char* domain : kDomains) {
    for (std::int64_t seed = 0; seed < 3; ++seed) {
      const double value = 0.5 + 0.1 * static_cast<double>(seed);
      runs.add(domain, "standard", seed, value);
      runs.add(domain, "same", seed, value);
    }
  }
  const DomainPage page = runs.build();
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    EXPECT_EQ(cell_verdict(page, page.row("same"), i), "no spread");
  }
  EXPECT_FALSE(page.row("same").summary);
  EXPECT_EQ(plain(summary_cell(page.row("same"))), "-");
}

TEST(DomainPage, TurnsMetricsOfWhichLessIsBetter) {
  DomainRuns runs;
  for (const char* domain : {"images", "language"}) {
    const Better better = std::string(domain) == "language" ? Better::lower : Better::higher;
    for (std::int64_t seed = 0; seed < 4; ++seed) {
      const double noise = 0.01 * static_cast<double>(seed * seed % 3);
      runs.add(domain, "standard", seed, 2 + noise, better);
      runs.add(domain, "lower", seed, 1 + 2 * noise, better);
    }
  }
  const DomainPage page = runs.build();
  EXPECT_THAT(with_verdict(page, "lower", "better"), ElementsAre("language"));
  EXPECT_THAT(with_verdict(page, "lower", "worse"), ElementsAre("images"));
  EXPECT_GT(page.row("lower").cells[column(page, "language")].effect->value, 0);
  EXPECT_LT(page.row("lower").cells[column(page, "images")].effect->value, 0);
  EXPECT_EQ(column_heading(page, column(page, "language")), "language (score, nats) ↓");
}

TEST(DomainPage, LeavesOutOfRanksWhatLacksADomainAndNamesIt) {
  DomainRuns runs;
  add_alike(runs, {"standard", "whole", "part"}, 3, 4);
  std::erase_if(runs.all.runs, [](const RunRecord& run) {
    return run.attention == "part" && run.experiment == "language";
  });
  for (std::int64_t seed = 0; seed < 3; ++seed) {
    runs.all.absent.push_back(
        {"language", "part", seed, {Absence::incompatible, "attention 'part' is not causal"}, ""});
  }
  const DomainPage page = runs.build();
  const std::size_t language = column(page, "language");
  EXPECT_EQ(cell_text(page, page.row("part"), language), "incompatible");
  EXPECT_EQ(page.row("part").cells[language].row.gap.reason, "attention 'part' is not causal");
  ASSERT_TRUE(page.ranking);
  EXPECT_THAT(page.ranking->attentions, ElementsAre("standard", "whole"));
  EXPECT_THAT(page.left_out, Contains("part: no value in language"));
  EXPECT_THAT(page.row("part").without_effect, Contains("language: incompatible"));
  EXPECT_EQ(page.row("part").effects.size(), 5U) << "the other domains count";
}

TEST(DomainPage, KeepsTheColumnOfADomainThatNobodyHas) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 5);
  std::erase_if(runs.all.runs, [](const RunRecord& run) { return run.experiment == "points"; });
  for (const char* attention : {"standard", "mine"}) {
    runs.all.absent.push_back(
        {"points", attention, 0, {Absence::no_plugin, "there is no dataset 'rooms'"}, ""});
  }
  const DomainPage page = runs.build();
  const std::size_t points = column(page, "points");
  EXPECT_EQ(cell_text(page, page.row("mine"), points), "no plugin");
  ASSERT_TRUE(page.ranking);
  EXPECT_EQ(page.ranking->experiments.size(), 5U);
  EXPECT_THAT(page.left_out,
              Contains(AllOf(HasSubstr("points"), HasSubstr("there is no dataset 'rooms'"))));
}

TEST(DomainPage, KeepsTheColumnOfAnEvaluationThatNoRunHas) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 5);
  runs.page().columns.push_back({"images", "images", "fog/score", "fog", ColumnRole::robustness});
  const DomainPage page = runs.build();
  EXPECT_EQ(cell_text(page, page.row("mine"), page.columns.size() - 1), "no value");
  EXPECT_EQ(page.row("mine").effects.size(), 6U) << "the other columns are whole";
}

TEST(DomainPage, CountsColumnsOfOneDomainOnce) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 4, 6);
  runs.page().columns[1].domain = "images";
  runs.page().columns[1].title = "more";
  const DomainPage page = runs.build();
  ASSERT_TRUE(page.ranking);
  EXPECT_EQ(page.ranking->experiments.size(), 5U);
  const DomainRow& mine = page.row("mine");
  EXPECT_EQ(mine.effects.size(), 5U);
  const Effect &a = *mine.cells[0].effect, &b = *mine.cells[1].effect;
  EXPECT_NEAR(mine.effects.at("images").value, (a.value + b.value) / 2, 1e-12);
  EXPECT_NEAR(mine.effects.at("images").variance, (a.variance + b.variance) / 2, 1e-12);
}

TEST(DomainPage, ShowsRobustnessAndCountsItInNoSummary) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 4, 7);
  runs.page().columns[0].role = ColumnRole::robustness;
  const DomainPage page = runs.build();
  EXPECT_TRUE(page.row("mine").cells[0].row.contrast);
  EXPECT_EQ(page.row("mine").effects.size(), 5U);
  EXPECT_EQ(page.ranking->experiments.size(), 5U);
}

TEST(DomainPage, ChecksClaimsByWhatWasFound) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 5, 8);
  plant(runs, "mine", "graphs", 0.2);
  plant(runs, "mine", "points", -0.2);
  const auto claim = [](const std::string& attention, const std::string& experiment) {
    return PageClaim{attention, experiment, "score", true, "a paper", "it is better"};
  };
  runs.page().claims = {claim("mine", "graphs"), claim("mine", "points"), claim("mine", "images"),
                        claim("other", "graphs")};
  const DomainPage page = runs.build();
  ASSERT_EQ(page.claims.size(), 4U);
  EXPECT_EQ(name_of(page.claims[0].outcome), "holds");
  EXPECT_EQ(name_of(page.claims[1].outcome), "contradicted");
  EXPECT_EQ(name_of(page.claims[2].outcome), "not shown");
  EXPECT_EQ(name_of(page.claims[3].outcome), "not tested");
  EXPECT_THAT(page.claims[3].found, says({"not among these runs"}));
}

/// One domain, of which each run is 1 or 0: the first `gained` of `mine` are 1, none of standard's.
DomainPage outcome_page(std::int64_t seeds, std::int64_t gained) {
  DomainRuns runs;
  const std::vector<MetricInfo> infos = {{"score", Better::higher, "share of runs"}};
  for (std::int64_t seed = 0; seed < seeds; ++seed) {
    runs.add("images", "standard", seed, 0).infos = infos;
    runs.add("images", "mine", seed, seed < gained ? 1 : 0).infos = infos;
  }
  runs.page().claims = {claim_of("images", true)};
  return runs.build();
}

TEST(DomainPage, SaysThatOutcomesOfAFewRunsCannotBeTested) {
  for (const std::int64_t gained : {3, 2}) {  // every pair alike, and not
    const DomainPage page = outcome_page(3, gained);
    const DomainRow& mine = page.row("mine");
    EXPECT_EQ(cell_verdict(page, mine, column(page, "images")), "too few pairs");
    EXPECT_THAT(outcomes(page), ElementsAre("not tested"));
    EXPECT_THAT(page.claims[0].found, HasSubstr("; cannot be tested with 3 seeds"));
    EXPECT_THAT(page.claims[0].found, Not(HasSubstr("["))) << "an interval of normal differences";
  }
}

TEST(DomainPage, TestsOutcomesOfManyRunsBySigns) {
  const DomainPage all = outcome_page(10, 10);
  EXPECT_DOUBLE_EQ(all.row("mine").cells[column(all, "images")].row.contrast->test->p_value,
                   std::ldexp(1.0, -9));
  EXPECT_THAT(outcomes(all), ElementsAre("holds"));
  const DomainPage half = outcome_page(10, 5);
  EXPECT_DOUBLE_EQ(half.row("mine").cells[column(half, "images")].row.contrast->test->p_value,
                   std::ldexp(1.0, -4))
      << "five of five: Student's would say 0.015";
  EXPECT_THAT(outcomes(half), ElementsAre("not shown"));
  EXPECT_THAT(page_assumptions(half), Contains(HasSubstr("McNemar")));
}

TEST(DomainPage, TakesThePublishedNumbersOfASuiteForClaims) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 5, 9);
  plant(runs, "mine", "graphs", 0.2);
  PublishedNumbers published{"a table", "score", {}};
  published.values["graphs"] = {{"standard", "70.0"}, {"mine", "72.5"}};
  published.values["images"] = {{"standard", "80.0"}, {"mine", "80.0"}};
  runs.all.suites.front().published = {published};
  const DomainPage page = runs.build();
  ASSERT_EQ(page.claims.size(), 1U) << "equal numbers claim nothing";
  EXPECT_EQ(page.claims[0].claim.text, "score 72.5 (+2.5)");
  EXPECT_EQ(name_of(page.claims[0].outcome), "holds");
}

TEST(DomainPage, ComparesTimeOnOneKindOfMachineAlone) {
  DomainRuns runs;
  for (const char* domain : {"images", "language"}) {
    for (std::int64_t seed = 0; seed < 2; ++seed) {
      for (const char* attention : {"standard", "slow"}) {
        RunRecord& run = runs.add(domain, attention, seed, 0.5 + 0.1 * static_cast<double>(seed));
        const bool slow = std::string(attention) == "slow";
        run.costs = {{"parameters", slow ? 110 : 100},
                     {"examples_per_second", slow ? 50 : 100},
                     {"peak_memory", slow ? 3e8 : 1e8}};
        run.environment["machine.cpu"] =
            slow && std::string(domain) == "language" ? "another" : "this";
      }
    }
  }
  const CostRatios costs = runs.build().row("slow").costs;
  EXPECT_NEAR(*costs.parameters, 1.1, 1e-12);
  EXPECT_NEAR(*costs.time, 2, 1e-12) << "of images alone";
  EXPECT_NEAR(*costs.memory, 3, 1e-12);
  EXPECT_FALSE(costs.flops);
  for (RunRecord& run : runs.all.runs) run.environment["machine.cpu"] = run.attention;
  EXPECT_FALSE(runs.build().row("slow").costs.time);
}

// The exact variance of four pairs lies above the rough one of three.
TEST(DomainPage, ThreePairsNeverWeighMoreThanFour) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 4, 16);
  const auto drop = [](const RunRecord& run) {
    return run.experiment == "graphs" && run.seed == 3;
  };
  const DomainPage all = runs.build();
  EXPECT_FALSE(all.row("mine").rough);
  EXPECT_NEAR(all.row("mine").effects.at("graphs").variance, null_variance(4), 1e-12);
  std::erase_if(runs.all.runs, drop);
  const DomainRow mixed = runs.build().row("mine");
  EXPECT_TRUE(mixed.rough);
  EXPECT_NEAR(mixed.effects.at("graphs").variance, rough_variance(3), 1e-12);
  EXPECT_NEAR(mixed.effects.at("images").variance, rough_variance(4), 1e-12);
}

TEST(DomainPage, ADomainThatIsLeftOutMakesNoVarianceRough) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 4, 16);
  runs.page().columns[1].domain = "images";
  runs.page().columns[1].title = "more";
  std::erase_if(runs.all.runs, [](const RunRecord& run) {  // three pairs
    return run.attention == "mine" && run.experiment == "images" && run.seed == 3;
  });
  EXPECT_TRUE(runs.build().row("mine").rough) << "while the domain counts";
  diverge(runs, "mine", "language", 0);
  const DomainRow mine = runs.build().row("mine");
  EXPECT_THAT(mine.without_effect, ElementsAre("images: diverged"));
  EXPECT_FALSE(mine.rough);
  EXPECT_NEAR(mine.effects.at("graphs").variance, null_variance(4), 1e-12);
}

// Beyond 20 pairs signs are drawn, which reaches no smaller p-value with more of them.
TEST(DomainPage, AsksForNoSeedsWhereNoneAreEnough) {
  DomainRuns runs;
  for (std::int64_t seed = 0; seed < 23; ++seed) {
    for (const char* attention : {"standard", "mine"}) {
      RunRecord& run = runs.add("images", attention, seed, *attention == 'm' ? 1 : 0);
      run.infos = {{"score", Better::higher, "share of runs"}};
    }
  }
  CompareOptions options;
  options.level = 1e-6;
  const DomainPage page = build_domain_page(runs.all, options, "");
  EXPECT_THAT(page.row("mine").cells[0].row.contrast->gap.reason,
              says({"23 seeds", "level 1e-06"}));
}

TEST(DomainPage, SaysWhatItTakesForGranted) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 10);
  const auto sentences = page_assumptions(runs.build());
  EXPECT_THAT(sentences, Contains(HasSubstr("at most 0.05")));
  EXPECT_THAT(sentences, Contains(HasSubstr("independent domains")));
}

}  // namespace
}  // namespace attnlab::domains_test
