// What the page over domains says, in Markdown and in HTML: no scripts, no other file, nothing from
// the network.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/document/html.h"
#include "framework/document/markup.h"
#include "framework/document/text.h"
#include "framework/report/domain_report.h"

namespace attnlab {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

// A shade at the right edge, where more is behind it: the covers move with the content, the shades
// do not. The first column stays, with a line at its right. A figure's background would hide a
// shade, so that small screens have a line of text above it.
constexpr const char* kPageStyle =
    R"(:root{color-scheme:light;--paper:#fff;--ink:#1b1d21;--soft:#5b616b;
--better:#1f5fa8;--worse:#9a4f00;--shade:#0004}
@media (prefers-color-scheme: dark){:root{color-scheme:dark;--paper:#14161a;--ink:#e8eaee;--soft:#a3abb8;
--better:#7fbcf2;--worse:#ff9a63;--shade:#fff5}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink);
max-width:max(1200px,min(94vw,2300px));margin:0 auto;padding:1.5rem;box-sizing:border-box}
p,li{max-width:75rem}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}
.scroll{overflow-x:auto;background:
linear-gradient(to left,var(--paper) 40%,transparent) 100% 0/2rem 100% no-repeat local,
linear-gradient(to left,var(--shade),transparent) 100% 0/.8rem 100% no-repeat scroll var(--paper)}
table{border-collapse:collapse;font-size:13px}
caption{text-align:left;padding:.3rem 0;max-width:calc(100vw - 3.5rem)}
th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid #8884;white-space:nowrap}
.number{text-align:right}thead th{vertical-align:bottom}
tr>:first-child{position:sticky;left:0;background:var(--paper);white-space:normal;min-width:5rem;
box-shadow:inset -1px 0 #8884}
.better{color:var(--better);font-weight:bold}.worse{color:var(--worse);font-weight:bold}
.absent,small,figcaption{color:var(--soft)}td small,th small{display:block}
.warning{border:2px solid var(--worse);padding:.6rem 1rem;font-weight:bold}
figure{margin:0}svg{display:block;width:100%;height:auto}
@media (max-width:1100px){figure::before{content:"Where the figure is wider than the screen, scroll it sideways.";
position:sticky;left:0;color:var(--soft);font-size:13px}}
)";

Table results(const DomainPage& page) {
  Table table{fmt::format("Difference to {0} with interval and verdict; for {0} itself mean ± "
                          "sample standard deviation",
                          page.baseline),
              {"attention"}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    Column& column = table.columns.emplace_back(column_label(page, i), /*number=*/true);
    const ColumnRole role = page.columns[i].role;
    if (role != ColumnRole::quality) column.aside = name_of(role);
  }
  for (const DomainRow& row : page.rows) {
    TableCell name(row.attention);
    if (row.attention == page.baseline) name.aside = "(baseline)";
    std::vector<TableCell>& cells = table.rows.emplace_back(1, name);
    for (std::size_t i = 0; i < page.columns.size(); ++i) {
      cells.push_back(domain_cell(page, row, i));
    }
  }
  return table;
}

/// The scatter beyond the seeds' noise.
TableCell scatter_cell(const DomainRow& row) {
  if (!row.summary) return {};
  TableCell cell(Quantity{.value = row.summary->tau_squared});
  if (row.rough) cell.aside = "(three pairs: rough)";
  return cell;
}

Table over_domains(const DomainPage& page) {
  Table table{fmt::format("Standardised differences over domains (above 0 is better), and cost "
                          "relative to {} (1.05 is 5 % more)",
                          page.baseline),
              {"attention",
               {"summary over domains", true},
               {"domains", true},
               {"τ²", true},
               "worst column, by standardised difference",
               "left out",
               {"time", true},
               {"memory", true},
               {"parameters", true},
               {"FLOPs", true}}};
  table.columns[3].help = "the scatter of the true effects beyond the seeds' noise";
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    TableCell worst;
    if (row.worst) {
      worst = page.columns[*row.worst].name() + ": " + plain(domain_cell(page, row, *row.worst));
    }
    table.rows.push_back({row.attention, summary_cell(row), std::to_string(row.effects.size()),
                          scatter_cell(row), worst, join(row.without_effect, "; "),
                          ratio_cell(row.costs.time), ratio_cell(row.costs.memory),
                          ratio_cell(row.costs.parameters), ratio_cell(row.costs.flops)});
  }
  return table;
}

