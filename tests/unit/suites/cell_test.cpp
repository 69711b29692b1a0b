#include "framework/suites/cell.h"

#include <chrono>
#include <filesystem>

#include "framework/runs/run_lock.h"
#include "tests/support/made_parts.h"

namespace attnlab::cell_test {
namespace {

using namespace testing;

class CellTest : public ::testing::Test {
 protected:
  Cell cell(const std::string& data = "d") const {
    return make_cell(parts_.resolve(kImages), 3, temp_ / "runs/s", data);
  }
  static void finish(const Cell& cell, RunState state, const std::string& reason = "") {
    cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
    cell.folder.write_status({state, 1, 2, 1, 2, {}, reason});
  }
  static Cell decided(const Cell& cell, const Rerun& rerun = {}) {
    std::vector<Cell> cells = {cell};
    decide(cells, rerun);
    return cells.front();
  }
  void change_file(const std::string& name) const {
    const std::string path = parts_.folder() / ("plugins/" + name + ".so");
    write_file(path, read_text(path) + '\0');
  }

  const MadeParts parts_;
  const TempFolder temp_;
};

TEST_F(CellTest, FinishedCellsAreNeverRunAgain) {
  for (const RunState state : {RunState::done, RunState::diverged}) {
    finish(cell(), state);
    EXPECT_EQ(decided(cell(), {true, true}).action, CellAction::finished);
  }
}

TEST_F(CellTest, FreshInterruptedAndKilledCellsAreRun) {
  EXPECT_EQ(decided(cell()).action, CellAction::run);
  for (const RunState state : {RunState::pending, RunState::interrupted, RunState::running}) {
    finish(cell(), state);
    EXPECT_EQ(decided(cell()).action, CellAction::run) << name_of(state);
  }
}

TEST_F(CellTest, FailedCellsAreRunOnlyWhenAskedTo) {
  finish(cell(), RunState::failed, "no memory");
  const Cell left = decided(cell());
  EXPECT_EQ(left.action, CellAction::failed);
  EXPECT_EQ(left.reason, "no memory");
  EXPECT_EQ(decided(cell(), {.failed = false, .stale = true}).action, CellAction::failed);
  EXPECT_EQ(decided(cell(), {.failed = true}).action, CellAction::run);
}

TEST_F(CellTest, AChangedPluginMakesAFinishedCellStale) {
  const Cell before = cell();
  finish(before, RunState::done);
  change_file("quest");
  const Cell left = decided(cell());
  EXPECT_EQ(left.action, CellAction::stale);
  EXPECT_THAT(left.reason, says({"attention 'quest' changed"}));
  EXPECT_EQ(left.folder.path(), before.folder.path()) << "where the old numbers are";
  EXPECT_EQ(decided(cell(), {.failed = true}).action, CellAction::stale);
  const Cell fresh = decided(cell(), {.stale = true});
  EXPECT_EQ(fresh.action, CellAction::run);
  EXPECT_NE(fresh.folder.path(), before.folder.path());
  finish(fresh, RunState::interrupted);
  EXPECT_EQ(decided(cell()).action, CellAction::run) << "once begun, the new run goes on by itself";
}

TEST_F(CellTest, ChangedDataMakeACellStale) {
  finish(cell("d1"), RunState::done);
  const Cell left = decided(cell("d2"));
  EXPECT_EQ(left.action, CellAction::stale);
  EXPECT_THAT(left.reason, says({"data", "'pictures' changed"}));
}

TEST_F(CellTest, OfEarlierRunsTheLastBegunIsTheStaleOneInACopyToo) {
  const Cell first = cell("d1"), second = cell("d2");
  for (const Cell* one : {&first, &second}) finish(*one, RunState::done);
  for (const Cell* later : {&first, &second}) {
    const Cell* earlier = later == &first ? &second : &first;
    write_file(earlier->folder.file("environment.json"), R"({"started": "2026-03-01T00:00:00Z"})");
    write_file(later->folder.file("environment.json"), R"({"started": "2026-03-01T00:00:01Z"})");
    // A copy's files have the times at which they were copied.
    std::filesystem::last_write_time(
        later->folder.file("status.json"),
        std::filesystem::last_write_time(earlier->folder.file("status.json")) -
            std::chrono::hours(1));
    EXPECT_EQ(decided(cell("d3")).folder.path(), later->folder.path());
  }
}

TEST_F(CellTest, ARunOfAnotherRevisionCountsByTheUsersWordAlone) {
  Cell before = cell();
  before.identity.framework = "0123456789abcdef";
  before.folder = RunFolder::of(temp_ / "runs/s", before.experiment, 3, before.identity);
  finish(before, RunState::done);
  const Cell left = decided(cell());
  EXPECT_EQ(left.action, CellAction::stale);
  EXPECT_TRUE(left.other_revision);
  EXPECT_THAT(left.reason, StartsWith("the framework changed (revision 01234567 -> "));
  const Cell accepted = decided(cell(), {.accept_revision = true});
  EXPECT_EQ(accepted.action, CellAction::finished);
  EXPECT_EQ(accepted.folder.path(), before.folder.path());
  EXPECT_EQ(decided(cell()).action, CellAction::stale) << "nothing is recorded by deciding";
  {
    const RunLock other(before.folder.path());
    EXPECT_THAT(message_of<BusyError>([&] { record_accepted({accepted}); }),
                HasSubstr("is being run by"));
  }
  EXPECT_EQ(decided(cell()).action, CellAction::stale) << "the lock comes before the first byte";
  record_accepted({accepted});
  EXPECT_EQ(decided(cell()).action, CellAction::finished) << "it need not be said again";
  EXPECT_EQ(decided(cell()).folder.path(), before.folder.path());
  change_file("quest");
  EXPECT_EQ(decided(cell(), {.accept_revision = true}).action, CellAction::stale)
      << "more than the framework changed";
}

TEST_F(CellTest, AnUnfinishedRunOfAnotherRevisionIsNotGoneOnWith) {
  Cell before = cell();
  before.identity.framework = "0123456789abcdef";
  before.folder = RunFolder::of(temp_ / "runs/s", before.experiment, 3, before.identity);
  finish(before, RunState::interrupted);
  const Cell left = decided(cell(), {.accept_revision = true});
  EXPECT_EQ(left.action, CellAction::stale);
  EXPECT_THAT(left.reason, EndsWith("; it was interrupted"));
}

TEST_F(CellTest, AFailedCellWhosePluginWasMendedRunsWithEitherWord) {
  finish(cell(), RunState::failed, "crash");
  change_file("quest");
  EXPECT_THAT(decided(cell()).reason, says({"'quest' changed", "was failed"}));
  EXPECT_EQ(decided(cell(), {.failed = true}).action, CellAction::run);
  EXPECT_EQ(decided(cell(), {.stale = true}).action, CellAction::run);
}

TEST_F(CellTest, ARunThatNeverBeganIsNotStale) {
  const Cell before = cell();
  before.folder.freeze(before.experiment, before.seed, before.identity);
  change_file("quest");
  EXPECT_EQ(decided(cell()).action, CellAction::run);
}

TEST_F(CellTest, AnotherSeedOrConfigurationIsAnotherCell) {
  finish(cell(), RunState::done);
  Cell other = make_cell(parts_.resolve(kImages), 30, temp_ / "runs/s", "other");
  EXPECT_EQ(decided(other).action, CellAction::run);
  other = make_cell(parts_.resolve(kImages + "train: {epochs: 3}\n"), 3, temp_ / "runs/s", "other");
  EXPECT_EQ(decided(other).action, CellAction::run);
}

TEST_F(CellTest, ACellThatAnotherProcessRunsIsLeft) {
  finish(cell(), RunState::running);
  const RunLock lock(cell().folder.path());
  const Cell left = decided(cell());
  EXPECT_EQ(left.action, CellAction::busy);
  EXPECT_THAT(left.reason, StartsWith("is being run by process "));
}

TEST_F(CellTest, DataAreAskedForOncePerDatasetSection) {
  std::vector<Cell> cells;
  for (const char* more : {"", "train: {epochs: 3}\n"}) {
    for (const int seed : {0, 1}) {
      cells.push_back(make_cell(parts_.resolve(kImages + more), seed, "r"));
    }
  }
  cells.push_back(
      make_cell(parts_.resolve("schema: 1\nmodel: vit\nattention: quest\ntask: sorting\n"
                               "dataset: {use: pictures, root: elsewhere}\n"),
                0, "r"));
  std::vector<std::string> asked;
  identify(cells, "r", [&](const Experiment& experiment) {
    asked.push_back(experiment.dataset.options.at("root").text());
    return "data in " + asked.back();
  });
  EXPECT_THAT(asked, ElementsAre("", "elsewhere"));
  EXPECT_EQ(cells[3].identity.data, "data in ");
  EXPECT_EQ(cells[4].identity.data, "data in elsewhere");
  EXPECT_THAT(cells[0].folder.path(), EndsWith(cells[0].identity.hash().substr(0, 8)));
}

TEST_F(CellTest, AFailureThatIsRunAgainGoesOnFromItsCheckpoint) {
  const RunFolder folder = cell().folder;
  finish(cell(), RunState::failed, "no memory");
  clear_failure(folder);
  EXPECT_EQ(folder.status().state, RunState::pending);
  finish(cell(), RunState::failed, "no memory");
  write_file(folder.file("checkpoint.safetensors"), "x");
  clear_failure(folder);
  EXPECT_EQ(folder.status().state, RunState::interrupted);
  EXPECT_EQ(folder.status().step, 1);
  EXPECT_EQ(folder.status().reason, "");
}

TEST(RerunWords, AreFailedAndStale) {
  EXPECT_TRUE(parse_rerun({"failed,stale"}).stale);
  EXPECT_TRUE(parse_rerun({"failed", "stale"}).failed);
  EXPECT_FALSE(parse_rerun({"stale"}).failed);
  EXPECT_THAT(message_of<ConfigError>([] { parse_rerun({"faild"}); }),
              says({"--rerun:", "'faild'", "'failed'"}));
}

}  // namespace
}  // namespace attnlab::cell_test
