// Results side by side: when they count as the same.
#include "framework/sharing/result_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/runs/run_folder.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {
namespace {

using sharing::compare_results;
using ::testing::HasSubstr;

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

std::vector<RunRecord> runs_of(const std::vector<double>& values) {
  std::vector<RunRecord> runs;
  for (const double value : values) {
    runs.push_back(run_of(static_cast<std::int64_t>(runs.size()), value));
  }
  return runs;
}

std::string verdict(const std::vector<double>& there, const std::vector<double>& here) {
  const auto all = compare_results(runs_of(there), runs_of(here));
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
  EXPECT_EQ(verdict({0.5}, {0.5 + 1e-8}), "agrees");
  EXPECT_EQ(verdict({0.5}, {0.51}), "DIFFERS");
}

TEST(Reproduction, SaysWhereThereIsNoValue) {
  EXPECT_EQ(verdict({0.5}, {}), "no value");
  EXPECT_EQ(verdict({0.5}, {std::nan("")}), "no value");
}

TEST(Reproduction, ComparesSeedsThatBothHave) {
  const auto all = compare_results(runs_of({0.5, 0.6, 0.7}), runs_of({0.5, 0.6}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].there.size(), 2U);
  EXPECT_THAT(reproduction_text(all), HasSubstr("identical"));
}

// A stored result that is packed again must not pass for a run of the lab that packs it.
TEST(ResultFiles, OfAStoredResultKeepTheMarkAndHaveNoLock) {
  const TempFolder temp;
  temp.write("runs/small/quest/0-12345678/config.yaml",
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: quest}\n");
  temp.write("runs/small/quest/0-12345678/stored.json",
             R"({"from": "kept/0.json", "identity": {"plugins": {}}})");
  RunFolder(temp / "runs/small/quest/0-12345678")
      .write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  const sharing::ResultFiles packed = sharing::result_files(temp / "runs", none, false);
  std::vector<std::string> names;
  for (const auto& file : packed.files) {
    names.push_back(file.path.substr(file.path.rfind('/') + 1));
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("config.yaml", "status.json", "stored.json"));
  EXPECT_THAT(packed.notes, ::testing::Contains(HasSubstr("has no lock; it is a stored result")));
}

}  // namespace
}  // namespace attnlab::testing
