#include "framework/runs/run_status.h"

#include <sys/stat.h>

#include "framework/runs/evaluations.h"
#include "framework/runs/run_lock.h"
#include "framework/suites/cell.h"
#include "framework/suites/suite.h"
#include "tests/support/deadline.h"
#include "tests/support/made_parts.h"

namespace attnlab::run_status_test {
namespace {

using namespace testing;
using nlohmann::json;

class RunStatusTest : public ::testing::Test {
 protected:
  RunStatusTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: vit\nattention: quest\ntask: sorting\ndataset: pictures\n");
    temp_.write("tokens.yaml",
                "schema: 1\nmodel: lm\nattention: quest\ntask: sorting\ndataset: texts\n");
  }

  Suite load(const std::string& more = "") const {
    return load_suite(temp_.write("s.yaml",
                                  "schema: 1\nattentions: [standard, quest]\n"
                                  "experiments: [small.yaml]\nseeds: [0, 1, 2]\n" +
                                      more),
                      {}, parts_.catalogue(), temp_ / "runs");
  }
  void record(const Suite& suite) const {
    temp_.write("runs/s/suite.json", suite_record(suite, "again"));
  }
  static void set(const Cell& cell, const RunStatus& status) {
    cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
    cell.folder.write_status(status);
  }
  static RunStatus at(RunState state, std::int64_t step = 4, const std::string& reason = "") {
    return {state, step, 40, 1, 2, {}, reason};
  }
  StatusReport status(const std::map<std::string, std::string>& launcher = {}) const {
    return status_of(temp_ / "runs", parts_.catalogue(), launcher);
  }
  static const CellReport& find(const StatusReport& report, std::string_view attention,
                                std::int64_t seed) {
    for (const CellReport& cell : report.cells) {
      if (cell.attention == attention && cell.seed == seed) return cell;
    }
    throw std::runtime_error("no report of " + std::string(attention));
  }

