// Stored runs in the place of a suite's runs: which they replace, and which files they leave.
#include "framework/suites/stored_cells.h"

#include <filesystem>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"
#include "framework/runs/run_records.h"
#include "tests/unit/suites/made_stored_cells.h"

namespace attnlab::stored_cells_test {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::Contains;
namespace fs = std::filesystem;

TEST_F(StoredCells, StandForRunsThatAgreeInEverything) {
  keep_all();
  Suite here = restored();
  for (const Cell& cell : here.cells) {
    EXPECT_EQ(cell.action, CellAction::finished);
    EXPECT_EQ(cell.folder.status().state, RunState::done);
  }
  const auto rows = summarise(here);
  EXPECT_EQ(rows.at(1).metrics.at("accuracy").mean, 0.7);
  EXPECT_EQ(rows.at(1).metrics.at("fog/accuracy").mean, 0.35);
  EXPECT_EQ(suite().cells.front().action, CellAction::finished) << "the next call finds them";
}

TEST_F(StoredCells, ComparisonsSayWhichRunsWereStored) {
  keep_all();
  Suite here = restored();
  const RunCollection runs = find_runs({here.folder});
  const Comparison comparison = compare_runs(runs, {}, "standard");
  EXPECT_THAT(comparison.notes, Contains(mentions("stored results", "quest, standard, each",
                                                  "small: 1 run, seed 0")));
  EXPECT_THAT(comparison.differences, IsEmpty());
}

TEST_F(StoredCells, CompareWithRunsOfAnotherBuildOfTheSamePlugins) {
  keep_all();
  Suite here = suite();
  StoredUse use = found(here);
  use.matches.resize(1);
  use_stored(use, here);
  finish(here.cells.back(), 0.9);
  write_environment(here.cells.back().folder,
                    {{"data", {{"fingerprint", "d1"}}}, {"model", {{"hash", "of another build"}}}});
  const Comparison comparison = compare_runs(find_runs({here.folder}), {}, "standard");
  EXPECT_THAT(comparison.differences, IsEmpty()) << comparison.differences.front().text();
}

TEST_F(StoredCells, AreNotUsedForAnotherConfiguration) {
  keep_all();
  EXPECT_EQ(refusal(suite("runs", "set: {train: {epochs: 3}}\n")),
            "small/standard/0: the configuration changed");
}

TEST_F(StoredCells, AreNotUsedForOtherData) {
  keep_all();
  EXPECT_THAT(refusal(suite("runs", "", "d2")), says({"small/standard/0:", "'pictures' differ"}));
  EXPECT_THAT(refusal(suite("runs", "", "")),
              says({"small/standard/0:", "fingerprint", "not known"}));
}

TEST_F(StoredCells, AreNotUsedWhereAnEvaluationsSettingsCannotBeRead) {
  keep_all();
  edit([](json& in) {
    for (int i = 0; i <= 2000; ++i) in["evaluations"][0]["set"]["key" + std::to_string(i)] = i;
  });
  EXPECT_THAT(refusal(suite()), says({"small/standard/0:", "evaluation 'fog':", "cannot be read"}));
}

TEST_F(StoredCells, AreNotUsedWhereAMeanIsOfOtherPoints) {
  const auto over = [](const char* points) {
    return "set: {evaluate: {swap: {over: {dataset.root: " + std::string(points) + "}}}}\n";
  };
  for (const Cell& cell : suite("elsewhere", over("[a, b]")).cells) {
    finish(cell, 0.5);
    std::vector<EvaluationRecord> points;
    for (const std::string root : {"a", "b"}) {
      EvaluationRecord& point = points.emplace_back();
      point.entry = "swap/" + root;
      point.hash = root + "123456789abcdef";
      point.split = "test";
      point.set = json({{"dataset", {{"root", root}}}}).dump();
      point.done = true;
      point.metrics = {{"accuracy", 0.25}};
      point.infos = {kMadeMetrics.front()};
      write_evaluation(cell.folder.path(), point);
    }
    EvaluationRecord mean = points.front();
    mean.entry = "swap";
    mean.hash = mean_hash(points);
    mean.set = mean_set(points);
    write_evaluation(cell.folder.path(), mean);
    keep(stored_of(cell.folder.path()));
  }
  EXPECT_EQ(found(suite("runs", over("[a, b]"))).matches.size(), 2U);
  EXPECT_THAT(refusal(suite("runs", over("[a]"))),
              says({"small/standard/0:", "evaluation 'swap':", "other points"}));
}

constexpr const char* kOldOptions = R"(
  {"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""},
  {"name": "note", "type": "string", "default": "", "help": ""},
  {"name": "rates", "type": "float", "list": true, "default": [0.5], "help": ""})";

// Every stored configuration has the defaults of its day filled in.
TEST_F(StoredCells, StandWhereAPluginHasGainedAnOptionWithADefault) {
  keep_all();
  change_model(std::string("[") + kOldOptions +
               R"(, {"name": "width", "type": "int", "low": 1, "default": 4, "help": ""}])");
  Suite here = suite();
  const StoredRun kept = read_stored(kept_files().front());
  ASSERT_NE(here.cells.back().identity.configuration, kept.identity.configuration);
  use_found(here);
  for (const Cell& cell : here.cells) EXPECT_EQ(cell.action, CellAction::finished);
  EXPECT_EQ(suite().cells.back().action, CellAction::finished) << "the next call finds them";
  EXPECT_EQ(refusal(suite("others", "set: {model: {width: 5}}\n")),
            "small/standard/0: the configuration changed");
}

TEST_F(StoredCells, AreNotUsedWhereAnOptionHasAnotherDefaultByNowOrIsNoMore) {
  keep_all();
  change_model(R"([{"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""},
                   {"name": "note", "type": "string", "default": "new", "help": ""},
                   {"name": "rates", "type": "float", "list": true, "default": [0.5],
                    "help": ""}])");
  EXPECT_EQ(refusal(suite()), "small/standard/0: the configuration changed");
  change_model(R"([{"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""}])");
  EXPECT_EQ(refusal(suite("others")), "small/standard/0: the configuration changed");
}

