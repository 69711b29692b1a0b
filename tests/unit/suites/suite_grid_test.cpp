// `grid:` and `pool:` of a suite, and what an attention of a suite may bring with it.
#include <set>

#include "framework/config/origins.h"
#include "framework/runs/run_records.h"
#include "framework/suites/dry_run.h"
#include "framework/suites/suite.h"
#include "framework/suites/suite_pool.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::suite_grid_test {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::Pair;

class SuiteGridTest : public WithMadeParts {
 protected:
  SuiteGridTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: standard\ntask: sorting\n"
                "dataset: {use: pictures, root: real}\nseeds: [0, 1]\n");
  }
  Suite load(const std::string& more, const std::vector<std::string>& overrides = {}) const {
    const std::string yaml =
        "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\n" + more;
    return load_suite(temp_.write("s.yaml", yaml), overrides, parts().catalogue(), temp_ / "runs");
  }
  /// Why it is refused, without the temporary folder's name.
  std::string refusal(const std::string& more) const {
    return temp_.without(message_of<ConfigError>([&] { load(more); }));
  }
  static void finish(const Cell& cell, const std::map<std::string, double>& metrics) {
    cell.folder.freeze(cell.experiment, cell.seed);
    cell.folder.write_status({RunState::done, 1, 1, 1, 2, metrics, ""});
    write_environment(cell.folder);
  }

  const TempFolder temp_;
};

// ---- points

TEST_F(SuiteGridTest, RunsEachExperimentAtEveryCombinationWithEveryAttention) {
  const Suite suite =
      load("grid:\n  lr: [1.0e-4, 1.0e-3]\n  weight_decay: range(0, 0.1, 0.05)\nseeds: [4, 5]\n");
  ASSERT_EQ(suite.experiments.size(), 6U);
  EXPECT_EQ(suite.experiments[0], "small,lr=0.0001,weight_decay=0");
  EXPECT_EQ(suite.experiments[5], "small,lr=0.001,weight_decay=0.1");
  ASSERT_EQ(suite.cells.size(), 6U * 2 * 2);
  std::set<std::tuple<double, double, std::string, std::int64_t>> seen;
  std::set<std::string> folders;
  for (const Cell& cell : suite.cells) {
    const OptimizerOptions& optimizer = cell.experiment.train.optimizer;
    seen.insert({optimizer.lr, optimizer.weight_decay, cell.experiment.attention.label, cell.seed});
    folders.insert(cell.folder.path());
  }
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_EQ(folders.size(), 24U);
}

TEST_F(SuiteGridTest, NamesPointsAsASweepDoes) {
  const Suite suite = load("grid: {lr: [1.0e-4], zip: {dim: [16, 32], epochs: [1, 2]}}\n");
  EXPECT_THAT(suite.experiments,
              ElementsAre("small,lr=0.0001,dim=16,epochs=1", "small,lr=0.0001,dim=32,epochs=2"));
  EXPECT_EQ(suite.points[1].base, "small");
  EXPECT_THAT(suite.points[1].values,
              ElementsAre(Pair("lr", "0.0001"), Pair("dim", "32"), Pair("epochs", "2")));
  const Cell& last = suite.cells.back();
  EXPECT_EQ(last.experiment.model.options.at("dim").as_int(), 32);
  EXPECT_EQ(last.experiment.train.epochs, 2);
  EXPECT_EQ(last.experiment.name, "small,lr=0.0001,dim=32,epochs=2");
  EXPECT_THAT(origins_text(last.experiment.resolved), HasSubstr("s.yaml:4:22: model.dim = 32"));
}

