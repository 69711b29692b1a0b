// Reports of made-up runs: findings, tables, and what users wrote inside them.
#include "framework/report/report.h"

#include <cmath>
#include <sstream>

#include "framework/report/diagrams.h"
#include "framework/report/html_parts.h"
#include "tests/support/run_folders.h"

namespace attnlab::report_test {
namespace {

using namespace testing;
using nlohmann::json;

class ReportTest : public WithRunFolders {
 protected:
  static RunStatus done(double accuracy) {
    RunStatus status;
    status.state = RunState::done;
    status.metrics = {{"accuracy", accuracy}, {"examples_per_second", 2000}};
    return status;
  }
  static RunStatus diverged(const std::string& reason) {
    RunStatus status = ended(RunState::diverged, reason);
    status.step = 3;
    status.steps = 8;
    return status;
  }
  /// Seven seeds in which quest differs by `gain` points times 1 to 7.
  void write_seven(const std::string& experiment, double gain) const {
    for (int seed = 0; seed < 7; ++seed) {
      write_run(experiment, "standard", seed, done(0.5));
      write_run(experiment, "quest", seed, done(0.5 + 0.01 * gain * (seed + 1)));
    }
  }
  Report report() const {
    RunCollection collection = find_runs({temp_ / "runs"});
    Comparison comparison = compare_runs(collection, {}, "", &parts().catalogue());
    Report made = build_report(std::move(collection), std::move(comparison), parts().catalogue());
    made.command = "attnlab report runs";
    made.date = "2026-11-21 20:00 UTC";
    return made;
  }
};

// ---- the finding

TEST_F(ReportTest, SaysWhatIsSignificant) {
  write_seven("small", 1);
  EXPECT_THAT(finding_of(report()).at(0), says({"quest is significantly better", "standard",
                                                "small", "4.00 points of accuracy", "p = 0.0156"}));
}

TEST_F(ReportTest, CallsAWorseAttentionWorse) {
  write_seven("small", -1);
  EXPECT_THAT(finding_of(report()).at(0), mentions("significantly worse", "standard", "small"));
}

TEST_F(ReportTest, CountsExperimentsWhereThereAreSeveral) {
  write_seven("one", 1);
  write_seven("two", 2);
  write_seven("three", 0.0);
  EXPECT_THAT(finding_of(report()).at(0),
              says({"quest is significantly better", "standard", "on 2 experiments",
                    "on 1 other experiment no difference"}));
}

TEST_F(ReportTest, ClaimsNothingThatIsNotShown) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 1, done(0.5));
  write_run("small", "quest", 0, done(0.6));
  write_run("small", "quest", 1, done(0.7));
  const std::vector<std::string> sentences = finding_of(report());
  EXPECT_THAT(sentences.at(0),
              AllOf(StartsWith("No attention"), HasSubstr("standard"), HasSubstr("so few seeds"),
                    HasSubstr("+15.00 points over 2 seeds (p = 0.5)")));
}

TEST_F(ReportTest, SaysThatOneAttentionAloneIsNoComparison) {
  write_run("small", "standard", 0, done(0.5));
  EXPECT_THAT(finding_of(report()).at(0), says({"accuracy of standard", "50.00 %", "small"}));
}

TEST_F(ReportTest, BeginsWithUnfairness) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "quest", 0, done(0.6), "train: {epochs: 11}");
  const Report made = report();
  EXPECT_THAT(finding_of(made).at(0), HasSubstr(kNotFair));
  EXPECT_THAT(report_html(made, "n"), AllOf(HasSubstr(kNotFair), HasSubstr("train.epochs")));
  EXPECT_THAT(report_latex(made), HasSubstr("% NOT A FAIR COMPARISON"));
}

// ---- runs that gave nothing

