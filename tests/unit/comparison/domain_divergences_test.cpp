// The page over domains where runs diverge: that is a result, counted among the seeds that ran, and
// what survives it is not a finding.
#include "framework/comparison/domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/made_domains.h"
#include "tests/support/message_of.h"

namespace attnlab::domain_divergences_test {
namespace {

using attnlab::testing::mentions;
using testing::add_alike;
using testing::claim_of;
using testing::column;
using ::testing::Contains;
using testing::diverge;
using testing::DomainRuns;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kDomains;
using testing::outcomes;
using testing::plant;

TEST(DomainPage, CountsADivergenceAgainstAnAttentionAndNamesIt) {
  DomainRuns runs;
  add_alike(runs, {"standard", "wild", "calm"}, 3, 3);
  plant(runs, "wild", "images", 0.2);
  for (RunRecord& run : runs.all.runs) {
    if (run.attention != "wild" || run.experiment != "images" || run.seed == 0) continue;
    run.status.state = RunState::diverged;
    run.status.reason = "loss is nan at step 12";
  }
  const DomainPage page = runs.build();
  const std::size_t images = column(page, "images");
  EXPECT_EQ(cell_verdict(page, page.row("wild"), images), "2 of 3 diverged");
  EXPECT_FALSE(page.row("wild").cells[images].effect) << "a survivor is not the attention";
  EXPECT_THAT(page.row("wild").without_effect, Contains("images: diverged"));
  ASSERT_TRUE(page.ranking) << page.no_ranking;
  EXPECT_THAT(page.ranking->attentions, Contains("wild")) << "it is ranked, and last there";
}

TEST(DomainPage, DoesNotTakeSurvivorsOfADivergenceForAFinding) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 8, 11);
  for (const char* domain : kDomains) plant(runs, "mine", domain, 0.3);
  diverge(runs, "mine", "graphs", 7);
  diverge(runs, "mine", "points", 0);
  runs.page().claims = {claim_of("images", true), claim_of("graphs", true),
                        claim_of("graphs", false), claim_of("points", true),
                        claim_of("points", false)};
  const DomainPage page = runs.build();
  EXPECT_THAT(outcomes(page),
              ElementsAre("holds", "not shown", "not shown", "contradicted", "holds"));
  EXPECT_THAT(page.claims[1].found, HasSubstr("; 1 of 8 diverged"));
  EXPECT_EQ(page.claims[4].found, "8 of 8 diverged");
  EXPECT_FALSE(page.row("mine").cells[column(page, "graphs")].row.contrast->significant);
}

TEST(DomainPage, ShowsAnAttentionWhereTheBaselineDivergedAndItDidNot) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 12);
  diverge(runs, "standard", "images", 0);
  diverge(runs, "standard", "graphs", 2);
  runs.page().columns[0].role = ColumnRole::stability;
  runs.page().claims = {claim_of("images", true), claim_of("images", false),
                        claim_of("graphs", true)};
  const DomainPage page = runs.build();
  const std::size_t images = column(page, "images"), graphs = column(page, "graphs");
  const DomainRow& mine = page.row("mine");
  EXPECT_THAT(cell_text(page, mine, images), ::testing::StartsWith("mean "));
  EXPECT_EQ(cell_verdict(page, mine, images), "standard: 3 of 3 diverged");
  EXPECT_EQ(cell_verdict(page, mine, graphs), "standard: 1 of 3 diverged");
  EXPECT_FALSE(mine.cells[graphs].effect) << "the baseline's survivors are not the baseline";
  EXPECT_THAT(mine.without_effect, ElementsAre("graphs: standard diverged"));
  EXPECT_THAT(outcomes(page), ElementsAre("holds", "contradicted", "not shown"));
}

TEST(DomainPage, SaysOfAnAbsenceThatItIsOneWhereTheBaselineDiverged) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 12);
  diverge(runs, "standard", "images", 0);
  std::erase_if(runs.all.runs, [](const RunRecord& run) {
    return run.attention == "mine" && run.experiment == "images";
  });
  runs.all.absent.push_back({"images", "mine", 0, {Absence::incompatible, "no mask"}, ""});
  runs.page().claims = {claim_of("images", true)};
  const DomainPage page = runs.build();
  EXPECT_EQ(cell_verdict(page, page.row("mine"), column(page, "images")), "incompatible");
  EXPECT_THAT(outcomes(page), ElementsAre("not tested"));
}

TEST(DomainPage, TheWorstColumnIsTheOneThatDiverged) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 5, 13);
  plant(runs, "mine", "points", -0.4);
  EXPECT_EQ(*runs.build().row("mine").worst, 4U);
  diverge(runs, "mine", "language", 4);
  EXPECT_EQ(*runs.build().row("mine").worst, 1U);
}

