// Reports of a grid: what is pooled, how it is distributed, and what each
// format shows of it.
#include <cmath>

#include "framework/base/files.h"
#include "framework/report/report.h"
#include "framework/suites/suite.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::grid_test {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::DoubleNear;
using ::testing::Pair;

using Metrics = std::map<std::string, double>;

class ReportGridTest : public WithMadeParts {
 protected:
  ReportGridTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: standard\ntask: sorting\n"
                "dataset: {use: pictures, root: real}\nseeds: [0, 1]\n");
  }
  /// Runs every cell of a suite; its record stands beside the runs, as from a
  /// real suite.
  /// @param metrics  of a run: its place among the cells of its attention, its
  /// attention
  template <class Function>
  void make_suite(const std::string& more, const Function& metrics) const {
    const std::string yaml =
        "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\n" + more;
    const Suite suite =
        load_suite(temp_.write("s.yaml", yaml), {}, parts().catalogue(), temp_ / "runs");
    std::map<std::string, int> places;
    for (const Cell& cell : suite.cells) {
      const std::string& attention = cell.experiment.attention.label;
      cell.folder.freeze(cell.experiment, cell.seed);
      cell.folder.write_status(
          {RunState::done, 1, 1, 1, 2, metrics(places[attention]++, attention), ""});
      write_environment(cell.folder);
    }
    write_file(suite.folder + "/suite.json", suite_record(suite, "attnlab suite s"));
  }
  /// Where 3 of quest's 4 runs are correct and 1 of standard's; the first two
  /// have lr 0.0001.
  void make_small() const {
    make_suite("grid: {lr: [1.0e-4, 1.0e-3], note: [x]}\n", [](int place, const auto& who) {
      const bool correct = who == "quest" ? place != 0 : place == 3;
      return Metrics{{"accuracy", 0.25 * place}, {"outcome/correct", correct ? 1.0 : 0.0}};
    });
  }
  Report report() const {
    RunCollection collection = find_runs({temp_ / "runs"});
    Comparison comparison = compare_runs(collection, {}, "", &parts().catalogue());
    return build_report(std::move(collection), std::move(comparison), parts().catalogue());
  }
  static const PooledCell& cell(const Report& report, std::string_view slice,
                                std::string_view attention) {
    for (const PooledCell& one : report.cells) {
      if (report.slices.all[one.slice].name == slice && one.attention == attention) return one;
    }
    throw std::runtime_error("no cell of " + std::string(slice) + " and " + std::string(attention));
  }
  static std::vector<std::string> names(const Report& report) {
    std::vector<std::string> out;
    for (const Slice& slice : report.slices.all) out.push_back(slice.name);
    return out;
  }
  static json page_data(const Report& report) {
    const std::string page = report_html(report, "n");
    const std::size_t begin = page.find("id=\"data\">") + 10;
    return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  }

  const TempFolder temp_;
};

// ---- slices

TEST_F(ReportGridTest, PoolsAllPointsThenEachValueOfAnAxisThatVaries) {
  make_suite("grid: {lr: [1.0e-3, 1.0e-4], dim: [8]}\n", [](int, const auto&) {
    return Metrics{{"accuracy", 1}};
  });
  EXPECT_THAT(names(report()),
              ElementsAre("small, all 2 points", "small, lr=0.001", "small, lr=0.0001",
                          "small,lr=0.001,dim=8", "small,lr=0.0001,dim=8"))
      << "values in the order of the suite; one dim alone pools nothing new";
}

TEST_F(ReportGridTest, PoolsNothingWhereThereIsOnePoint) {
  make_suite("grid: {lr: [1.0e-3]}\n", [](int, const auto&) { return Metrics{{"accuracy", 1}}; });
  const Report made = report();
  EXPECT_THAT(names(made), ElementsAre("small,lr=0.001"));
  EXPECT_THAT(report_html(made, "n"), Not(HasSubstr("id=\"grid\"")));
}