TEST_F(ReportTest, ShowsEveryRunWithoutAValueAndItsLogsEnd) {
  write_run("small", "standard", 0, done(0.5));
  const RunFolder folder = write_run("small", "quest", 0, diverged("the loss is nan at step 3"));
  std::string log;
  for (int i = 0; i < 500; ++i) log += "line " + std::to_string(i) + "\n";
  write_file(folder.file("log.txt"), log + "\x1b[31mthe <end>\x1b[0m\n");
  const Report made = report();
  ASSERT_EQ(made.unfinished.size(), 1U);
  EXPECT_THAT(made.unfinished[0].log, AllOf(StartsWith("line 489\n"), EndsWith("\nthe <end>")));
  EXPECT_THAT(report_html(made, "n"),
              AllOf(HasSubstr("loss is nan at step 3"), HasSubstr("the &lt;end&gt;"),
                    HasSubstr("step 3 of 8"), HasSubstr("class=\"state diverged\"")));
  EXPECT_THAT(report_markdown(made),
              AllOf(HasSubstr("**diverged**: small/quest seed 0"), HasSubstr("the <end>")));
  EXPECT_THAT(finding_of(made).back(), mentions("1 of 2 runs", "1 diverged"));
}

// ---- traces

TEST_F(ReportTest, ShowsTheLastBiasAndTheSpreadOfTracesOverSeeds) {
  for (int seed = 0; seed < 2; ++seed) {
    const RunFolder folder = write_run("small", "standard", seed, done(0.5));
    const std::string norm = std::to_string(1 + 2 * seed);
    write_file(folder.file("metrics.jsonl"),
               R"({"split":"trace","step":1,"layer":0,"key_norm_mean/other":)" + norm +
                   R"(,"bias":{"first":-1,"heads":[[0.5,0.25,null]]}})" + "\n");
  }
  const Report made = report();
  ASSERT_EQ(made.biases.size(), 2U);
  const std::string page = report_html(made, "n");
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data.at("biases").at(1),
            json::parse(R"({"e": 0, "a": 0, "seed": 1, "step": 1, "layer": "0", "first": -1,
                            "heads": [[0.5, 0.25, null]]})"));
  EXPECT_EQ(data.at("curves").at(0).at("sd"), json::parse("[1.41]"));
  EXPECT_THAT(page, HasSubstr("id=\"bias-charts\""));
  const json all = json::parse(report_json(made));
  EXPECT_EQ(all.at("biases").at(0).at("heads"), json::parse("[[0.5, 0.25, null]]"));
  EXPECT_EQ(all.at("biases").at(0).at("attention"), "standard");
}

TEST_F(ReportTest, HasNoPlaceForABiasWhereNoneWasRecorded) {
  write_run("small", "standard", 0, done(0.5));
  EXPECT_THAT(report_html(report(), "n"), Not(HasSubstr("id=\"bias-charts\"")));
}

// ---- what users write

TEST_F(ReportTest, ShowsUsersNamesAsTheyAre) {
  const std::string label = "<script>x()&";
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "{use: quest, as: '" + label + "'}", 0, diverged("</script><b>"));
  Report made = report();
  made.title = "<i>title";
  made.command = "attnlab report '</code>'";
  const std::string page = report_html(made, "n0nce");
  EXPECT_THAT(page, Not(HasSubstr("<script>x")));
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, Not(HasSubstr("<i>title")));
  EXPECT_THAT(page, Not(HasSubstr("'</code>'")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;x()&amp;"));
  EXPECT_EQ(count(page, "<script"), 3U) << "data, library and the page's own";
  EXPECT_EQ(count(page, "</script"), 3U);
}

TEST_F(ReportTest, NeedsNothingFromElsewhere) {
  write_seven("small", 1);
  const std::string page = report_html(report(), "n0nce");
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'nonce-n0nce'"));
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("sourceMappingURL")));
  for (const char* name : {"nonce", "title", "style", "sections", "data", "library", "script"}) {
    EXPECT_THAT(page, Not(HasSubstr("{{" + std::string(name) + "}}"))) << "was not filled in";
  }
  EXPECT_EQ(count(page, "<link"), 1U) << "the empty icon, which keeps browsers from asking for one";
  EXPECT_THAT(page, HasSubstr("Chart.js v")) << "the library's notice, as its licence asks";
}