TEST(DomainPage, ADivergedSeedIsNotMissing) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 3, 21);
  diverge(runs, "mine", "images", 2);
  const DomainPage page = runs.build();
  EXPECT_EQ(missing_text(page, page.row("mine"), column(page, "images")), "");
  EXPECT_THAT(page_absences(page),
              ElementsAre(mentions("images, mine, seed 2: diverged:", "nan at step 12")));
}

/// In every domain: the baseline's nine seeds, `mine` with three that all diverged, and `other`
/// with nine, of which four diverged.
DomainRuns with_fewer_seeds() {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine", "other"}, 9, 22);
  std::erase_if(runs.all.runs,
                [](const RunRecord& run) { return run.attention == "mine" && run.seed > 2; });
  for (const char* domain : kDomains) {
    diverge(runs, "mine", domain, 0);
    diverge(runs, "other", domain, 5);
  }
  return runs;
}

TEST(DomainPage, CountsDivergencesAmongTheSeedsThatAnAttentionRan) {
  DomainRuns runs = with_fewer_seeds();
  runs.page().claims = {claim_of("points", false), claim_of("points", true)};
  const DomainPage page = runs.build();
  EXPECT_EQ(cell_verdict(page, page.row("mine"), column(page, "points")), "3 of 3 diverged");
  EXPECT_EQ(cell_verdict(page, page.row("other"), column(page, "points")), "4 of 9 diverged");
  EXPECT_THAT(outcomes(page), ElementsAre("holds", "contradicted"));
  EXPECT_EQ(page.claims[0].found, "3 of 3 diverged");
  ASSERT_TRUE(page.ranking) << page.no_ranking;
  EXPECT_THAT(page.ranking->attentions, ElementsAre("standard", "mine", "other"));
  EXPECT_THAT(page.ranking->test.mean_ranks,
              ElementsAre(DoubleNear(1, 1e-12), DoubleNear(3, 1e-12), DoubleNear(2, 1e-12)));
}

TEST(DomainPage, CountsNoSeedsThatHaveNotBegun) {
  DomainRuns runs = with_fewer_seeds();
  runs.page().claims = {claim_of("points", false)};
  for (const char* domain : kDomains) {
    for (std::int64_t seed = 3; seed < 9; ++seed) {
      runs.add(domain, "mine", seed, 0).status.state = RunState::pending;  // a suite was stopped
    }
  }
  const DomainPage page = runs.build();
  EXPECT_EQ(cell_verdict(page, page.row("mine"), column(page, "points")), "3 of 3 diverged");
  EXPECT_THAT(outcomes(page), ElementsAre("not shown")) << "six may end otherwise";
}

TEST(DomainPage, CountsTheBaselinesDivergencesAmongTheSeedsThatItRan) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 9, 22);
  std::erase_if(runs.all.runs,
                [](const RunRecord& run) { return run.attention == "standard" && run.seed > 2; });
  diverge(runs, "standard", "points", 0);
  const DomainPage page = runs.build();
  EXPECT_EQ(cell_verdict(page, page.row("mine"), column(page, "points")),
            "standard: 3 of 3 diverged");
}

TEST(DomainPage, TheWorstColumnIsTheOneWithTheLargestShareOfWhatRan) {
  DomainRuns runs;
  add_alike(runs, {"standard", "mine"}, 9, 22);
  std::erase_if(runs.all.runs, [](const RunRecord& run) {
    return run.attention == "mine" && run.experiment == "points" && run.seed > 2;
  });
  diverge(runs, "mine", "points", 0);    // three of three
  diverge(runs, "mine", "language", 5);  // four of nine
  const DomainPage page = runs.build();
  ASSERT_TRUE(page.row("mine").worst);
  EXPECT_EQ(page.columns[*page.row("mine").worst].domain, "points");
}

TEST(DomainPage, RanksAnAttentionThatDivergesBehindAllOthers) {
  DomainRuns runs;
  for (const char* domain : kDomains) {
    for (std::int64_t seed = 0; seed < 3; ++seed) {
      runs.add(domain, "standard", seed, 0.5 + 0.001 * static_cast<double>(seed));
      runs.add(domain, "wild", seed, 0.9).status.state = RunState::diverged;
      runs.add(domain, "worse", seed, 0.2);
    }
  }
  const DomainPage page = runs.build();
  ASSERT_TRUE(page.ranking) << page.no_ranking;
  EXPECT_THAT(page.ranking->attentions, ElementsAre("standard", "wild", "worse"));
  EXPECT_THAT(page.ranking->test.mean_ranks,
              ElementsAre(DoubleNear(1, 1e-12), DoubleNear(3, 1e-12), DoubleNear(2, 1e-12)));
}

}  // namespace
}  // namespace attnlab::domain_divergences_test