TEST_F(ReportGridTest, GivesPointsNoRowsWhereTheyWouldBeTooMany) {
  make_suite("grid: {dim: 'range(8, 38, 1)'}\npool: []\n",  // 31 points with two
                                                            // attentions
             [](int, const auto&) {
               return Metrics{{"accuracy", 1}};
             });
  const Report made = report();
  EXPECT_THAT(names(made), ElementsAre("small, all 31 points"));
  const std::string page = report_html(made, "n");
  EXPECT_THAT(page, mentions("31 points", "small", "no rows"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"results-table\"")));
  EXPECT_EQ(page.find("small,dim=9"), std::string::npos) << "nothing of a single point";
  EXPECT_THAT(report_markdown(made), Not(HasSubstr("small,dim=9")));
  EXPECT_THAT(report_latex(made), Not(HasSubstr("small,dim=9")));
  EXPECT_THAT(report_csv(made), HasSubstr("\"small,dim=9\",quest,1,done"));
}

TEST_F(ReportGridTest, ReadsTheGridFromTheSuitesRecord) {
  make_small();
  const RunCollection collection = find_runs({temp_ / "runs"});
  ASSERT_EQ(collection.suites.size(), 1U);
  const SuiteRecord& suite = collection.suites[0];
  ASSERT_EQ(suite.points.size(), 2U);
  EXPECT_EQ(suite.points[1].base, "small");
  EXPECT_THAT(suite.points[1].values, ElementsAre(Pair("lr", "0.001"), Pair("note", "x")));
  EXPECT_THAT(suite.pool, ElementsAre("lr", "note"));
}

// ---- numbers

TEST_F(ReportGridTest, MeansAreOverSeedsAndPoints) {
  make_small();
  const Report made = report();
  const PooledCell& all = cell(made, "small, all 2 points", "quest");
  EXPECT_EQ(all.runs, 4);
  EXPECT_DOUBLE_EQ(all.metrics.at("accuracy").mean, (0 + 0.25 + 0.5 + 0.75) / 4);
  EXPECT_EQ(all.metrics.at("accuracy").count, 4);
  const PooledCell& low = cell(made, "small, lr=0.0001", "quest");
  EXPECT_DOUBLE_EQ(low.metrics.at("accuracy").mean, (0 + 0.25) / 2);
  EXPECT_DOUBLE_EQ(low.metrics.at("outcome/correct").mean, 0.5);
  EXPECT_DOUBLE_EQ(cell(made, "small, lr=0.001", "standard").metrics.at("outcome/correct").mean,
                   0.5);
}

TEST_F(ReportGridTest, OnlyRunsThatAreDoneCount) {
  make_small();
  for (const std::string& path : {temp_ / "runs/s"}) {
    for (const RunRecord& run : find_runs({path}).runs) {
      if (run.attention != "quest" || run.status.metrics.at("accuracy") != 0.75) continue;
      RunFolder(run.folder).write_status({RunState::diverged, 1, 1, 1, 2, {}, "nan"});
    }
  }
  const PooledCell all = cell(report(), "small, all 2 points", "quest");
  EXPECT_EQ(all.runs, 4);
  EXPECT_EQ(all.done, 3);
  EXPECT_DOUBLE_EQ(all.metrics.at("accuracy").mean, 0.25);
}

TEST_F(ReportGridTest, CurvesAreBandsOverAllRunsOfASlice) {
  make_small();
  double value = 0;
  for (const RunRecord& run : find_runs({temp_ / "runs"}).runs) {
    if (run.attention != "quest") continue;
    write_file(run.folder + "/metrics.jsonl",
               R"({"split":"train","step":1,"loss":)" + std::to_string(value++) + "}\n");
  }
  const Report made = report();
  const auto found = std::find_if(made.curves.begin(), made.curves.end(), [](const Curve& curve) {
    return curve.experiment == "small, all 2 points";
  });
  ASSERT_NE(found, made.curves.end());
  EXPECT_THAT(found->mean, ElementsAre(DoubleNear(1.5, 1e-12)));
  EXPECT_THAT(found->seeds, ElementsAre(4));
  EXPECT_THAT(found->deviation, ElementsAre(DoubleNear(std::sqrt(5.0 / 3), 1e-12)));
}

