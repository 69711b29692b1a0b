// What a suite found: rows, Markdown and JSON.
#include <cmath>

#include "tests/unit/suites/made_suites.h"

namespace attnlab::suite_table_test {
namespace {

using namespace testing;
using nlohmann::json;

TEST_F(SuiteTest, SummarisesMeanAndSampleDeviationOverFinishedSeeds) {
  const Suite suite = load(kBoth + "seeds: [0, 1, 2]\n");
  const double values[] = {0.5, 0.25, 0.9};
  for (int i = 0; i < 3; ++i) {
    finish(suite.cells[static_cast<std::size_t>(i)], RunState::done, {{"accuracy", values[i]}});
  }
  const std::vector<SuiteRow> rows = summarise(suite);
  ASSERT_EQ(rows.size(), 2u);
  const Summary& accuracy = rows[0].metrics.at("accuracy");
  EXPECT_EQ(accuracy.count, 3);
  EXPECT_NEAR(accuracy.mean, 0.55, 1e-12);                      // 1.65 / 3
  EXPECT_NEAR(accuracy.deviation, 0.32787192621510003, 1e-12);  // sqrt((.05^2 + .3^2 + .35^2) / 2)
  EXPECT_EQ(rows[0].states, (std::map<RunState, std::int64_t>{{RunState::done, 3}}));
  EXPECT_TRUE(rows[1].metrics.empty());
}

TEST_F(SuiteTest, LeavesSeedsThatAreNotDoneOutOfTheMean) {
  const Suite suite = load(kBoth + "seeds: [0, 1, 2, 3]\n");
  finish(suite.cells[0], RunState::done, {{"nll", 2.0}});
  finish(suite.cells[1], RunState::diverged, {{"nll", 1000.0}});
  finish(suite.cells[2], RunState::failed, {{"nll", 0.0}});
  const SuiteRow row = summarise(suite).front();
  EXPECT_EQ(row.metrics.at("nll").count, 1);
  EXPECT_EQ(row.metrics.at("nll").mean, 2.0);
  EXPECT_EQ(row.metrics.at("nll").deviation, 0.0);
  EXPECT_EQ(row.states, (std::map<RunState, std::int64_t>{{RunState::pending, 1},
                                                          {RunState::done, 1},
                                                          {RunState::diverged, 1},
                                                          {RunState::failed, 1}}));
}

TEST_F(SuiteTest, MarkdownShowsWhatIsMissingAsMissing) {
  Suite suite = load(kBoth + "name: tiny\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.9}, {"examples_per_second", 1234}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.8}, {"examples_per_second", 1244}});
  finish(suite.cells[2], RunState::diverged, {});
  suite.notes = {"made-up data"};
  EXPECT_EQ(suite_markdown(suite, summarise(suite), "attnlab suite s.yaml"),
            "# Suite tiny\n"
            "\n"
            "| experiment | attention           | accuracy (%) | examples_per_second | "
            "runs                  |\n"
            "|------------|---------------------|--------------|---------------------|-------------"
            "----------|\n"
            "| small      | standard (baseline) | 85.00 ± 7.07 | 1239.0 ± 7.1        | 2 "
            "done                |\n"
            "| small      | quest               | -            | -                   | 1 pending, "
            "1 diverged |\n"
            "\n"
            "mean ± sample standard deviation over the seeds that are done\n"
            "\n"
            "**made-up data**\n"
            "\n"
            "Repeat it with\n"
            "\n"
            "    attnlab suite s.yaml\n");
}

TEST_F(SuiteTest, CountsNoValueThatIsNotFiniteAndMarksTheRun) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}, {"nll", std::nan("")}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.7}, {"nll", 2.0}});
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("nll").mean, 2.0);
  EXPECT_EQ(rows[0].metrics.at("nll").count, 1);
  EXPECT_EQ(rows[0].not_finite, 1);
  EXPECT_THAT(suite_markdown(suite, rows, "x"), HasSubstr("| 2 done (1 not finite) |"));
  EXPECT_EQ(json::parse(suite_json(suite, rows, "x")).at("rows").at(0).at("not_finite"), 1);
}

TEST_F(SuiteTest, GoesOnWithoutARunThatCannotBeRead) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  for (const Cell& cell : suite.cells) finish(cell, RunState::done, {{"accuracy", 0.5}});
  const std::string status = suite.cells[1].folder.file("status.json"), whole = read_text(status);
  write_file(status, "{");
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("accuracy").count, 1);
  const std::string text = suite_markdown(suite, rows, "x");
  EXPECT_THAT(text, AllOf(HasSubstr("| 1 done, 1 unreadable |"),
                          HasSubstr(suite.cells[1].folder.path() + " cannot be read")));
  const json read = json::parse(suite_json(suite, rows, "x"));
  EXPECT_EQ(read.at("runs").at(1).at("state"), "unreadable");
  EXPECT_FALSE(complete(suite));
  write_file(status, whole);  // it could not be read for a moment
  EXPECT_TRUE(complete(suite));
  EXPECT_FALSE(json::parse(suite_json(suite, rows, "x")).at("complete"));
}

TEST_F(SuiteTest, ShowsTheHeadlineOfEachEvaluationAndMarksRunsTrainedTogether) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}, {"peak_memory", 3e9}});
    write_environment(cell.folder, {{"together", 2}});
    write_evaluation(cell.folder.path(), evaluated("fog", {{"accuracy", 0.25}, {"nll", 3}}));
  }
  const std::vector<SuiteRow> rows = summarise(suite);
  EXPECT_EQ(rows[0].metrics.at("fog/nll").mean, 3) << "for programs";
  EXPECT_THAT(suite_markdown(suite, rows, "x"),
              AllOf(Not(HasSubstr("peak_memory (MB)")),
                    mentions("| accuracy (%) | fog/accuracy (%) | runs ", "| 25.00 ",
                             "trained together", "(2 runs)")));
}

