// Files of stored runs: what they hold, and which of them are refused.
#include <filesystem>
#include <string>
#include <vector>

#include "framework/suites/stored_cells.h"
#include "tests/support/unprivileged.h"
#include "tests/unit/suites/made_stored_cells.h"

namespace attnlab::stored_files_test {
namespace {

using namespace testing;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_F(StoredCells, AStoredRunReadsBackAsItWas) {
  keep_all();
  const std::vector<std::string> files = kept_files();
  ASSERT_EQ(files.size(), 2U);
  const StoredRun run = read_stored(files.front());
  EXPECT_EQ(run.experiment + "/" + run.attention, "small/quest");
  EXPECT_EQ(run.status.metrics.at("accuracy"), 0.7);
  ASSERT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.evaluations.front().metrics.at("accuracy"), 0.35);
  EXPECT_THAT(run.config, HasSubstr("use: quest"));
  EXPECT_EQ(stored_json(run), read_text(files.front())) << "equal runs are equal files";
  EXPECT_LT(read_text(files.front()).size(), 10000U) << "small enough to keep";
}

TEST_F(StoredCells, AFolderThatCannotBeReadIsNamedAndHidesNoOther) {
  keep_all();
  fs::create_symlink("nowhere", temp_ / "kept/small/quest/dangling.json");
  EXPECT_EQ(kept_files().size(), 2U);
  const std::string closed = temp_ / "kept/small/quest";
  fs::permissions(closed, fs::perms::none);
  const Unprivileged user(temp_.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  std::vector<std::string> unreadable;
  EXPECT_THAT(stored_files(temp_ / "kept", unreadable), ElementsAre(HasSubstr("small/standard/")));
  EXPECT_THAT(unreadable, ElementsAre(mentions(closed, "Permission denied", "permissions")));
}

TEST_F(StoredCells, StoredFilesNameNoHostAndNoFolderOfAnybody) {
  keep_all();
  const std::string text = read_text(kept_files().front());
  EXPECT_THAT(text, AllOf(HasSubstr("a processor"), Not(HasSubstr("secret")),
                          Not(HasSubstr("/home/me")), Not(HasSubstr(temp_.path()))));
}

TEST_F(StoredCells, AreNotUsedOnceEdited) {
  keep_all();
  const std::string file = kept_files().front();
  std::string text = read_text(file);
  text.replace(text.find("0.7"), 3, "0.9");
  write_file(file, text);
  EXPECT_THAT(
      message_of<DataError>([&] { read_stored(file); }),
      AllOf(StartsWith(file + ": not a stored run: "), HasSubstr("does not fit its check")));
}

TEST_F(StoredCells, DoNotLeadOutOfTheFolderOfTheirRun) {
  keep_all();
  StoredRun run = read_stored(kept_files().front());
  run.evaluations.front().hash = "/../../../x";
  const std::string file = temp_ / "foreign.json";
  write_file(file, stored_json(run));  // its check fits
  EXPECT_THAT(message_of<DataError>([&] { read_stored(file); }),
              AllOf(StartsWith(file + ": not a stored run: "), mentions("hash", "hexadecimal")));
}

TEST_F(StoredCells, TwoEvaluationsOfOneFileAreRefused) {
  keep_all();
  edit([](json& in) {
    json& all = in["evaluations"];
    all.push_back(all[0]);
    all[0]["entry"] = "swap/1";
    all[1]["entry"] = "swap~1";
  });
  const StoredUse use = found();
  EXPECT_THAT(use.matches, IsEmpty());
  ASSERT_EQ(use.damaged.size(), 2U);
  EXPECT_THAT(use.damaged.front(), HasSubstr("two evaluations 'swap~1'"));
}

TEST_F(StoredCells, ADamagedFileIsNamedAndTheOthersAreUsed) {
  keep_all();
  const std::string first = kept_files().front();
  write_file(first, "{\"schema\": 1");
  const StoredUse use = found();
  EXPECT_EQ(use.matches.size(), 1U);
  ASSERT_EQ(use.damaged.size(), 1U);
  EXPECT_THAT(use.damaged.front(), AllOf(StartsWith(first), HasSubstr("not a stored run")));
}

TEST_F(StoredCells, AFolderThatIsNotThereHoldsNone) { EXPECT_EQ(found().files, 0U); }

TEST_F(StoredCells, ARunThatIsNotFinishedIsNotStored) {
  const Cell cell = suite("elsewhere").cells.front();
  cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
  const std::string said = message_of<ConfigError>([&] { stored_of(cell.folder.path()); });
  EXPECT_THAT(said, mentions("is pending", "only finished runs"));
}

}  // namespace
}  // namespace attnlab::stored_files_test
