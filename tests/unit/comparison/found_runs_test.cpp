// Which runs below some folders a comparison is of.
#include <filesystem>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"
#include "tests/unit/comparison/made_comparison.h"

namespace attnlab::found_runs_test {
namespace {

using namespace testing;
using nlohmann::json;

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

}  // namespace
}  // namespace attnlab::found_runs_test