// ---- distributions

TEST_F(ReportGridTest, HistogramsCountEachRunOnce) {
  make_suite(
      "grid: {lr: [1.0e-4, 1.0e-3]}\nseeds: [0, 1, 2, 3, 4]\n", [](int place, const auto& who) {
        const double accuracy = place == 9 ? 1 : place < 3 ? 0.1 : 0.3;
        return Metrics{
            {"accuracy", who == "quest" ? accuracy : 0}, {"constant", 3}, {"outcome/correct", 1}};
      });
  const Report made = report();
  ASSERT_EQ(made.histograms.size(), 2U)
      << "five runs of one lr are too few; constants and shares have no "
         "distribution";
  const Histogram& quest =
      made.histograms[0].attention == "quest" ? made.histograms[0] : made.histograms[1];
  EXPECT_EQ(quest.metric, "accuracy");
  EXPECT_EQ(quest.low, 0);
  EXPECT_EQ(quest.high, 1);
  ASSERT_EQ(quest.counts.size(), 40U);
  std::vector<std::int64_t> expected(40, 0);
  expected[4] = 3;   // 0.1 begins the fifth bin of 0.025
  expected[12] = 6;  // 0.3
  expected[39] = 1;  // the upper edge is in the last bin
  EXPECT_EQ(quest.counts, expected);
}

TEST_F(ReportGridTest, HistogramsOfCloseAccuraciesHaveBinsOfTheirOwn) {
  make_suite("seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n", [](int place, const auto& who) {
    return Metrics{{"accuracy", (who == "quest" ? 0.86 : 0.85) + 0.001 * place}};
  });
  const Report made = report();
  ASSERT_EQ(made.histograms.size(), 2U);
  for (const Histogram& one : made.histograms) {
    EXPECT_NEAR(one.low, 0.85, 1e-12);
    EXPECT_NEAR(one.high, 0.869, 1e-12) << "attentions share their bins";
  }
  EXPECT_THAT(report_html(made, "n"), HasSubstr("id=\"distributions-charts\""))
      << "an experiment without a grid has distributions, too";
}

// ---- formats

TEST_F(ReportGridTest, SaysFirstHowOftenEachAttentionSucceeds) {
  make_small();
  const std::vector<std::string> sentences = finding_of(report());
  EXPECT_THAT(sentences.at(0),
              says({"2 points", "small", "outcome/correct", "75.00 [30.06, 95.44] % for quest",
                    "25.00 [4.56, 69.94] % for standard"}))
      << "Wilson's intervals of 3 and of 1 among 4";
  EXPECT_THAT(sentences.at(1), AllOf(StartsWith("Point by point"), HasSubstr("no attention")));
}

TEST_F(ReportGridTest, GivesThePageWhatItsChartsDraw) {
  make_small();
  const json data = page_data(report());
  EXPECT_EQ(data.at("grids"), json::parse(R"([{"base": "small", "all": 0, "axes":
      [{"axis": "lr", "values": ["0.0001", "0.001"], "slices": [1, 2]}],
      "metrics": ["outcome/correct"]}])"));
  std::size_t found = 0;
  for (const json& cell : data.at("cells")) {
    if (cell.at("e") != 0 || data.at("attentions").at(cell.at("a").get<int>()) != "quest") continue;
    ++found;
    EXPECT_EQ(cell.at("metrics").at("outcome/correct"), json::parse("[0.75, 0.30064, 0.95441, 4]"));
  }
  EXPECT_EQ(found, 1U);
}