TEST_F(SuiteGridTest, TellsValuesApartThatAgreeInTheirFirstDigits) {
  const Suite suite =
      load("grid: {dim: [20240101, 20240102, 8], root: [a/b, 'a:b', c]}\nseeds: [0]\n");
  ASSERT_EQ(suite.points.size(), 9U);
  std::set<std::string> dims, roots;
  for (const SuitePoint& point : suite.points) {
    dims.insert(point.values.at(0).second);
    roots.insert(point.values.at(1).second);
  }
  EXPECT_THAT(dims, ElementsAre("20240101", "20240102", "8"));
  ASSERT_EQ(roots.size(), 3U);
  EXPECT_THAT(roots, ::testing::Contains("c"));
  EXPECT_THAT(*roots.begin(), StartsWith("a-b~"));
  EXPECT_EQ(suite.experiments.back(), "small,dim=8,root=c") << "the others' names stay";
  const SuitePool by_dim = pools_of(suite).at(1);
  EXPECT_THAT(by_dim.values, ElementsAre("20240101", "20240101", "20240102", "20240102", "8", "8"))
      << "a row a value and attention";
}

TEST_F(SuiteGridTest, KnowsTheKeysThatTheSuitesChangesBring) {
  temp_.write("text.yaml",
              "schema: 1\nmodel: vit\nattention: standard\ntask: sorting\n"
              "dataset: texts\n");
  const Suite suite =
      load_suite(temp_.write("t.yaml",
                             "schema: 1\nattentions: [standard]\nexperiments: [text.yaml]\n"
                             "set: {dataset: {use: pictures}}\ngrid: {root: [a, b]}\n"),
                 {}, parts().catalogue(), temp_ / "runs");
  EXPECT_THAT(suite.experiments, ElementsAre("text,root=a", "text,root=b"));
}

TEST_F(SuiteGridTest, CanBeNarrowedOnTheCommandLine) {
  const std::string grid = "grid: {lr: [1.0e-4, 1.0e-3], weight_decay: [0, 0.1]}\n";
  const Suite suite = load(grid, {"grid.lr=[1e-3]"});
  EXPECT_THAT(suite.experiments,
              ElementsAre("small,lr=0.001,weight_decay=0", "small,lr=0.001,weight_decay=0.1"));
  EXPECT_EQ(suite.cells[0].folder.path(), load(grid).cells[8].folder.path())
      << "the same runs as the whole grid's";
}

TEST_F(SuiteGridTest, RefusesWhatCannotBeVariedWithItsPlace) {
  EXPECT_THAT(refusal("grid: {lrr: [1, 2], epochs: [1, 1.0], dim: {a: 1}}\n"),
              says_lines({{"s.yaml:4:21:", "grid.epochs:", "'1.0'"},
                          {"s.yaml:4:44:", "grid.dim:", "range(start, stop, step)",
                           "logspace(low, high, count)", "found {a: 1}"},
                          {"s.yaml:4:8:", "grid.lrr:", "'lrr'", "'lr'"}}));
  EXPECT_THAT(refusal("grid: {seeds: [1, 2]}\n"), says({"s.yaml:4:8:", "grid:", "'seeds'"}));
  EXPECT_THAT(refusal("grid: {attention: [standard, quest]}\n"),
              says({"s.yaml:4:8:", "grid:", "'attention'", "'attentions'"}));
  EXPECT_THAT(refusal("grid: {}\n"),
              says({"s.yaml:4:7:", "grid:", "{lr: [1e-4, 1e-3]}", "found {}"}));
  EXPECT_THAT(refusal("grid: {lr: 'range(1, 2)'}\n"),
              says({"s.yaml:4:8:", "grid.lr:", "range(start, stop, step)"}));
  EXPECT_THAT(refusal("grid: {dim: ['x', 3]}\n"), StartsWith("s.yaml:4:8: model.dim: "));
  EXPECT_THAT(refusal("grid: {zip: {dim: [1, 2], epochs: [1]}}\n"),
              says({"s.yaml:4:13:", "grid.zip:", "'dim' has 2", "'epochs' has 1"}));
  EXPECT_THAT(refusal("grid: {zip: {dim: [1, 2], seeds: [1, 2]}}\n"),
              says({"s.yaml:4:8:", "grid:", "'seeds'"}));
}