TEST_F(StoredCells, AreNotUsedWhereAnEvaluationIsMissing) {
  keep_all(/*evaluated=*/false);
  EXPECT_THAT(refusal(suite()), says({"small/standard/0:", "no evaluation 'fog'"}));
}

TEST_F(StoredCells, AreUsedWithoutEvaluationsWhereTheRunDiverged) {
  keep_all(/*evaluated=*/false);
  edit([](json& in) { in["status"]["state"] = "diverged"; });
  Suite here = restored();
  for (const Cell& cell : here.cells) {
    EXPECT_EQ(cell.action, CellAction::finished);
    EXPECT_EQ(cell.folder.status().state, RunState::diverged);
  }
}

TEST_F(StoredCells, NeverReplaceARunThatIsThere) {
  keep_all();
  const Suite before = suite();
  finish(before.cells.front(), 0.1);
  const Suite here = suite();
  const StoredUse use = found(here);
  ASSERT_EQ(use.matches.size(), 1U);
  EXPECT_EQ(here.cells[use.matches.front().cell].experiment.attention.label, "quest");
}

TEST_F(StoredCells, NeverReplaceARunOfAnotherRevisionThatWasMadeHere) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  Suite here = suite();
  Cell made = here.cells.front();
  made.identity.framework = "0123456789abcdef";
  made.folder = RunFolder::of(here.folder, made.experiment, made.seed, made.identity);
  finish(made, 0.1);
  EXPECT_EQ(suite().cells.front().action, CellAction::stale);
  Rerun rerun;
  rerun.stale = true;
  decide(here.cells, rerun);
  ASSERT_EQ(here.cells.front().action, CellAction::run);
  const StoredUse use = found(here);
  ASSERT_EQ(use.matches.size(), 1U);
  EXPECT_EQ(here.cells[use.matches.front().cell].experiment.attention.label, "quest");
  EXPECT_THAT(use.refused, IsEmpty()) << "it is run anew, as was asked for";
  use_stored(use, here);
  EXPECT_EQ(here.cells.front().action, CellAction::run);
  EXPECT_EQ(made.folder.status().metrics.at("accuracy"), 0.1);
  EXPECT_EQ(stored_source(made.folder.path()), "");
}

