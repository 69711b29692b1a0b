// Results side by side: when they count as the same.
#include "framework/sharing/result_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "framework/base/files.h"
#include "framework/runs/run_folder.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/result_locks.h"
#include "tests/support/made_runs.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;
using sharing::compare_results;
using sharing::RunPair;
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

/// Runs by seed; those beyond the shorter list could not be run here.
std::vector<RunPair> pairs_of(const std::vector<double>& there, const std::vector<double>& here) {
  std::vector<RunPair> pairs;
  for (std::size_t seed = 0; seed < there.size(); ++seed) {
    RunPair pair{run_of(static_cast<std::int64_t>(seed), there[seed]), std::nullopt};
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
  EXPECT_EQ(verdict({0.5}, {0.5 + 1e-8}), "agrees");
  EXPECT_EQ(verdict({0.5}, {0.51}), "DIFFERS");
}

TEST(Reproduction, SaysWhereThereIsNoValue) {
  EXPECT_EQ(verdict({0.5}, {}), "no value");
  EXPECT_EQ(verdict({0.5}, {std::nan("")}), "no value");
}

TEST(Reproduction, ComparesSeedsThatBothHave) {
  const auto all = compare_results(pairs_of({0.5, 0.6, 0.7}, {0.5, 0.6}));
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

TEST(Reproduction, ComparesEachRunWithItsOwnRepetition) {
  // Two configurations of one label and seed: by the label they would be crossed.
  std::vector<RunPair> pairs = pairs_of({0.1, 0.9}, {0.1, 0.9});
  pairs[1].there.seed = pairs[1].here->seed = 0;
  const auto all = compare_results(pairs);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].there, all[0].here);
  EXPECT_EQ(all[0].verdict, "identical");
}

TEST(Reproduction, OnOtherDataIsNone) {
  std::vector<RunPair> pairs = pairs_of({0.5, 0.6}, {0.5, 0.6});
  pairs[1].other_data = true;
  const auto all = compare_results(pairs);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].verdict, "OTHER DATA");
  EXPECT_FALSE(all[0].agrees());
  EXPECT_THAT(all[0].why, HasSubstr("1 of its runs had other data than there"));
}

TEST(ResultFiles, HoldRunsOfAnyNameUnderNumbers) {
  const TempFolder folder;
  const std::string label = "quest [dim = 8] ~ für 3";
  const RunFolder run(folder / ("runs/small/" + label + "/0-0123456789abcdef"));
  fs::create_directories(run.path() + "/evaluations");
  write_file(run.file("config.yaml"),
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: quest, "
             "as: '" +
                 label + "'}\n");
  write_file(run.file("identity.json"), "{}");
  write_file(run.file("evaluations/swap~0.01-00.json"), "{}");
  write_environment(run);
  RunStatus status;
  status.state = RunState::done;
  status.metrics = {{"accuracy", 0.5}};
  run.write_status(status);
  const auto packed =
      sharing::result_files(folder / "runs", sharing::Store({folder / "c", folder / "s"}), false);
  const std::string bytes = sharing::write_archive(packed.files);
  std::map<std::string, std::string> files;
  sharing::read_archive(bytes, [&](sharing::ArchiveFile file) { files[file.path] = file.bytes; });
  EXPECT_EQ(files.count("runs/run-00001/identity.json"), 1U);
  EXPECT_EQ(files.count("runs/run-00001/evaluations/00001.json"), 1U);
  EXPECT_THAT(files.at("runs/run-00001/config.yaml"), HasSubstr(label));
}

std::string lock_naming(const std::string& sha256) {
  return R"({"format":1,"framework":{"version":"0.1.0","revision":"abc"},"data":["d1"],"parts":[
    {"kind":"attention","id":"acme/sharp","version":"1.0.0","bundle":{"sha256":")" +
         sha256 + R"("}},{"kind":"model","id":"attnlab/vit","version":"1.0.0"}]})";
}

TEST(ResultLocks, SayWhichBundlesTheRunsUsed) {
  sharing::ResultLocks locks;
  locks.add(lock_naming("abc"));
  locks.add(lock_naming("abc"));
  EXPECT_EQ(locks.parts.size(), 2U);
  EXPECT_TRUE(locks.names_bundle("abc"));
  EXPECT_FALSE(locks.names_bundle("def"));
  EXPECT_EQ(locks.data, std::set<std::string>{"d1"});
  EXPECT_THROW(locks.add("{}"), sharing::BundleError);
  EXPECT_THROW(locks.add("{"), sharing::BundleError);
  EXPECT_THROW(locks.add(std::string(100'000, '[')), sharing::BundleError);
}

TEST(ResultLocks, RefusePluginsThatNoRunUsed) {
  const Lab acme("acme");
  sharing::Bundle result;
  result.contents = made_contents("borealis/two");
  result.files = {{"plugins/sharp.attnlab", signed_bundle(acme)}, {"runs/run-00001/x", ""}};
  sharing::ResultLocks locks;
  locks.add(lock_naming(sharing::sha256(result.files[0].bytes)));
  EXPECT_NO_THROW(refuse_plugins_without_lock(result, locks));
  result.files.push_back({"plugins/other.attnlab", signed_bundle(acme, "1.0.1")});
  EXPECT_THROW(refuse_plugins_without_lock(result, locks), sharing::TrustError);
}

}  // namespace
}  // namespace attnlab::testing