TEST_F(SuiteGridTest, RefusesToPoolByWhatIsNotVaried) {
  EXPECT_THAT(refusal("grid: {lr: [1.0e-4, 1.0e-3]}\npool: [lrs, lr, lr]\n"),
              says_lines({{"s.yaml:5:8:", "pool:", "'lrs'", "'grid'", "'lr'"},
                          {"s.yaml:5:17:", "pool:", "'lr'"}}));
  EXPECT_THAT(refusal("grid: {lr: 'range(1, 2)'}\npool: [lr]\n"),
              says({"s.yaml:4:8:", "grid.lr:", "range(start, stop, step)"}))
      << "nothing is said of the pool of a grid that is wrong";
  EXPECT_THAT(refusal("pool: [lr]\n"),
              says({"s.yaml:4:7:", "pool:", "'grid'", "grid: {KEY: [VALUES]}"}));
}

// ---- tables

TEST_F(SuiteGridTest, PoolsOverAllPointsAndByEachAxis) {
  const Suite suite = load("grid: {lr: [1.0e-4, 1.0e-3], dim: [4, 8]}\npool: [lr]\n");
  // Quest is right at the larger rate alone; one of standard's runs is not done.
  for (std::size_t i = 1; i < suite.cells.size(); ++i) {
    const Experiment& experiment = suite.cells[i].experiment;
    const bool right =
        experiment.attention.label == "quest" && experiment.train.optimizer.lr > 5e-4;
    finish(suite.cells[i], {{"outcome/correct", right ? 1.0 : 0.0}, {"accuracy", 0.5}});
  }
  const std::vector<SuitePool> pools = pools_of(suite);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].axis, "");
  ASSERT_EQ(pools[0].rows.size(), 2U);
  EXPECT_EQ(pools[0].rows[0].metrics.at("outcome/correct").count, 7);
  EXPECT_EQ(pools[0].rows[0].states.at(RunState::pending), 1);
  EXPECT_DOUBLE_EQ(pools[0].rows[1].metrics.at("outcome/correct").mean, 0.5);
  EXPECT_EQ(pools[1].axis, "lr");
  EXPECT_THAT(pools[1].values, ElementsAre("0.0001", "0.0001", "0.001", "0.001"));
  EXPECT_DOUBLE_EQ(pools[1].rows[1].metrics.at("outcome/correct").mean, 0);
  EXPECT_DOUBLE_EQ(pools[1].rows[3].metrics.at("outcome/correct").mean, 1);
  EXPECT_EQ(pools[1].rows[3].metrics.at("outcome/correct").count, 4);

  const std::string text = suite_markdown(suite, summarise(suite), "attnlab suite s");
  EXPECT_THAT(text, AllOf(HasSubstr("## Over all 4 points (lr, dim)"), HasSubstr("## By lr"),
                          HasSubstr("## Each point"), Not(HasSubstr("## By dim"))));
  // Wilson's interval of 4 of 8: 21.5 to 78.5 %.
  EXPECT_THAT(text, HasSubstr("| small      | quest               | 50.00 [21.52, 78.48]"));
  const json all = json::parse(suite_json(suite, summarise(suite), "x"));
  EXPECT_EQ(all.at("pools").at(1).at("by"), "lr");
  EXPECT_EQ(all.at("pools").at(1).at("rows").at(3).at("value"), "0.001");
  EXPECT_EQ(all.at("points").at(3).at("values"), json::parse(R"({"lr": "0.001", "dim": "8"})"));
}

TEST_F(SuiteGridTest, LeavesManyPointsToTheFileForPrograms) {
  const Suite suite = load("grid: {dim: 'range(1, 31, 1)'}\npool: []\nseeds: [0]\n");
  finish(suite.cells[0], {{"accuracy", 0.5}});
  const std::string text = suite_markdown(suite, summarise(suite), "x");
  EXPECT_THAT(text, AllOf(Not(HasSubstr("dim=7")),
                          mentions("62 rows", "table.json", "## Over all 31 points (dim)",
                                   "30 pending, 1 done", "31 pending")));
}

// ---- costs