// ---- tables

TEST_F(ReportTest, KeepsMarkdownTablesWholeWhateverLabelsHold) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "{use: quest, as: 'a|<b>'}", 0, done(0.6));
  EXPECT_THAT(report_markdown(report()),
              AllOf(HasSubstr("| small      | a\\|\\<b>"), Not(HasSubstr("| a|"))));
}

TEST_F(ReportTest, MarksTheBestCellAndTheVerdict) {
  write_seven("small", 1);
  const std::string table = results_html(report());
  EXPECT_THAT(table, HasSubstr("class=\"number best\" data-order=\"54"));
  EXPECT_EQ(count(table, "number best"), 1U);
  EXPECT_THAT(table, HasSubstr("▲ better"));
}

TEST_F(ReportTest, PutsPublishedNumbersBesideItsOwn) {
  write_seven("small", 1);
  Report made = report();
  made.comparison.published = {
      {"<i>Paper", "accuracy", {{"small", {{"standard", "42.00"}, {"quest", "49.18"}}}}}};
  const std::string table = results_html(made);
  EXPECT_THAT(table, AllOf(HasSubstr("&lt;i&gt;Paper"), Not(HasSubstr("<i>Paper"))));
  EXPECT_THAT(table, AllOf(HasSubstr("data-order=\"49.18\">49.18<"), HasSubstr(">+7.18<")));
  EXPECT_THAT(table, HasSubstr(">42.00<"));
  const std::string page = report_html(made, "n");
  EXPECT_EQ(count(page, "<line class=\"published\""), 2U) << "one cross, of quest";
  EXPECT_THAT(page, HasSubstr("Crosses: &lt;i&gt;Paper."));
}

TEST_F(ReportTest, TellsLongNamesApartInItsDrawings) {
  write_seven("a_long_experiment_that_goes_on_and_on,lr=0.1", 1);
  write_seven("a_long_experiment_that_goes_on_and_on,lr=0.2", 1);
  EXPECT_THAT(report_html(report(), "n"), AllOf(HasSubstr(">a_long_experime…n_and_on,lr=0.1<"),
                                                HasSubstr(">a_long_experime…n_and_on,lr=0.2<")));
}

TEST_F(ReportTest, WritesALatexTableWithMarks) {
  write_seven("small_b", 1);
  write_run("tiny", "standard", 0, done(0.5));
  write_run("tiny", "quest", 0, diverged("50% off"));
  const std::string table = report_latex(report());
  EXPECT_THAT(table, HasSubstr("attention & small\\_b & tiny \\\\"));
  EXPECT_THAT(table, HasSubstr("standard & $\\underline{50.00} \\pm 0.00$ & $50.00$ \\\\"));
  EXPECT_THAT(table, HasSubstr("quest & $\\mathbf{54.00}^{\\dagger} \\pm 2.16$ & "
                               "--\\textsuperscript{a} \\\\"))
      << "mean 4 and deviation sqrt(14 / 3) of 1 to 7";
  EXPECT_THAT(table, HasSubstr("\\textsuperscript{a}~diverged: 50\\% off.\\\\"));
  EXPECT_THAT(table, AllOf(HasSubstr("Wilcoxon"), HasSubstr("Holm"), HasSubstr("1 to 7 seeds")));
  for (const char* name : {"table", "tabular", "minipage"}) {
    EXPECT_EQ(count(table, std::string("\\begin{") + name + "}"), 1U) << name;
    EXPECT_EQ(count(table, std::string("\\end{") + name + "}"), 1U) << name;
  }
  EXPECT_EQ(count(table, "{"), count(table, "}"));
  EXPECT_EQ(count(table, "$") % 2, 0U);
}