TEST_F(SuiteTest, CountsAndNamesEvaluationsThatFailed) {
  const Suite suite = load(kBoth + "seeds: [0, 1]\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    const bool done = cell.seed == 0 || cell.experiment.attention.label == "quest";
    write_evaluation(cell.folder.path(),
                     evaluated("fog", {{"accuracy", 0.25}}, done ? "" : "no memory"));
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              mentions("| 50.00 ± 0.00 | 25.00 (1 of 2)   | 2 done |",
                       "| 50.00 ± 0.00 | 25.00 ± 0.00     | 2 done |",
                       "small/standard: evaluation fog:", "failed: no memory\n"));
}

TEST_F(SuiteTest, ShowsWhatIsADetailInOneExperimentWhereItIsAnothersHeadline) {
  const Suite suite = load(
      "schema: 1\nattentions: [standard]\nexperiments: [small.yaml, large.yaml]\nseeds: [0]\n");
  const std::vector<MetricInfo> loss_first = {kMadeMetrics[1], kMadeMetrics[0]};
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    write_evaluation(cell.folder.path(),
                     evaluated("fog", {{"accuracy", 0.25}, {"nll", 3}}, "",
                               cell.experiment.name == "large" ? loss_first : kMadeMetrics));
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              AllOf(HasSubstr("fog/accuracy (%)"), HasSubstr("fog/nll (nats)")));
}

TEST_F(SuiteTest, ShowsWhatIsPublishedOfAnEvaluationBesideItsHeadline) {
  const Suite suite = load(kBoth +
                           "seeds: [0]\nreference: {source: Paper, metric: fog/nll, values: "
                           "{small: {quest: 2.5}}}\n");
  for (const Cell& cell : suite.cells) {
    finish(cell, RunState::done, {{"accuracy", 0.5}});
    write_evaluation(cell.folder.path(), evaluated("fog", {{"accuracy", 0.25}, {"nll", 3}}));
  }
  EXPECT_THAT(suite_markdown(suite, summarise(suite), "x"),
              HasSubstr("| fog/accuracy (%) | fog/nll (nats) | Paper | runs "));
}

TEST_F(SuiteTest, MarkdownClaimsNoSpreadOfOneSeed) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.9}});
  const std::string text = suite_markdown(suite, summarise(suite), "x");
  EXPECT_THAT(text, HasSubstr("| 90.00 "));
  EXPECT_THAT(text, Not(HasSubstr("90.00 ±")));
}

TEST_F(SuiteTest, JsonHoldsEveryRunWithItsStateAndReason) {
  const Suite suite = load(kBoth);
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}});
  finish(suite.cells[1], RunState::done, {{"accuracy", 0.75}});
  finish(suite.cells[2], RunState::diverged, {{"nll", std::nan("")}}, "loss is nan");
  const json read = json::parse(suite_json(suite, summarise(suite), "again"));
  EXPECT_EQ(read.at("suite"), "s");
  EXPECT_EQ(read.at("baseline"), "standard");
  EXPECT_EQ(read.at("command"), "again");
  EXPECT_EQ(read.at("complete"), false);
  const json& accuracy = read.at("rows").at(0).at("metrics").at("accuracy");
  EXPECT_EQ(accuracy.at("mean"), 0.625);
  EXPECT_EQ(accuracy.at("n"), 2);
  EXPECT_NEAR(accuracy.at("sd").get<double>(), 0.17677669529663687, 1e-15);
  EXPECT_FALSE(read.at("rows").at(1).contains("metrics")) << "absent, not zero";
  EXPECT_EQ(read.at("rows").at(1).at("states"), json::parse(R"({"diverged": 1, "pending": 1})"));
  const json& diverged = read.at("runs").at(2);
  EXPECT_EQ(diverged.at("state"), "diverged");
  EXPECT_EQ(diverged.at("reason"), "loss is nan");
  EXPECT_TRUE(diverged.at("metrics").at("nll").is_null());
  EXPECT_EQ(diverged.at("folder"), suite.cells[2].folder.path());
  EXPECT_EQ(read.at("runs").at(3).at("state"), "pending");
}

TEST_F(SuiteTest, JsonHasNoDeviationOfOneSeed) {
  const Suite suite = load(kBoth);
  finish(suite.cells[0], RunState::done, {{"accuracy", 0.5}});
  const json read = json::parse(suite_json(suite, summarise(suite), "again"));
  const json& accuracy = read.at("rows").at(0).at("metrics").at("accuracy");
  EXPECT_EQ(accuracy.at("n"), 1);
  EXPECT_TRUE(accuracy.at("sd").is_null()) << "not zero";
}

TEST_F(SuiteTest, IsCompleteWhenEveryCellIsDoneOrDiverged) {
  const Suite suite = load(kBoth + "seeds: [0]\n");
  EXPECT_FALSE(complete(suite));
  finish(suite.cells[0], RunState::done, {});
  finish(suite.cells[1], RunState::failed, {});
  EXPECT_FALSE(complete(suite));
  finish(suite.cells[1], RunState::diverged, {});
  EXPECT_TRUE(complete(suite));
}

}  // namespace
}  // namespace attnlab::suite_table_test