TEST_F(SuiteGridTest, CostsOnlyOnceWhatCostsTheSame) {
  const Suite suite = load("grid: {lr: [1.0e-4, 1.0e-3], dim: [4, 8]}\n", {"attentions=[quest]"});
  const auto key = [&](std::size_t cell) { return cost_key(suite.cells[cell].experiment); };
  EXPECT_EQ(key(0), key(1)) << "another seed";
  EXPECT_EQ(key(0), key(4)) << "another learning rate";
  EXPECT_NE(key(0), key(2)) << "another width";
  SuiteForecast costs;
  for (const std::string& experiment : suite.experiments) {
    const bool wide = experiment.ends_with("dim=8");
    costs[{experiment, "quest"}] = {"d", wide ? 2000 : 1000, 0, 10, 1.0, 2.0, 1'000'000'000};
  }
  const std::string text = dry_run_text(suite, costs, 1, "");
  EXPECT_THAT(text, AllOf(HasSubstr("8 runs: 8 to run"),
                          HasSubstr("small, points of the grid  quest      4     1000 "),
                          HasSubstr("small, points of the grid  quest      4     2000 "),
                          Not(HasSubstr("lr=0.001"))));
}

// ---- what an attention brings with it

class SuiteSetTest : public SuiteGridTest {};

TEST_F(SuiteSetTest, ChangesTheExperimentForThatAttentionAlone) {
  const Suite suite =
      load_suite(temp_.write("s.yaml",
                             "schema: 1\nexperiments: [small.yaml]\nseeds: [0]\nattentions:\n"
                             "  - quest\n  - {use: quest, as: wide, set: {model: {dim: 16}}}\n"),
                 {}, parts().catalogue(), temp_ / "runs");
  ASSERT_EQ(suite.cells.size(), 2U);
  EXPECT_EQ(suite.cells[0].experiment.model.options.at("dim").as_int(), 8);
  EXPECT_EQ(suite.cells[1].experiment.model.options.at("dim").as_int(), 16);
  EXPECT_EQ(suite.cells[1].experiment.attention.label, "wide");
  EXPECT_EQ(suite.cells[1].experiment.attention.options.find("set"), nullptr);
}

TEST_F(SuiteSetTest, IsPartOfTheAttentionForThoseWhoCompare) {
  const Suite suite =
      load_suite(temp_.write("s.yaml",
                             "schema: 1\nexperiments: [small.yaml]\nattentions:\n"
                             "  - quest\n  - {use: quest, as: wide, set: {model: {dim: 16}}}\n"),
                 {}, parts().catalogue(), temp_ / "runs");
  for (const Cell& cell : suite.cells) finish(cell, {{"accuracy", 0.5}});
  const RunCollection runs = find_runs({temp_ / "runs"});
  EXPECT_TRUE(differences_of(runs.runs).empty());
  const std::vector<ConfigDifference> own = matched_values(runs.runs);
  ASSERT_EQ(own.size(), 1U);
  EXPECT_THAT(own[0].text(),
              says({"small:", "model.dim", "16 in wide (seeds 0, 1)", "8 in quest (seeds 0, 1)"}));
}

TEST_F(SuiteSetTest, ReportsMistakesWithTheirPlaces) {
  const auto refused = [&](const std::string& set) {
    const std::string yaml =
        "schema: 1\nexperiments: [small.yaml]\nattentions: [{use: quest, set: " + set + "}]\n";
    std::string message = message_of<ConfigError>(
        [&] { load_suite(temp_.write("s.yaml", yaml), {}, parts().catalogue(), temp_ / "runs"); });
    return message.substr(message.find("s.yaml"));
  };
  EXPECT_THAT(refused("{model: {dmi: 16}}"),
              says({"s.yaml:3:41:", "model:", "'dmi'", "'vit'", "'dim'"}));
  EXPECT_THAT(refused("5"), says({"s.yaml:3:32:", "attentions:", "set:", "a map", "found 5"}));
  EXPECT_THAT(refused("{seeds: [1]}"),
              AllOf(StartsWith("s.yaml:3:33: attentions:"), HasSubstr("'seeds'")));
}

}  // namespace
}  // namespace attnlab::suite_grid_test