// "0.5000 ± 0.0017" and "0.500 ± 0.017" are printed with other decimals: both are the best.
TEST_F(ReportTest, MarksAsBestWhatIsPrintedAsEqual) {
  for (int seed = 0; seed < 2; ++seed) {
    for (const char* attention : {"standard", "quest"}) {
      RunStatus status = done(0.5);
      const double spread = attention[0] == 'q' ? 0.0012 : 0.012;
      status.metrics["perplexity"] = 0.5 + (seed == 0 ? -spread : spread);
      write_environment(write_run("text", attention, seed, status), json::object(),
                        {{"perplexity", Better::lower, ""}});
    }
  }
  const std::string table = report_latex(report());
  EXPECT_THAT(table, AllOf(HasSubstr("quest & $\\mathbf{0.5000} \\pm 0.0017$"),
                           HasSubstr("standard & $\\mathbf{0.500} \\pm 0.017$"),
                           Not(HasSubstr("\\underline"))));
}

// 0.50041 is printed as 0.5004, the worse 0.50049 as 0.500: they look equal.
TEST_F(ReportTest, NeverMarksTheWorseOfTwoMeansAsBest) {
  for (int seed = 0; seed < 2; ++seed) {
    for (const char* attention : {"standard", "quest"}) {
      RunStatus status = done(0.5);
      const bool ours = attention[0] == 'q';
      const double spread = ours ? 0.0012 : 0.012, mean = ours ? 0.50041 : 0.50049;
      status.metrics["perplexity"] = mean + (seed == 0 ? -spread : spread);
      write_environment(write_run("text", attention, seed, status), json::object(),
                        {{"perplexity", Better::lower, ""}});
    }
  }
  EXPECT_THAT(report_latex(report()), AllOf(HasSubstr("quest & $\\mathbf{0.5004} \\pm 0.0017$"),
                                            HasSubstr("standard & $\\mathbf{0.500} \\pm 0.017$")));
}

TEST_F(ReportTest, WritesSharesOfRunsWithTheirInterval) {
  for (int seed = 0; seed < 4; ++seed) {
    for (const char* attention : {"standard", "quest"}) {
      RunStatus status = done(0.5);
      status.metrics["outcome/correct"] = seed == 0 || attention[0] == 'q' ? 1 : 0;
      write_environment(write_run("toy", attention, seed, status), json::object(),
                        {{"outcome/correct", Better::higher, "share of runs"}});
    }
  }
  const Report made = report();
  EXPECT_THAT(report_latex(made),
              mentions("standard & $\\underline{25.00}$ {\\footnotesize $[4.56, 69.94]$}",
                       "shares of runs", "Wilson's", "95 \\%"));
  EXPECT_THAT(comparison_text(made.comparison, TableStyle::text),
              mentions("shares of runs", "Wilson's", "95 %\n"));
  EXPECT_THAT(report_html(made, "n"), mentions("share of runs", "Wilson&#39;s", "Student&#39;s",
                                               "share of runs", "Wilson&#39;s"));
}

TEST(Differences, AreDrawnWithoutAScaleWhereTheyAreTheLeastNumbers) {
  Comparison comparison;
  ComparisonRow row;
  row.metric.name = "loss";
  row.contrast.emplace().difference = {.count = 2, .mean = 1e-323};
  comparison.rows = {row};
  const std::string drawn = difference_svg(comparison, row.metric);
  EXPECT_THAT(drawn, AllOf(HasSubstr("class=\"mark open\""), Not(HasSubstr("class=\"grid\""))));
}

TEST_F(ReportTest, SaysWhereDifferencesAreTooManyForADiagram) {
  for (int number = 0; number < 61; ++number) {
    for (const char* attention : {"standard", "quest"}) {
      write_run("e" + std::to_string(number), attention, 0, done(0.5));
    }
  }
  const std::string page = report_html(report(), "n");
  EXPECT_THAT(page, mentions("61 differences", "accuracy", "at most 60"));
  EXPECT_THAT(page, Not(HasSubstr("<figcaption>Mean differences over seeds")));
}