TEST_F(StoredCells, DoNotStandForAPointOfAGridThatAnotherBeginsWith) {
  temp_.write("tuned.yaml", read_text(temp_ / "small.yaml") +
                                "train: {epochs: 3}\ninit: {experiment: " + (temp_ / "small.yaml") +
                                "}\n");
  const auto grid = [&](const std::string& runs, const std::string& experiments) {
    const std::string file =
        temp_.write("grid.yaml", "schema: 1\nattentions: [quest]\nexperiments: [" + experiments +
                                     "]\nseeds: [0]\nstored: [kept]\ngrid: {dim: [16, 32]}\n");
    Suite suite = load_suite(file, {}, catalogue_, temp_ / runs);
    identify(suite.cells, suite.folder, [](const Experiment&) { return "d1"; });
    decide(suite.cells, {});
    return suite;
  };
  for (const Cell& cell : grid("elsewhere", "small.yaml").cells) {
    finish(cell, 0.5);
    keep(stored_of(cell.folder.path()));
  }
  EXPECT_EQ(found(grid("runs", "small.yaml")).matches.size(), 2U);
  EXPECT_THAT(found(grid("runs", "small.yaml, tuned.yaml")).matches, IsEmpty());
}

// ---- on the disk

TEST_F(StoredCells, RestoredHereAreGuardedAsRunsOfThisMachineAre) {
  keep_all();
  Suite here = restored();
  const RunFolder& folder = here.cells.front().folder;
  std::string config = read_text(folder.file("config.yaml"));
  config.replace(config.find("epochs: "), 9, "epochs: 7");
  write_file(folder.file("config.yaml"), config);
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
              HasSubstr("config.yaml is missing or was changed"));
}

TEST_F(StoredCells, HaveNoLockOfThisMachine) {
  keep_all();
  Suite here = restored();
  const RunFolder& folder = here.cells.front().folder;
  EXPECT_FALSE(std::filesystem::exists(folder.file("lock.json")));
  EXPECT_THAT(stored_source(folder.path()), HasSubstr("kept/small/standard"));
}

TEST_F(StoredCells, AreNoRunsOfThisMachineWhereRestoringThemWasKilled) {
  keep_all();
  Suite here = restored();
  fs::remove(here.cells.front().folder.file("config.yaml"));  // it is written last
  const Suite again = suite();
  const Cell& cell = again.cells.front();
  ASSERT_EQ(cell.action, CellAction::run);
  ASSERT_EQ(cell.folder.path(), here.cells.front().folder.path());
  EXPECT_EQ(cell.folder.status().state, RunState::pending) << "also for attnlab run";
  cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
  EXPECT_EQ(cell.folder.status().state, RunState::pending);
  EXPECT_THAT(names_in(cell.folder.path()),
              ElementsAre("config.yaml", "identity.json", "lock.json", "origins.txt"));
}

TEST_F(StoredCells, SayWhoseTheFilesAreBeforeTheyAreThere) {
  keep_all();
  Suite here = suite();
  const RunFolder folder = here.cells.front().folder;
  fs::create_directories(folder.path());
  write_file(folder.file("evaluations"), "");  // no folder: writing the first of them fails
  EXPECT_THROW(use_found(here), FileError);
  EXPECT_NE(stored_source(folder.path()), "");
  use_found(here);
  EXPECT_EQ(folder.status().state, RunState::done) << "what was left is not an obstacle";
}

}  // namespace
}  // namespace attnlab::stored_cells_test
