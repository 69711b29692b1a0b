// The page over domains as a page, a figure, a paper's table and records; and a model card.
#include "framework/report/domain_report.h"
#include "framework/base/json.h"

#include <sstream>

#include "framework/report/card.h"
#include "tests/support/compositions.h"
#include "tests/support/made_domains.h"
#include "tests/support/run_folders.h"

namespace attnlab::domain_report_test {
namespace {

using namespace testing;
using nlohmann::json;

const PageStamp kStamp{"attnlab page runs/<made>", "2026-11-23 17:00 UTC"};

/// Two attentions beside the baseline: one wins in graphs, one fits half of the domains.
DomainPage made_page() {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner", "partial"}, 5, 1);
  for (RunRecord& run : runs.all.runs) {
    if (run.attention == "winner" && run.experiment == "graphs") run.status.metrics["score"] += 0.2;
  }
  std::erase_if(runs.all.runs, [](const RunRecord& run) {
    return run.attention == "partial" && run.experiment == "language";
  });
  runs.all.absent.push_back(
      {"language", "partial", 0, {Absence::incompatible, "it is not <causal>"}, ""});
  runs.page().claims = {{"winner", "graphs", "score", true, "a paper & its table", "it wins"}};
  runs.all.notes = {"a note", "WARNING: it proves nothing"};
  runs.all.suites.front().page->title = "Every <domain>";
  return runs.build();
}

TEST(DomainReport, ThePageHasEveryPartAndEscapesWhatItQuotes) {
  const std::string html = domain_html(made_page(), kStamp);
  EXPECT_THAT(html, AllOf(HasSubstr("<h1>Every &lt;domain&gt;</h1>"),
                          HasSubstr("WARNING: it proves nothing"), HasSubstr("Published claims"),
                          HasSubstr("a paper &amp; its table"), HasSubstr("holds"),
                          HasSubstr("not &lt;causal&gt;"), HasSubstr("Ranks over domains"),
                          HasSubstr("How to read it"), HasSubstr("runs/&lt;made&gt;")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_EQ(count(html, "<svg"), 2U) << "the figure and the ranks";
  EXPECT_EQ(count(html, "<table>"), count(html, "</table>"));
}

/// A suite with `tune:` as its record has it: two tries, of which the second was chosen.
TuningRecord made_tuning() {
  TuningRecord record{{"train.optimizer.lr"}, 1000, 2, {}};
  const MetricInfo judge{"score", Better::higher, "share"};
  const std::vector<TuningTry> tries = {{"lr=0.001", {}, RunState::done, 0.25, 30, ""},
                                        {"lr=0.01", {}, RunState::done, 0.5, 45, ""}};
  record.attentions = {{"graphs", "winner", judge, tries, 1, {}, ""},
                       {"nowhere", "winner", judge, tries, 1, {}, ""}};
  return record;
}

TEST(DomainReport, ThePageHasTheTriesOfTuneAndWhatTheyTook) {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner"}, 3, 1);
  EXPECT_THAT(domain_markdown(runs.build(), kStamp), Not(HasSubstr("Tries before the seeds")));
  EXPECT_FALSE(json::parse(domain_json(runs.build(), kStamp)).contains("tuned"));
  runs.all.suites.front().tuning = made_tuning();
  const DomainPage page = runs.build();
  const std::string text = domain_markdown(page, kStamp);
  EXPECT_THAT(text, AllOf(HasSubstr("## Tries before the seeds"), HasSubstr("lr=0.01"),
                          HasSubstr("1 min 15 s"), Not(HasSubstr("nowhere"))));
  EXPECT_THAT(domain_html(page, kStamp), HasSubstr("Tries before the seeds</h2>"));
  const json tuned = json::parse(domain_json(page, kStamp)).at("tuned");
  ASSERT_EQ(tuned.size(), 1U) << "of experiments that are on the page";
  EXPECT_EQ(tuned[0].at("attention"), "winner");
  EXPECT_EQ(tuned[0].at("chosen"), 1);
  EXPECT_EQ(tuned[0].at("tries").at(0).at("score"), 0.25);
}

TEST(DomainReport, TheFigureIsAPictureOfItsOwn) {
  const std::string svg = domain_figure(made_page());
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, AllOf(HasSubstr("<style>"), HasSubstr("Every &lt;domain&gt;"),
                         HasSubstr("incompatible")));
  EXPECT_EQ(count(svg, "<rect class=\"frame\""), 12U) << "two attentions in six columns";
  EXPECT_EQ(count(svg, " ▲</text>"), 1U) << "the planted one";
  EXPECT_EQ(count(svg, " ▼</text>"), 0U);
}

TEST(DomainReport, PicturesSayWhatThePageWarnsOf) {
  DomainPage page = made_page();
  page.differences = {{"graphs", "train.epochs", {{"2", "standard"}, {"3", "winner"}}}};
  for (const std::string& svg : {domain_figure(page), domain_ranks_figure(page)}) {
    EXPECT_THAT(svg, AllOf(HasSubstr(">WARNING: it proves nothing</text>"),
                           HasSubstr("NOT A FAIR COMPARISON")));
    EXPECT_EQ(count(svg, "<svg"), 1U);
    EXPECT_EQ(count(svg, "<g "), count(svg, "</g>"));
  }
  page.differences.clear();
  page.notes = {"a note"};
  EXPECT_THAT(domain_figure(page), Not(HasSubstr("class=\"warning\"")));
}

TEST(DomainReport, WarningsOfPicturesAreBrokenIntoLines) {
  DomainPage page = made_page();
  page.notes = {
      "WARNING: one seed of models that have hardly begun to learn proves nothing, and "
      "neither do those of which nobody has looked at the data before"};
  page.columns.resize(2);
  for (DomainRow& row : page.rows) row.cells.resize(2);
  const std::string svg = domain_figure(page);
  EXPECT_EQ(count(svg, "class=\"warning\""), 2U);
  EXPECT_THAT(svg, HasSubstr("before</text>"));
}

/// One seed of "winner" fails in graphs.
DomainPage page_with_failure() {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner"}, 3, 1);
  for (RunRecord& run : runs.all.runs) {
    if (run.attention != "winner" || run.experiment != "graphs" || run.seed != 2) continue;
    run.status.state = RunState::failed;
    run.status.reason = "disk <full>";
  }
  return runs.build();
}

TEST(DomainReport, EveryFormSaysThatASeedIsMissing) {
  const DomainPage page = page_with_failure();
  const std::string why = "graphs, winner, seed 2: failed: disk <full>";
  EXPECT_THAT(domain_html(page, kStamp),
              AllOf(HasSubstr("<small>1 of 3 missing</small>"), HasSubstr("What is missing"),
                    HasSubstr("graphs, winner, seed 2: failed: disk &lt;full&gt;")));
  EXPECT_THAT(
      domain_markdown(page, kStamp),
      AllOf(HasSubstr("; 1 of 3 missing"),
            HasSubstr("## What is missing\n\n- graphs, winner, seed 2: failed: disk \\<full>")));
  EXPECT_THAT(domain_latex(page, kStamp), AllOf(HasSubstr("& {\\footnotesize 1 of 3 missing}"),
                                                HasSubstr("% MISSING: " + why)));
  EXPECT_THAT(domain_figure(page),
              AllOf(HasSubstr(">1 of 3 missing</text>"), HasSubstr("; 1 of 3 missing</title>")));
  const json out = json::parse(domain_json(page, kStamp));
  EXPECT_EQ(out.at("missing"), json::array({why}));
  EXPECT_EQ(out.at("rows").at(1).at("cells").at(2).at("missing"), "1 of 3 missing");
}

TEST(DomainReport, HasEachDomainsEffectAsATable) {
  const DomainPage page = made_page();
  const std::string g = plain(effect_cell(page.row("winner"), "graphs"));
  EXPECT_THAT(g, ::testing::MatchesRegex("\\+[0-9.]+ ± [0-9.]+"));
  for (const std::string& text : {domain_html(page, kStamp), domain_markdown(page, kStamp)}) {
    EXPECT_THAT(text, AllOf(HasSubstr("g ± standard error"), HasSubstr(g)));
  }
  EXPECT_EQ(plain(effect_cell(page.row("partial"), "language")), "-");
}

TEST(DomainReport, TheRanksAreAPictureOfTheirOwn) {
  EXPECT_THAT(domain_ranks_figure(made_page()),
              AllOf(StartsWith("<svg xmlns="), HasSubstr("CD = "), HasSubstr("<style>")));
}

TEST(DomainReport, ThePapersTableHasARowAColumn) {
  const std::string tex = domain_latex(made_page(), kStamp);
  EXPECT_EQ(count(tex, "\\\\\n"), 15U)
      << "heading; six columns and the summary with intervals below";
  EXPECT_EQ(count(tex, "\\begin{table}"), 1U);
  EXPECT_THAT(tex, HasSubstr("\\label{tab:attnlab-domains}"));
  EXPECT_THAT(tex, AllOf(HasSubstr("^{\\dagger}"), HasSubstr("{\\footnotesize incompatible}"),
                         HasSubstr("\\textbf{WARNING: it proves nothing.}"),
                         HasSubstr("\\bottomrule"), Not(HasSubstr(kNotFair))));
  EXPECT_EQ(count(tex, "$") % 2, 0U);
}

TEST(DomainReport, ThePapersTableOfFourteenAttentionsIsFourOfAFewColumns) {
  std::vector<std::string> names = {"standard"};
  for (char c = 'a'; c < 'n'; ++c) names.push_back(std::string("attention ") + c);
  ASSERT_EQ(names.size(), 14U);
  DomainRuns runs;
  add_alike(runs, names, 3, 1);
  runs.page().columns[1].role = ColumnRole::robustness;
  runs.page().columns[2].role = ColumnRole::stability;
  const std::string tex = domain_latex(runs.build(), kStamp);
  EXPECT_EQ(count(tex, "\\begin{table}"), 4U);
  EXPECT_EQ(count(tex, "\\caption{"), 4U);
  for (const char* part : {"(1 of 4).", "(4 of 4).", "attnlab-domains-1}", "attnlab-domains-4}"}) {
    EXPECT_EQ(count(tex, part), 1U) << part;
  }
  for (const std::string& name : names) {
    EXPECT_EQ(count(tex, " & " + name + " "), name == "standard" ? 4U : 1U) << name;
  }
  for (const char* role : {"robustness", "stability"}) EXPECT_EQ(count(tex, role), 4U) << role;
  std::istringstream lines(tex);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(count(line, " & "), 5U) << line;
  EXPECT_EQ(count(tex, "$") % 2, 0U);
}

/// Seeds of "winner" diverge in graphs, all of the baseline's in points.
DomainPage page_with_divergences() {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner"}, 3, 1);
  for (RunRecord& run : runs.all.runs) {
    const bool own = run.attention == "winner" && run.experiment == "graphs" && run.seed > 0;
    const bool theirs = run.attention == "standard" && run.experiment == "points";
    if (own || theirs) run.status.state = RunState::diverged;
  }
  return runs.build();
}

TEST(DomainReport, ThePapersTableCountsDivergencesBesideTheNumbersOfTheOthers) {
  const std::string tex = domain_latex(page_with_divergences(), kStamp);
  EXPECT_THAT(
      tex, AllOf(HasSubstr("& {\\footnotesize 2 of 3 diverged}"),
                 HasSubstr("{\\footnotesize 3 of 3 diverged}"), HasSubstr("{\\footnotesize mean $"),
                 HasSubstr("{\\footnotesize standard: 3 of 3 diverged}")));
  EXPECT_THAT(tex, Not(HasSubstr("$mean")));
  EXPECT_EQ(count(tex, "$") % 2, 0U);
}

TEST(DomainReport, ThePapersTableSaysInItsCaptionThatItIsNotFair) {
  DomainPage page = made_page();
  page.differences = {{"graphs", "train.epochs", {{"2", "standard"}, {"3", "winner"}}}};
  const std::string tex = domain_latex(page, kStamp);
  const std::string caption =
      tex.substr(tex.find("\\caption"), tex.find("\\label") - tex.find("\\caption"));
  EXPECT_THAT(caption, HasSubstr(kNotFair));
}

TEST(DomainReport, TheFigureCountsDivergencesAmongTheSeedsThatRan) {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner"}, 9, 1);
  std::erase_if(runs.all.runs,
                [](const RunRecord& run) { return run.attention == "winner" && run.seed > 2; });
  for (RunRecord& run : runs.all.runs) {
    const bool one = run.attention == "winner" && run.experiment == "graphs";
    if (one) run.status.state = RunState::diverged;
  }
  EXPECT_THAT(domain_figure(runs.build()), HasSubstr(">3 of 3 diverged</text>"));
}

TEST(DomainReport, TheFigureNamesTheBaselinesDivergence) {
  const std::string svg = domain_figure(page_with_divergences());
  EXPECT_THAT(svg,
              AllOf(HasSubstr(">baseline diverged</text>"), HasSubstr(">2 of 3 diverged</text>"),
                    HasSubstr("; standard: 3 of 3 diverged</title>")));
}

TEST(DomainReport, AColumnWithoutAnyValueHasNoArrow) {
  DomainRuns runs;
  add_alike(runs, {"standard", "winner"}, 3, 1);
  runs.page().columns.push_back({"far", "far away", "headline", "far"});
  const DomainPage page = runs.build();
  EXPECT_EQ(count(domain_figure(page), " ↑</text>"), 6U) << "and none of the seventh";
}

TEST(DomainReport, TheRecordsHaveTheNumbers) {
  const json out = json::parse(domain_json(made_page(), kStamp));
  EXPECT_EQ(out.at("schema"), 1);
  EXPECT_EQ(out.at("columns").size(), 6U);
  ASSERT_EQ(out.at("rows").size(), 3U);
  const json& winner = out.at("rows").at(2);
  EXPECT_EQ(winner.at("attention"), "winner");
  EXPECT_EQ(winner.at("cells").at(2).at("verdict"), "better");
  EXPECT_NEAR(winner.at("cells").at(2).at("difference").get<double>(), 0.2, 0.03);
  EXPECT_GT(winner.at("effects").at("graphs").at("g").get<double>(), 1);
  EXPECT_EQ(winner.at("summary").at("domains"), 6);
  const json& partial = out.at("rows").at(1);
  EXPECT_EQ(partial.at("cells").at(1).at("absent"), "incompatible: it is not <causal>");
  EXPECT_FALSE(partial.at("cells").at(1).contains("difference")) << "an absence, not a zero";
  EXPECT_EQ(out.at("ranking").at("domains").size(), 6U);
  EXPECT_EQ(out.at("claims").at(0).at("outcome"), "holds");
}

TEST(DomainReport, TheRecordsHaveNoDeviationOfOneSeed) {
  const auto sd = [](std::int64_t seeds) {
    DomainRuns runs;
    add_alike(runs, {"standard", "winner"}, seeds, 1);
    return json::parse(domain_json(runs.build(), kStamp))
        .at("rows")
        .at(0)
        .at("cells")
        .at(0)
        .at("sd");
  };
  EXPECT_TRUE(sd(1).is_null());
  EXPECT_GT(sd(2), 0);
}

TEST(DomainReport, MarkdownHasTheTables) {
  EXPECT_THAT(
      domain_markdown(made_page(), kStamp),
      AllOf(HasSubstr("**WARNING: it proves nothing**"), HasSubstr("| standard (baseline)"),
            HasSubstr("mean rank, 1 is best"), HasSubstr("| winner"), HasSubstr("incompatible")));
}

TEST(DomainReport, MarkdownKeepsForeignNamesInItsBlocksOfCode) {
  DomainPage page = made_page();
  page.ranking->attentions.at(0) = "```";
  EXPECT_THAT(domain_markdown(page, kStamp), HasSubstr("\n````\nFriedman's test"));
}

// ---- the card

Manifest made_attention() {
  Manifest manifest;
  manifest.id = "lab/winner";
  manifest.name = "winner";
  manifest.version = "1.2.0";
  manifest.licence = "Apache-2.0";
  manifest.summary = "softmax(Q Kᵀ) V with an oracle";
  manifest.citation = "A paper, 2025; Another, 2026";
  manifest.traits = {{"causal", true}, {"window", false}};
  return manifest;
}

TEST(ModelCard, SaysWhatAnAttentionIsAndWhatCameOfIt) {
  const Manifest manifest = made_attention();
  Card card;
  card.manifest = &manifest;
  card.label = "winner";
  card.runs = "runs/made";
  card.page = made_page();
  card.conformance = R"({"counts": {"passed": 1, "failed": 1, "not applicable": 0, "skipped": 0},
    "checks": [{"check": "shapes", "outcome": "passed", "message": ""},
               {"check": "causal", "outcome": "failed", "message": "a query saw the future"}]})";
  const std::string text = card_markdown(card);
  EXPECT_THAT(text, AllOf(StartsWith("# winner\n\nsoftmax(Q Kᵀ) V"), HasSubstr("lab/winner"),
                          HasSubstr("- A paper, 2025\n- Another, 2026\n"),
                          HasSubstr("honours: causal\n- lacks: window"),
                          HasSubstr("1 of 2 checks passed"), HasSubstr("FAILED causal:")));
  EXPECT_THAT(text, mentions("## Results (runs/made)", "better", "Over domains", ": +",
                             "**holds** here", "WARNING: it proves nothing"));
}

TEST(ModelCard, SaysWhichSeedsAreMissingAndWhatWasStored) {
  const Manifest manifest = made_attention();
  Card card;
  card.manifest = &manifest;
  card.label = "winner";
  card.page = made_page();
  card.page->notes.emplace_back("stored results, not made here: winner (images: 3 runs)");
  for (DomainRow& row : card.page->rows) {
    if (row.attention == "winner") row.cells.front().row.seeds.front() = {};
  }
  EXPECT_THAT(card_markdown(card),
              AllOf(HasSubstr("| 1 of 5 missing |"), HasSubstr("\n## Notes on the runs\n\n"),
                    HasSubstr("\n- stored results, not made here: winner (images: 3 runs)\n")));
}

TEST(ModelCard, ForeignTextBeginsNoLine) {
  Manifest manifest = made_attention();
  manifest.summary = "sums\x1b[2J\n# forged";
  Card card;
  card.manifest = &manifest;
  card.runs = "runs\n# forged";
  card.command = "attnlab card 'a\n# forged'";
  card.conformance = R"({"counts": {"passed": 0, "failed": 1, "not applicable": 0, "skipped": 0},
    "checks": [{"check": "causal", "outcome": "failed", "message": "no\u001b[2J\n# forged"}]})";
  const std::string text = card_markdown(card);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\n# forged")), Not(HasSubstr("\x1b")),
                          mentions("FAILED causal:", "no\\x1b[2J # forged\n",
                                   "\nsums\\x1b[2J # forged\n")));
}

TEST(ModelCard, SaysWhatItWasNotGiven) {
  const Manifest manifest = made_attention();
  Card card;
  card.manifest = &manifest;
  EXPECT_THAT(card_markdown(card),
              AllOf(HasSubstr("Not tested here"), HasSubstr("No runs were given")));
  card.conformance = "killed";
  EXPECT_THAT(message_of<DataError>([&] { card_markdown(card); }),
              HasSubstr("attnlab plugin test"));
  card.page = made_page();
  card.label = "winer";
  card.conformance.clear();
  EXPECT_THAT(message_of<ConfigError>([&] { card_markdown(card); }),
              mentions("'winer'", "'winner'"));
}

}  // namespace
}  // namespace attnlab::domain_report_test