TEST_F(ReportTest, WritesARecordARun) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "quest", 0, diverged("a, \"b\""));
  const std::string csv = report_csv(report());
  EXPECT_THAT(csv, StartsWith("experiment,attention,seed,state,reason,step,steps,seconds,folder,"
                              "together,accuracy,examples_per_second\r\n"));
  EXPECT_THAT(csv, HasSubstr("small,quest,0,diverged,\"a, \"\"b\"\"\",3,8,0,"));
  EXPECT_THAT(csv, HasSubstr(",0.5,2000\r\n"));
  EXPECT_EQ(count(csv, "\r\n"), 3U);
}

TEST_F(ReportTest, WritesARecordAComparedAttention) {
  write_seven("small", 1);
  write_run("other", "standard", 0, done(0.25));
  write_run("other", "quest", 0, diverged("too large"));
  std::istringstream lines(report_table(report()));
  std::vector<std::string> names;
  std::map<std::string, std::map<std::string, std::string>> rows;
  for (std::string line, field; std::getline(lines, line);) {
    line.back() = ',';  // in place of the carriage return
    std::istringstream rest(line);
    std::vector<std::string> fields;
    while (std::getline(rest, field, ',')) fields.push_back(field);
    if (names.empty()) names = fields;
    ASSERT_EQ(fields.size(), names.size()) << line;
    for (std::size_t n = 0; n < names.size(); ++n) {
      rows[fields[0] + "/" + fields[1]][names[n]] = fields[n];
    }
  }
  ASSERT_EQ(rows.size(), 5U) << "the names and four records";
  auto& quest = rows["small/quest"];
  const auto number = [&](const std::string& name) { return std::stod(quest[name]); };
  EXPECT_EQ(quest["values"], "7");
  EXPECT_NEAR(number("mean"), 0.54, 1e-12);
  EXPECT_NEAR(number("sd"), 0.01 * std::sqrt(28.0 / 6), 1e-12);
  EXPECT_LT(number("low"), 0.54);
  EXPECT_GT(number("high"), 0.54);
  EXPECT_NEAR(number("difference"), 0.04, 1e-12);
  EXPECT_NEAR((number("difference_low") + number("difference_high")) / 2, 0.04, 1e-12);
  EXPECT_EQ(number("p"), 0.015625);
  EXPECT_EQ(quest["pairs"], "7");
  EXPECT_EQ(quest["verdict"], "better");
  EXPECT_NEAR(std::stod(rows["small/standard"]["mean"]), 0.5, 1e-12);
  EXPECT_EQ(rows["small/standard"]["difference"], "") << "the baseline itself";
  EXPECT_EQ(rows["other/quest"]["mean"], "");
  EXPECT_EQ(rows["other/quest"]["absent"], "diverged");
}

TEST_F(ReportTest, WritesAWordWhereANumberIsNotFinite) {
  RunStatus half = done(0.5);
  half.metrics["nll"] = std::nan("");
  write_run("small", "standard", 0, half);
  const Report made = report();
  EXPECT_THAT(report_csv(made), HasSubstr(",0.5,not finite,2000\r\n"));
  const json run = json::parse(report_json(made)).at("runs").at(0);
  EXPECT_EQ(run.at("not_finite"), json({"nll"}));
  EXPECT_TRUE(run.at("metrics").at("nll").is_null());
  EXPECT_THAT(report_html(made, "n"), mentions("not finite", "nll"));
}

TEST_F(ReportTest, GoesOnWithoutWhatCannotBeRead) {
  write_seven("small", 1);
  const RunFolder damaged = write_run("small", "quest", 7, done(0.5));
  write_file(damaged.file("environment.json"), "{\"metrics\": 5}");
  const RunFolder silent = write_run("small", "standard", 7, done(0.5));
  std::filesystem::create_directory(silent.file("metrics.jsonl"));
  const Report made = report();
  EXPECT_EQ(made.collection.runs.size(), 15U);
  EXPECT_THAT(report_markdown(made), AllOf(HasSubstr("environment.json: damaged"),
                                           HasSubstr("metrics.jsonl cannot be read"),
                                           HasSubstr("small/quest seed 7: unreadable")));
}