Table effects(const DomainPage& page) {
  Table table{"Each domain's standardised difference (Hedges' g ± standard error)", {"attention"}};
  const std::vector<std::string> domains = quality_domains(page);
  for (const std::string& domain : domains) table.columns.emplace_back(domain, /*number=*/true);
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    std::vector<TableCell>& cells = table.rows.emplace_back(1, row.attention);
    for (const std::string& domain : domains) cells.push_back(effect_cell(row, domain));
  }
  return table;
}

Table claims(const DomainPage& page) {
  Table table{"Published results relative to the baseline, mostly for larger models and other data",
              {"attention", "claim", "source", "column", "here", "outcome"}};
  for (const ClaimCheck& one : page.claims) {
    table.rows.push_back({one.claim.attention,
                          (one.claim.better ? "better: " : "worse: ") + one.claim.text,
                          one.claim.source, one.claim.experiment + ", " + one.claim.metric,
                          one.found, std::string(name_of(one.outcome))});
  }
  return table;
}

/// @param svg  the diagram; empty where no picture can be shown
void write_ranks(const DomainPage& page, const std::string& svg, Document& out) {
  out.heading("Ranks over domains");
  if (page.ranking) {
    const FriedmanResult& test = page.ranking->test;
    out.figure(
        {svg,
         rank_diagram(page.ranking->attentions, test.mean_ranks, page.ranking->critical_difference),
         fmt::format("Friedman's test over {}: {}.{} A bar joins attentions without a significant "
                     "difference.",
                     join(page.ranking->experiments, ", "), p_phrase(test.p_value()),
                     test.p_value() > page.options.level
                         ? " It shows no difference: do not interpret this order."
                         : "")});
  } else {
    out.paragraph("There is no diagram: " + page.no_ranking + ".");
  }
  if (page.left_out.empty()) return;
  out.paragraph("Left out of the ranks:");
  out.list(page.left_out);
}

/// @param figure  and the diagram of ranks: empty where no pictures can be shown
void write_page(const DomainPage& page, const PageStamp& stamp, const std::string& figure,
                const std::string& ranks, Document& out) {
  out.title(page.title);
  for (const std::string& warning : page_warnings(page)) out.warning(warning);
  out.list(difference_lines(page.differences));
  if (!figure.empty()) out.figure({figure, "", ""});
  out.heading("Attention by domain");
  out.table(results(page));
  out.heading("Over domains, and cost");
  out.table(over_domains(page));
  out.table(effects(page));
  write_ranks(page, ranks, out);
  if (!page.claims.empty()) {
    out.heading("Published claims");
    out.table(claims(page));
  }
  if (!page.tuned.empty()) {
    out.heading("Tries before the seeds");
    write_tuning(page.tuned, out);
  }
  out.section("What is missing", page_absences(page));
  out.section("How to read it", page_assumptions(page));
  out.section("Notes", plain_notes(page));
  out.stamp(stamp.date, stamp.command);
}

/// A figure in a page, from kSmallest to kLargest times the size drawn: smaller, its text could not
/// be read.
std::string sized(std::string svg) {
  const std::string view = "viewBox=\"0 0 ";
  const std::size_t at = svg.find(view);
  if (at == std::string::npos) return svg;
  const double width = std::stod(svg.substr(at + view.size()));
  constexpr double kSmallest = 0.82, kLargest = 1.25;
  return svg.insert(at, fmt::format("style=\"min-width:{:.0f}px;max-width:{:.0f}px\" ",
                                    kSmallest * width, kLargest * width));
}

}  // namespace

std::string domain_markdown(const DomainPage& page, const PageStamp& stamp) {
  TextDocument out(TableStyle::markdown);
  write_page(page, stamp, "", "", out);
  return out.take();
}

std::string domain_html(const DomainPage& page, const PageStamp& stamp) {
  HtmlDocument out;
  out.raw(
      fmt::format("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n"
                  "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
                  kPolicy, html_text(page.title), kPageStyle));
  write_page(page, stamp, sized(domain_figure(page)), sized(domain_ranks_figure(page)), out);
  out.raw("</body>\n</html>\n");
  return out.take();
}

}  // namespace attnlab