TEST_F(ReportGridTest, HasTablesOfPooledRunsInEveryFormat) {
  make_small();
  const Report made = report();
  EXPECT_THAT(
      report_markdown(made),
      AllOf(HasSubstr("## small, all 2 points"), HasSubstr("| quest     | 75.00 [30.06, 95.44] |"),
            HasSubstr("## small: outcome/correct (%) by lr"), HasSubstr("| 4 of 4 |")));
  const std::string latex = report_latex(made);
  EXPECT_THAT(latex, AllOf(HasSubstr("quest & $75.00$ {\\footnotesize $[30.06, 95.44]$} & "
                                     "$37.50 \\pm 32.27$ \\\\"),
                           HasSubstr("attention & 0.0001 & 0.001 \\\\"),
                           HasSubstr("mean $\\pm$ sample"), Not(HasSubstr("±"))));
  EXPECT_EQ(std::count(latex.begin(), latex.end(), '{'),
            std::count(latex.begin(), latex.end(), '}'));
  EXPECT_THAT(report_html(made, "n"),
              AllOf(HasSubstr("<a href=\"#grid\">Grid</a>"), HasSubstr("75.00 [30.06, 95.44]"),
                    HasSubstr("Keys that the grids vary")));
  const json all = json::parse(report_json(made));
  EXPECT_EQ(all.at("slices").at(1).at("axis"), "lr");
  EXPECT_EQ(all.at("pooled").size(), 10U) << "five slices, two attentions";
}

TEST_F(ReportGridTest, WritesNoDeviationOfOneRun) {
  make_suite("seeds: [0]\ngrid: {lr: [1.0e-4, 1.0e-3]}\n", [](int place, const auto&) {
    return Metrics{{"accuracy", 0.25 * place}};
  });
  std::size_t single = 0, several = 0;
  const json all = json::parse(report_json(report()));
  for (const json& cell : all.at("pooled")) {
    const json& accuracy = cell.at("metrics").at("accuracy");
    const bool one = accuracy.at("n") == 1;
    EXPECT_EQ(accuracy.at("sd").is_null(), one) << cell;
    ++(one ? single : several);
  }
  EXPECT_GT(single, 0U);
  EXPECT_GT(several, 0U);
}

TEST_F(ReportGridTest, SaysOfHowManyRunsAMeanIsThatIsOfFewer) {
  make_small();
  std::string last;  // correct, and at lr 0.001
  for (const RunRecord& run : find_runs({temp_ / "runs"}).runs) {
    if (run.attention == "quest" && run.status.metrics.at("accuracy") == 0.75) last = run.folder;
  }
  RunFolder(last).write_status({RunState::diverged, 1, 1, 1, 2, {}, "nan"});
  const Report made = report();
  EXPECT_THAT(finding_of(made).at(0), HasSubstr(" % for quest (3 of 4), 25.00 [4.56, 69.94] % for "
                                                "standard."));
  EXPECT_THAT(report_markdown(made), AllOf(HasSubstr("] (1 of 2) |"), HasSubstr("| 3 of 4 |"),
                                           Not(HasSubstr("] (3 of 4) |"))))
      << "the column of runs says it of all points";
  EXPECT_THAT(report_latex(made),
              AllOf(HasSubstr("$25.00 \\pm 25.00$ (3 of 4) \\\\"), HasSubstr("]$} (1 of 2) \\\\")));
  EXPECT_THAT(report_html(made, "n"), HasSubstr("] (1 of 2)"));
  std::filesystem::remove_all(last);
  EXPECT_THAT(report_markdown(report()), HasSubstr("] (1 of 2) |")) << "standard has two there";
}

TEST_F(ReportGridTest, PutsTheGridsValuesIntoCsvColumns) {
  make_small();
  const std::string csv = report_csv(report());
  EXPECT_THAT(csv, HasSubstr(",folder,together,grid.lr,grid.note,accuracy,"));
  EXPECT_THAT(csv, HasSubstr(",0.001,x,0.75,1\r\n"));
}

TEST_F(ReportGridTest, DoesNotRankOverPointsOfTheSameData) {
  make_suite("grid: {lr: [1.0e-4, 1.0e-3]}\n", [](int place, const auto& who) {
    return Metrics{{"accuracy", (who == "quest" ? 0.5 : 0.4) + 0.01 * place}};
  });
  const Report made = report();
  EXPECT_FALSE(made.comparison.ranking) << "they are settings of one experiment";
  for (const std::string& sentence : finding_of(made)) {
    EXPECT_THAT(sentence, Not(HasSubstr("Across 2 experiments")));
  }
}

}  // namespace
}  // namespace attnlab::grid_test