TEST_F(ReportTest, ComparesEachExperimentByItsOwnHeadline) {
  write_seven("small", 1);
  for (int seed = 0; seed < 7; ++seed) {
    for (const char* attention : {"standard", "quest"}) {
      RunStatus status = done(0.5);
      status.metrics["perplexity"] = attention[0] == 'q' ? 20.0 + seed : 30.0 + 2 * seed;
      const RunFolder folder = write_run("text", attention, seed, status);
      write_environment(folder, json::object(),
                        {{"perplexity", Better::lower, ""}, {"accuracy", Better::higher, "share"}});
    }
  }
  const Report made = report();
  EXPECT_EQ(made.comparison.metric, "headline");
  EXPECT_THAT(finding_of(made).at(0),
              says({"quest is significantly better", "standard", "2 experiments"}));
  EXPECT_THAT(report_latex(made), AllOf(HasSubstr("small (accuracy (\\%) $\\uparrow$)"),
                                        HasSubstr("text (perplexity $\\downarrow$)"),
                                        HasSubstr("$\\mathbf{23.00}^{\\dagger}")));
  const std::string page = report_html(made, "n");
  EXPECT_THAT(page,
              mentions("accuracy (points)", "standard", "right is better", "perplexity", "standard",
                       "left is better", ">accuracy (%)<", "\"metric_of\":[\"accuracy\""));
}

TEST_F(ReportTest, ShowsEvaluationsBesideTheResults) {
  for (const char* attention : {"standard", "quest"}) {
    const RunFolder folder = write_run("small", attention, 0, done(0.5));
    write_evaluation(
        folder.path(),
        evaluated("fog", {{"accuracy", attention[0] == 'q' ? 0.375 : 0.25}, {"nll", 3}}));
  }
  const Report made = report();
  EXPECT_THAT(results_html(made), AllOf(HasSubstr("fog/accuracy (%)"), HasSubstr(">37.50<"),
                                        Not(HasSubstr("fog/nll"))));
  EXPECT_THAT(metrics_html(made), HasSubstr("fog/nll (nats)"));
  EXPECT_THAT(report_csv(made), HasSubstr("fog/accuracy,fog/nll"));
  EXPECT_THAT(report_table(made),
              AllOf(HasSubstr(",verdict,fog/accuracy\r\n"), HasSubstr(",0.375\r\n")));
  EXPECT_EQ(json::parse(report_json(made)).at("runs").at(0).at("evaluations").at(0).at("entry"),
            "fog");
}

TEST_F(ReportTest, CountsTheSeedsOfAnEvaluationThatFailed) {
  for (const std::int64_t seed : {0, 1}) {
    const RunFolder folder = write_run("small", "standard", seed, done(0.5));
    write_evaluation(folder.path(),
                     evaluated("fog", {{"accuracy", 0.25}}, seed == 0 ? "" : "no memory"));
  }
  const Report made = report();
  EXPECT_THAT(results_html(made), HasSubstr(">25.00 (1 of 2)<"));
  EXPECT_THAT(report_html(made, "n"), HasSubstr("evaluation fog: failed: no memory"));
}