  const MadeParts parts_;
  const TempFolder temp_;
};

TEST_F(RunStatusTest, CountsCellsByState) {
  const Suite suite = load();
  record(suite);
  set(suite.cells[0], at(RunState::done, 40));
  set(suite.cells[1], at(RunState::diverged));
  set(suite.cells[2], at(RunState::interrupted));
  set(suite.cells[3], at(RunState::failed, 4, "no memory"));
  set(suite.cells[4], at(RunState::running));
  suite.cells[5].folder.freeze(suite.cells[5].experiment, 2, suite.cells[5].identity);
  const StatusReport report = status();
  EXPECT_EQ(report.counts, (std::map<CellState, std::int64_t>{{CellState::done, 1},
                                                              {CellState::diverged, 1},
                                                              {CellState::interrupted, 1},
                                                              {CellState::failed, 1},
                                                              {CellState::killed, 1},
                                                              {CellState::pending, 1}}));
  const std::string text = status_text(report);
  EXPECT_THAT(text,
              HasSubstr("1 killed, 1 interrupted, 1 failed, 1 pending, 1 diverged, 1 done\n"));
  EXPECT_THAT(text, HasSubstr("small/quest/0     failed        step 4/40; no memory\n"));
  EXPECT_THAT(text, Not(HasSubstr("small/standard/0"))) << "what is done needs no line";
}

TEST_F(RunStatusTest, SumsTheTimeOfProcessorsAndDevicesOverAllRuns) {
  const Suite suite = load();
  RunStatus done = at(RunState::done, 40), failed = at(RunState::failed);
  set(suite.cells[0], done);  // of an earlier version, which did not count it
  EXPECT_THAT(status_text(status()), Not(HasSubstr("used")));
  done.processor_seconds = 3600;
  failed.processor_seconds = 1800;
  failed.device_seconds = 60;
  set(suite.cells[0], done);
  set(suite.cells[1], failed);
  const std::string text = status_text(status());
  EXPECT_THAT(text, HasSubstr("1 h 30 min of processor time"));
  EXPECT_THAT(text, HasSubstr("1 min 00 s of device time"));
  const json shown = json::parse(status_json(status()));
  EXPECT_EQ(shown.at("processor_seconds"), 5400);
  EXPECT_EQ(shown.at("runs").at(1).at("device_seconds"), 60);
}

TEST_F(RunStatusTest, FindsTheLastStepBeforeALineThatIsVeryLong) {
  const Suite suite = load();
  set(suite.cells[0], at(RunState::interrupted, 4));
  json line = {{"step", 17}, {"trace", std::string(50000, 'x')}};
  write_file(suite.cells[0].folder.file("metrics.jsonl"),
             json({{"step", 16}}).dump() + "\n" + line.dump() + "\n");
  EXPECT_EQ(status().cells.at(0).step, 17);
}

TEST_F(RunStatusTest, PassesOverAStepThatNoRunHas) {
  const Suite suite = load();
  set(suite.cells[0], at(RunState::interrupted, 4));
  for (const char* step : {"1e30", "2.5", "18446744073709551615", "\"x\""}) {
    write_file(suite.cells[0].folder.file("metrics.jsonl"),
               "{\"step\":" + std::string(step) + "}\n");
    EXPECT_EQ(status().cells.at(0).step, 4) << step;
  }
}

TEST_F(RunStatusTest, ARunWithItsProcessIsRunningAndSaysHowLong) {
  const Suite suite = load();
  record(suite);
  const Cell& cell = suite.cells[0];
  set(cell, at(RunState::running, 10));  // 2 seconds for 10 steps
  write_file(cell.folder.file("metrics.jsonl"),
             "{\"split\": \"train\", \"step\": 19}\n{\"split\": \"train\", \"step\": 20}\n");
  EXPECT_EQ(find(status(), "standard", 0).state, CellState::killed);
  const RunLock lock(cell.folder.path());
  const StatusReport report = status();
  const CellReport& running = find(report, "standard", 0);
  EXPECT_EQ(running.state, CellState::running);
  EXPECT_EQ(running.step, 20) << "metrics.jsonl is newer than the last checkpoint";
  ASSERT_TRUE(running.seconds_left);
  EXPECT_NEAR(*running.seconds_left, 20 * 0.2, 1e-9);
  EXPECT_THAT(status_text(report), HasSubstr("step 20/40, about 4.0 s left; process "));
}

TEST_F(RunStatusTest, ShowsTheLastLinesOfAFailedRunsLog) {
  const Suite suite = load();
  record(suite);
  set(suite.cells[0], at(RunState::failed, 4, "killed by signal 9"));
  write_file(suite.cells[0].folder.file("log.txt"), "1\n2\n3\n4\n5\n\nlast words\n");
  const StatusReport report = status();
  EXPECT_EQ(find(report, "standard", 0).log, "2\n3\n4\n5\nlast words");
  EXPECT_THAT(status_text(report), HasSubstr("\n      | last words\n"));
}

TEST(RunStatusText, HasNoLineThatOthersWrote) {
  StatusReport report;
  report.folder = "runs\x1b[2J\nforged";
  CellReport cell;
  cell.experiment = "e\nforged";
  cell.attention = "a\xe2\x80\xae";
  cell.state = CellState::failed;
  cell.detail = "why\nforged";
  cell.log = "\x1b[2Jl\n" + std::string(1'000'000, 'x');
  report.cells = {cell};
  report.notes = {"note\nforged"};
  const std::string text = status_text(report);
  EXPECT_THAT(text, AllOf(StartsWith("runs\\x1b[2J forged: "), HasSubstr("e forged/a\\u202e/0"),
                          HasSubstr("why forged"), HasSubstr("      | \\x1b[2Jl\n"),
                          HasSubstr("\nnote forged\n"), Not(HasSubstr("\nforged"))));
  EXPECT_LT(text.size(), 10'000U);
}

TEST_F(RunStatusTest, SaysWhatMadeARunStale) {
  const Suite suite = load();
  record(suite);
  set(suite.cells[0], at(RunState::done));
  set(suite.cells[3], at(RunState::done));
  const std::string plugin = parts_.folder() / "plugins/quest.so";
  write_file(plugin, read_text(plugin) + '\0');
  const StatusReport report = status();
  EXPECT_EQ(find(report, "standard", 0).state, CellState::done);
  EXPECT_EQ(find(report, "quest", 0).state, CellState::stale);
  EXPECT_THAT(find(report, "quest", 0).detail, says({"attention 'quest' changed"}));
}

TEST_F(RunStatusTest, ShowsSkippedIncompatibleAndSupersededCells) {
  Suite suite = load("skip: [{attention: standard, seeds: [1], reason: too slow}]\n");
  const Gap gap{Absence::incompatible, "no causal masks"};
  suite.absent.push_back({"tokens", "quest", 0, gap, ""});
  record(suite);
  set(suite.cells[0], at(RunState::done));
  const Cell old = make_cell(
      parts_.resolve("name: small\nschema: 1\nmodel: {use: vit, dim: 9}\nattention: standard\n"
                     "task: sorting\ndataset: pictures\n"),
      0, suite.folder);
  set(old, at(RunState::done));
  const StatusReport report = status();
  EXPECT_EQ(report.counts.at(CellState::skipped), 1);
  EXPECT_EQ(report.counts.at(CellState::incompatible), 1);
  EXPECT_EQ(report.counts.at(CellState::superseded), 1);
  const std::string text = status_text(report);
  EXPECT_THAT(text, AllOf(HasSubstr("skipped       too slow\n"),
                          HasSubstr("incompatible  no causal masks\n"),
                          HasSubstr("| " + old.folder.path())));
  EXPECT_EQ(report.cells.back().state, CellState::superseded) << "at the end";
}

TEST_F(RunStatusTest, TakesTheLaunchersWordWhereNoProcessIsHere) {
  const Suite suite = load();
  record(suite);
  for (std::size_t i : {0U, 1U, 2U})
    set(suite.cells[i], at(i == 2 ? RunState::running : RunState::pending));
  const StatusReport report =
      status({{suite.cells[0].folder.path(), "queued as job 7_0"},
              {suite.cells[1].folder.path(), "running as job 7_1"},
              {suite.cells[2].folder.path(), "job 7_2 ended: out of memory"}});
  EXPECT_EQ(find(report, "standard", 0).state, CellState::queued);
  EXPECT_EQ(find(report, "standard", 1).state, CellState::running);
  EXPECT_EQ(find(report, "standard", 2).state, CellState::killed);
  EXPECT_THAT(status_text(report), HasSubstr("job 7_2 ended: out of memory"));
}

TEST_F(RunStatusTest, OfRunsWithoutASuiteTheLastOfAConfigurationCounts) {
  const Experiment made = parts_.resolve(kImages);
  const Cell first = make_cell(made, 0, temp_ / "runs", "d1");
  const Cell second = make_cell(made, 0, temp_ / "runs", "d2");
  const Cell other = make_cell(parts_.resolve(kImages + "train: {epochs: 3}\n"), 0, temp_ / "runs");
  set(first, at(RunState::done));
  std::filesystem::last_write_time(
      first.folder.file("config.yaml"),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  set(second, at(RunState::done));
  set(other, at(RunState::done));
  const StatusReport report = status();
  EXPECT_EQ(report.counts,
            (std::map<CellState, std::int64_t>{{CellState::done, 2}, {CellState::superseded, 1}}));
  EXPECT_EQ(report.cells.back().folder, first.folder.path());
}

TEST_F(RunStatusTest, OfRunsWithoutASuiteTheLastBegunCountsInACopyToo) {
  const Experiment made = parts_.resolve(kImages);
  const Cell first = make_cell(made, 0, temp_ / "runs", "d1");
  const Cell second = make_cell(made, 0, temp_ / "runs", "d2");
  for (const Cell* cell : {&first, &second}) set(*cell, at(RunState::done));
  for (const Cell* later : {&first, &second}) {
    const Cell* earlier = later == &first ? &second : &first;
    write_file(earlier->folder.file("environment.json"), R"({"started": "2026-03-01T00:00:00Z"})");
    write_file(later->folder.file("environment.json"), R"({"started": "2026-03-01T00:00:01Z"})");
    // A copy's files have the times at which they were copied.
    std::filesystem::last_write_time(
        later->folder.file("config.yaml"),
        std::filesystem::last_write_time(earlier->folder.file("config.yaml")) -
            std::chrono::hours(1));
    const StatusReport report = status();
    ASSERT_EQ(report.cells.size(), 2U);
    EXPECT_EQ(report.cells.back().state, CellState::superseded);
    EXPECT_EQ(report.cells.back().folder, earlier->folder.path());
  }
}

TEST_F(RunStatusTest, GoesOnWithoutARunThatCannotBeRead) {
  const Suite suite = load();
  record(suite);
  for (const std::size_t i : {0U, 1U, 2U}) set(suite.cells[i], at(RunState::done));
  write_file(suite.cells[0].folder.file("status.json"), "{");
  write_file(suite.cells[1].folder.file("environment.json"), "[1]");
  const StatusReport report = status();
  EXPECT_EQ(report.counts.at(CellState::unreadable), 2);
  EXPECT_EQ(report.counts.at(CellState::done), 1);
  EXPECT_THAT(find(report, "standard", 0).detail, HasSubstr("status.json: damaged"));
  EXPECT_THAT(status_text(report),
              AllOf(HasSubstr("2 unreadable"), HasSubstr("environment.json: damaged")));
}

TEST_F(RunStatusTest, DoesNotWaitForAFifoAmongARunsFiles) {
  const Suite suite = load();
  const Deadline deadline;
  for (const std::size_t i : {0U, 1U}) set(suite.cells[i], at(RunState::done));
  const std::string origins = suite.cells[0].folder.file("origins.txt");
  std::filesystem::remove(origins);
  ASSERT_EQ(::mkfifo(origins.c_str(), 0600), 0);
  EXPECT_THAT(find(status(), "standard", 0).detail, HasSubstr("origins.txt: cannot read"));
}

TEST_F(RunStatusTest, NamesEvaluationsThatWereEdited) {
  const Suite suite = load();
  set(suite.cells[0], at(RunState::done));
  const EvaluationRecord fog = {"fog", "01", "test", true, "", {{"accuracy", 0.25}}, {}};
  write_evaluation(suite.cells[0].folder.path(), fog);
  EXPECT_THAT(status().notes, IsEmpty());
  const std::string path = suite.cells[0].folder.file("evaluations/fog-01.json");
  std::string text = read_text(path);
  text.replace(text.find("0.25"), 4, "0.75");
  write_file(path, text);
  EXPECT_THAT(status().notes, ElementsAre(HasSubstr("does not fit its check")));
}

TEST_F(RunStatusTest, FailsWhereNoRunCanBeRead) {
  const Suite suite = load();
  set(suite.cells[0], at(RunState::done));
  write_file(suite.cells[0].folder.file("status.json"), "{");
  EXPECT_THAT(message_of<DataError>([&] { status(); }), StartsWith("no run can be read"));
}

TEST_F(RunStatusTest, SaysWhatItsReaderMustKnowOfRunsThatAreDone) {
  const Suite suite = load();
  record(suite);
  RunStatus half = at(RunState::done);
  half.metrics["nll"] = std::nan("");
  set(suite.cells[0], half);
  set(suite.cells[1], at(RunState::done));
  for (const std::size_t i : {0U, 1U}) {
    const json revision = {{"framework", {{"revision", i == 0 ? "abc" : "def"}}}};
    write_file(suite.cells[i].folder.file("environment.json"), revision.dump());
  }
  EXPECT_THAT(status().notes,
              ElementsAre(mentions("small/standard/0:", "not finite", "nll"),
                          mentions("2 framework revisions", "abc in small/standard/0",
                                   "def in small/standard/1")));
}

TEST_F(RunStatusTest, JsonHoldsEveryCell) {
  const Suite suite = load();
  record(suite);
  set(suite.cells[0], at(RunState::done));
  set(suite.cells[1], at(RunState::failed, 4, "bad \xff byte"));
  const json read = json::parse(status_json(status()));
  EXPECT_EQ(read.at("counts"), json::parse(R"({"done": 1, "failed": 1})"));
  EXPECT_EQ(read.at("runs").at(1).at("state"), "failed");
  EXPECT_EQ(read.at("runs").at(1).at("steps"), 40);
}

TEST_F(RunStatusTest, RefusesFoldersWithoutRuns) {
  EXPECT_THAT(message_of<ConfigError>([&] { status_of(temp_ / "gone", parts_.catalogue()); }),
              mentions("gone:", "no such folder"));
  EXPECT_THAT(message_of<ConfigError>([&] { status_of(temp_.path(), parts_.catalogue()); }),
              HasSubstr("holds no run folder"));
}

}  // namespace
}  // namespace attnlab::run_status_test
