// One table in each form: what is a number, a mark, an absence, and a reason.
#include "framework/document/html.h"
#include "framework/document/latex.h"
#include "framework/document/text.h"

#include "tests/support/compositions.h"

namespace attnlab::forms_test {
namespace {

using namespace testing;

Table made_table() {
  TableCell best(Quantity{.value = 58.126, .spread = 0.2}, kBest | kBetter);
  TableCell share(Quantity{.value = 25, .interval = Interval{4.56, 69.94}, .count = 2, .of = 3});
  TableCell gone;
  gone.why = "diverged: 50% <off>";
  TableCell verdict(Quantity{.value = 0.5, .decimals = 3, .sign = true}, kWorse);
  verdict.aside = "worse";
  verdict.note = "1 of 3 missing";
  return {"mean ± deviation",
          {"who", {"value", true, "help & more"}, {"other", true}},
          {{"a_b", best, share}, {}, {"c|d", gone, verdict}},
          "made"};
}

TEST(Forms, MarkdownHasWordsAlone) {
  EXPECT_EQ(table_text(made_table()),
            "mean ± deviation:\n\n"
            "| who  | value        | other                        |\n"
            "|------|--------------|------------------------------|\n"
            "| a_b  | 58.13 ± 0.20 | 25.00 [4.56, 69.94] (2 of 3) |\n"
            "| c\\|d | -            | +0.500 worse; 1 of 3 missing |\n");
}

TEST(Forms, HtmlHasClassesOrdersAndTitles) {
  HtmlDocument out;
  out.table(made_table());
  EXPECT_THAT(
      out.take(),
      AllOf(HasSubstr("<table class=\"sortable\" id=\"made\">"),
            HasSubstr("<th scope=\"col\" class=\"number\" title=\"help &amp; more\">"),
            HasSubstr("<td class=\"number best better\" data-order=\"58.126\">▲ 58.13 ± 0.20</td>"),
            HasSubstr("data-order=\"\"><span title=\"diverged: 50% &lt;off&gt;\">–</span></td>"),
            HasSubstr("+0.500 <small>▼ worse</small> <small>1 of 3 missing</small></td>")));
}

TEST(Forms, HtmlGroupsTheDigitsOfWholeNumbers) {
  HtmlDocument out;
  out.table({"",
             {"n"},
             {{Quantity{.value = 1205066, .decimals = 0}},
              {Quantity{.value = -205066, .decimals = 0}},
              {Quantity{.value = 999, .decimals = 0}}}});
  EXPECT_THAT(out.take(),
              AllOf(HasSubstr(">1,205,066<"), HasSubstr(">-205,066<"), HasSubstr(">999<")));
}

TEST(Forms, HtmlTakesBackticksForCode) {
  HtmlDocument out;
  out.paragraph("see `a <b>` and `");
  out.list({});
  EXPECT_EQ(out.take(), "<p>see <code>a &lt;b&gt;</code> and `</p>\n");
}

TEST(Forms, LatexHasMathDaggersAndFootnotes) {
  EXPECT_EQ(latex_table(made_table(), {"made", {"a warning"}}),
            "\\begin{table}[t]\n  \\centering\n"
            "  \\caption{mean $\\pm$ deviation \\textbf{a warning.}}\n  \\label{tab:made}\n"
            "  \\begin{tabular}{lcc}\n    \\toprule\n    who & value & other \\\\\n"
            "    \\midrule\n"
            "    a\\_b & $\\mathbf{58.13}^{\\dagger} \\pm 0.20$ & "
            "$25.00$ {\\footnotesize $[4.56, 69.94]$} (2 of 3) \\\\\n    \\midrule\n"
            "    c\\textbar{}d & --\\textsuperscript{a} & $+0.500^{\\ddagger}$ "
            "{\\footnotesize worse} {\\footnotesize 1 of 3 missing} \\\\\n"
            "    \\bottomrule\n  \\end{tabular}\n\n  \\smallskip\n"
            "  \\begin{minipage}{\\linewidth}\\footnotesize\\raggedright\n"
            "  \\textsuperscript{a}~diverged: 50\\% \\textless{}off\\textgreater{}.\\\\\n"
            "  \\end{minipage}\n\\end{table}\n");
}

TEST(Forms, LatexStacksAColumnsPartsOnDemand) {
  EXPECT_THAT(latex_table(made_table(), {"made", {}, /*stacked=*/true}),
              HasSubstr("    a\\_b & $\\mathbf{58.13}^{\\dagger} \\pm 0.20$ & $25.00$ \\\\\n"
                        "     &  & {\\footnotesize $[4.56, 69.94]$} (2 of 3) \\\\\n"));
}

}  // namespace
}  // namespace attnlab::forms_test