TEST_F(ReportTest, HasATableWithARowAClass) {
  write_run("small", "standard", 0, done(0.5));
  EXPECT_EQ(classes_html(report()), "");
  const std::vector<MetricInfo> metrics = {{"accuracy", Better::higher, "share"},
                                           {"ap50", Better::higher, "share"},
                                           {"ap50_shirt", Better::higher, "share", "shirt"},
                                           {"ap50_dress", Better::higher, "share", "dress"}};
  for (const std::string attention : {"standard", "quest"}) {
    for (int seed = 0; seed < 2; ++seed) {
      RunStatus status = done(0.5);
      status.metrics["ap50"] = 0.25;
      status.metrics["ap50_shirt"] = attention == "quest" ? 0.375 : 0.125 * seed;
      status.metrics["ap50_dress"] = 0.75;
      const RunFolder folder = write_run("scenes", attention, seed, status);
      write_environment(folder, json::object(), metrics);
      write_evaluation(folder.path(), evaluated("all", {{"ap50_shirt", 0.0625}}, "", metrics));
    }
  }
  const Report made = report();
  const std::string tables = classes_html(made);
  EXPECT_EQ(count(tables, "<table"), 2U) << "of the runs and of their evaluation";
  EXPECT_THAT(tables,
              AllOf(HasSubstr("scenes: ap50 (%) of each class"), HasSubstr("scenes: all/ap50 (%)"),
                    HasSubstr(">6.25 ± 8.84<"), HasSubstr(">37.50 ± 0.00<")));
  const std::size_t own = tables.find("scenes: ap50 ("), shirt = tables.find(">shirt<", own);
  EXPECT_LT(own, tables.find("scenes: all/ap50 (")) << "the runs' own come first";
  EXPECT_LT(shirt, tables.find(">dress<", own)) << "in the order of the task";
  EXPECT_EQ(count(tables, ">shirt<"), 2U) << "one row, not one row per attention";
  const std::string others = metrics_html(made);
  EXPECT_THAT(others, AllOf(HasSubstr("except those of single classes"), Not(HasSubstr("shirt"))));
  EXPECT_THAT(report_html(made, "n"), HasSubstr("Metrics per class"));
}

TEST_F(ReportTest, DrawsMetricsOverANumber) {
  write_run("small", "standard", 0, done(0.5));
  EXPECT_THAT(report_html(report(), "n"), Not(HasSubstr("id=\"ladders-charts\"")));
  for (const char* rate : {"0.015", "0.05"}) {
    const RunFolder folder = write_run("small", "standard", 0, done(0.5));
    write_evaluation(folder.path(), evaluated(std::string("swap/") + rate,
                                              {{"accuracy", rate[3] == '1' ? 0.25 : 0.125}}));
  }
  const std::string page = report_html(report(), "n");
  EXPECT_THAT(page, AllOf(HasSubstr("id=\"ladders-charts\""),
                          HasSubstr("\"heading\":\"accuracy (%)\",\"over\":\"swap\""),
                          HasSubstr("\"rungs\":[[0.015,0.25,0.0,1],[0.05,0.125,0.0,1]]")));
}

TEST_F(ReportTest, HasEverythingInItsJson) {
  write_seven("small", 1);
  write_run("small", "quest", 7, diverged("why"));
  const json written = json::parse(report_json(report()));
  EXPECT_EQ(written.at("schema"), 1);
  EXPECT_EQ(written.at("runs").size(), 15U);
  EXPECT_EQ(written.at("comparison").at("rows").size(), 2U);
  std::size_t reasons = 0;
  for (const json& run : written.at("runs")) reasons += run.contains("reason") ? 1 : 0;
  EXPECT_EQ(reasons, 1U);
}

TEST_F(ReportTest, TellsInWhatExperimentsDiffer) {
  write_run("small", "standard", 0, done(0.5));
  write_run("large", "standard", 0, done(0.5), "{model: {dim: 128}, published: {parameters: 5}}");
  const Report made = report();
  ASSERT_EQ(made.settings.size(), 1U) << "what a paper prints is not a setting";
  EXPECT_EQ(made.settings[0].key, "model.dim");
  EXPECT_THAT(made.settings[0].values,
              ElementsAre(::testing::Pair("large", "128"), ::testing::Pair("small", "64")));
}

// ---- ranks

TEST_F(ReportTest, DrawsRanksOrSaysWhyNot) {
  write_seven("one", 1);
  EXPECT_THAT(report_html(report(), "n"), mentions("no diagram", "ranks"));
  write_seven("two", 1);
  EXPECT_THAT(report_html(report(), "n"),
              AllOf(HasSubstr("CD = "), HasSubstr("quest  1.00"), HasSubstr("2.00  standard")));
}

// ---- citations

TEST(Citations, AreSplitIntoWorksUnlessTheyAreBibtex) {
  EXPECT_THAT(works_of("A et al., ICML 2020; B, 2025 "),
              ElementsAre("A et al., ICML 2020", "B, 2025"));
  EXPECT_THAT(works_of("@article{a, title = {x; y}}"), ElementsAre("@article{a, title = {x; y}}"));
  EXPECT_THAT(works_of("  "), IsEmpty());
}

// What only an evaluation uses is part of the result, too.
TEST(Citations, AreOfPluginsOfEvaluationsToo) {
  const MadeParts parts;
  const auto write = [&](Kind kind, const std::string& name) {
    nlohmann::json manifest = made_manifest(kind, name);
    manifest["citation"] = name + ", 2025";
    write_plugin(parts.folder(), "plugins/" + name + ".so", manifest);
  };
  write(Kind::task, "counting");
  write(Kind::task, "ranking");
  write(Kind::attention, "sharp");
  write(Kind::attention, "blunt");
  write(Kind::dataset, "sketches");
  const Catalogue catalogue = catalogue_of(parts.folder() / "plugins");
  RunRecord run;
  run.config =
      parse_yaml(kImages +
                     "evaluate:\n  clean: {}\n  count: {set: {task: {use: counting}}}\n"
                     "  other: {set: {attention: sharp}}\n"
                     "  each: {over: {attention: [standard, blunt], task.use: [ranking]}}\n",
                 "made.yaml");
  EvaluationRecord added;  // to the finished run: its configuration does not name it
  added.entry = "drawn";
  added.set = R"({"dataset": {"use": "lab/sketches"}})";
  run.evaluations = {added};
  std::vector<std::string> absent;
  std::vector<std::string> plugins;
  for (const Citation& citation : citations_of({run}, catalogue, absent)) {
    if (citation.text.find(", 2025") != std::string::npos) plugins.push_back(citation.text);
  }
  EXPECT_THAT(plugins,
              ::testing::UnorderedElementsAre("counting, 2025", "ranking, 2025", "sharp, 2025",
                                              "blunt, 2025", "sketches, 2025"));
  EXPECT_THAT(absent, IsEmpty());
}

TEST_F(ReportTest, ShowsTheOptionsOfALabelOfEachExperiment) {
  write_run("large", "quest", 0, done(0.5));
  write_run("small", "quest", 0, done(0.5), "attention: {eps: 0.5}");
  const std::string page = report_html(report(), "n");
  EXPECT_THAT(page, AllOf(HasSubstr("quest (large)"), HasSubstr("quest (small)"),
                          HasSubstr("<code>{use: quest, eps: 0.5}</code>")));
}

TEST(Citations, SayWhichEvaluationsSettingsCannotBeRead) {
  const MadeParts parts;
  nlohmann::json set;
  for (int i = 0; i <= 2000; ++i) set["key" + std::to_string(i)] = 1;
  RunRecord run;
  run.folder = "runs/r";
  run.config = parse_yaml(kImages, "made.yaml");
  EvaluationRecord damaged;
  damaged.entry = "drawn";
  damaged.set = set.dump();
  run.evaluations = {damaged};
  std::vector<std::string> absent;
  citations_of({run}, parts.catalogue(), absent);
  EXPECT_THAT(absent, ElementsAre(mentions("evaluation 'drawn'", "runs/r", "cannot be read")));
}

TEST(Citations, BecomeBibtexWithTheirYear) {
  const std::string text =
      bibtex_of({{"lab-a", "A & B, On 50% of 12345, ICML 2020", {"lab/a", "lab/b"}},
                 {"own", "@article{own, title = {x}}", {"lab/c"}}});
  EXPECT_EQ(text,
            "@misc{lab-a,\n  title = {{A \\& B, On 50\\% of 12345, ICML 2020}},\n"
            "  key = {lab-a},\n  year = {2020},\n  note = {As cited by the attnlab plugin lab/a, "
            "lab/b}\n}\n\n"
            "@article{own, title = {x}}\n");
}

}  // namespace
}  // namespace attnlab::report_test
