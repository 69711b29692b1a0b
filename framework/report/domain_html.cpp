// The page over domains: no scripts, no other file, nothing from the network.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/report/domain_report.h"
#include "framework/report/markup.h"

namespace attnlab {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

constexpr const char* kPageStyle = R"(:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
caption{text-align:left;padding:.3rem 0}
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #8884;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{vertical-align:bottom}
.better{color:#1f5fa8;font-weight:bold}.worse{color:#b35c00;font-weight:bold}.gone{color:#888}
.warning{border:2px solid #b35c00;padding:.6rem 1rem;font-weight:bold}
small{color:#777}figure{margin:0}svg{max-width:100%;height:auto}
)";

std::string text_paragraph(const std::string& text, const std::string& style = "") {
  return fmt::format("<p class=\"{}\">{}</p>\n", style, html_text(text));
}

std::string list(const std::vector<std::string>& items) {
  std::string out = "<ul>\n";
  for (const std::string& item : items) out += fmt::format("<li>{}</li>\n", html_text(item));
  return out + "</ul>\n";
}

using Rows = std::vector<std::vector<std::string>>;

/// @param rows  the heading first; cells are HTML already
std::string table(const std::string& caption, const Rows& rows) {
  std::string out = fmt::format("<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
                                html_text(caption));
  for (const std::string& cell : rows.front()) out += "<th scope=\"col\">" + cell + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 1; i < rows.size(); ++i) {
    out += "<tr>";
    for (const std::string& cell : rows[i]) out += "<td>" + cell + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string cell_html(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  const std::string verdict = cell_verdict(page, row, column);
  const std::string style = verdict == "better" || verdict == "worse" ? verdict
                            : cell.row.gap                            ? "gone"
                                                                      : "";
  std::string text = html_text(cell_text(page, row, column));
  if (cell.row.gap && !cell.row.gap.reason.empty()) {
    text = fmt::format("<span title=\"{}\">{}</span>", html_text(cell.row.gap.reason), text);
  }
  if (!verdict.empty() && verdict != cell_text(page, row, column)) {
    text += "<br><small>" + html_text(verdict) + "</small>";
  }
  if (const std::string missing = missing_text(page, row, column); !missing.empty()) {
    text += "<br><small>" + html_text(missing) + "</small>";
  }
  return style.empty() ? text : fmt::format("<span class=\"{}\">{}</span>", style, text);
}

std::string role_note(const PageColumn& column) {
  return column.role == ColumnRole::quality
             ? ""
             : fmt::format("<br><small>{}</small>", name_of(column.role));
}

std::string results_html(const DomainPage& page) {
  Rows rows(1);
  rows[0].push_back("attention");
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    rows[0].push_back(html_text(column_label(page, i)) + role_note(page.columns[i]));
  }
  for (const DomainRow& row : page.rows) {
    const bool baseline = row.attention == page.baseline;
    rows.push_back({html_text(row.attention) + (baseline ? "<br><small>baseline</small>" : "")});
    for (std::size_t i = 0; i < page.columns.size(); ++i) {
      rows.back().push_back(cell_html(page, row, i));
    }
  }
  return table("Difference to " + page.baseline + " with interval and verdict; of " +
                   page.baseline + " itself mean ± sample standard deviation",
               rows);
}

std::string tau_text(const DomainRow& row) {
  if (!row.summary) return "-";
  return fmt::format("{:.2f}{}", row.summary->tau_squared,
                     row.rough ? " (three pairs: rough)" : "");
}

std::string over_domains_html(const DomainPage& page) {
  Rows rows = {{"attention", "summary over domains", "domains", "scatter beyond the seeds' (τ²)",
                "worst column, by standardised difference", "left out", "time", "memory",
                "parameters", "FLOPs"}};
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    std::string worst = "-";
    if (row.worst)
      worst = page.columns[*row.worst].name() + ": " + cell_line(page, row, *row.worst);
    rows.push_back({html_text(row.attention), summary_cell_text(row),
                    std::to_string(row.effects.size()), tau_text(row), html_text(worst),
                    html_text(join(row.without_effect, "; ")), ratio_text(row.costs.time),
                    ratio_text(row.costs.memory), ratio_text(row.costs.parameters),
                    ratio_text(row.costs.flops)});
  }
  return table(
      "Standardised differences over domains (above 0 is better), and what it costs beside " +
          page.baseline + " (1.05 is 5 % more)",
      rows);
}

/// Each domain's effect, whose mean the summary is.
std::string effects_html(const DomainPage& page) {
  const std::vector<std::string> domains = quality_domains(page);
  Rows rows = {{"attention"}};
  for (const std::string& domain : domains) rows[0].push_back(html_text(domain));
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    rows.push_back({html_text(row.attention)});
    for (const std::string& domain : domains) rows.back().push_back(effect_text(row, domain));
  }
  return table("Each domain's standardised difference (Hedges' g ± standard error)", rows);
}

std::string ranks_html(const DomainPage& page) {
  std::string out;
  if (page.ranking) {
    out += fmt::format(
        "<figure>{}<figcaption>Mean ranks over {} domains ({}); 1 is best. A bar "
        "joins attentions that are not told apart. Friedman's test: {}.{}"
        "</figcaption></figure>\n",
        domain_ranks_figure(page), page.ranking->experiments.size(),
        html_text(join(page.ranking->experiments, ", ")),
        html_text(p_phrase(page.ranking->test.p_value())),
        page.ranking->test.p_value() > page.options.level
            ? " It shows no difference: read nothing into this order."
            : "");
  } else {
    out += text_paragraph("There is no diagram: " + page.no_ranking + ".");
  }
  return page.left_out.empty()
             ? out
             : out + text_paragraph("Left out of the ranks:") + list(page.left_out);
}

std::string claims_html(const DomainPage& page) {
  if (page.claims.empty()) return text_paragraph("The suite names no claims.");
  Rows rows = {{"attention", "claim", "source", "column", "here", "outcome"}};
  for (const ClaimCheck& one : page.claims) {
    rows.push_back({html_text(one.claim.attention),
                    fmt::format("{}{}", one.claim.better ? "better" : "worse",
                                one.claim.text.empty() ? "" : ": " + html_text(one.claim.text)),
                    html_text(one.claim.source),
                    html_text(one.claim.experiment + ", " + one.claim.metric), html_text(one.found),
                    std::string(name_of(one.outcome))});
  }
  return table("What publications say beside the baseline, mostly of larger models and other data",
               rows);
}

std::string absences_html(const DomainPage& page) {
  const std::vector<std::string> lines = page_absences(page);
  return lines.empty() ? "" : "<h2>What is missing</h2>\n" + list(lines);
}

std::string warnings_html(const DomainPage& page) {
  std::string out;
  for (const std::string& note : page.notes) {
    if (note.rfind("WARNING", 0) == 0) out += text_paragraph(note, "warning");
  }
  if (page.differences.empty()) return out;
  std::vector<std::string> lines;
  lines.reserve(page.differences.size());
  for (const ConfigDifference& one : page.differences) lines.push_back(one.text());
  return out +
         text_paragraph("NOT A FAIR COMPARISON: more than the attention differs.", "warning") +
         list(lines);
}

std::string notes_html(const DomainPage& page) {
  std::vector<std::string> rest;
  for (const std::string& note : page.notes) {
    if (note.rfind("WARNING", 0) != 0) rest.push_back(note);
  }
  return rest.empty() ? "" : "<h2>Notes</h2>\n" + list(rest);
}

}  // namespace

std::string domain_html(const DomainPage& page, const PageStamp& stamp) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>\n{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      kPolicy, html_text(page.title), kPageStyle, html_text(page.title));
  out += warnings_html(page);
  out += "<figure>" + domain_figure(page) + "</figure>\n";
  out += "<h2>Attention by domain</h2>\n" + results_html(page);
  out +=
      "<h2>Over domains, and what it costs</h2>\n" + over_domains_html(page) + effects_html(page);
  out += "<h2>Ranks over domains</h2>\n" + ranks_html(page);
  out += "<h2>Published claims</h2>\n" + claims_html(page);
  out += absences_html(page);
  out += "<h2>How to read it</h2>\n" + list(page_assumptions(page));
  out += notes_html(page);
  return out +
         fmt::format("<p><small>attnlab {}, {}: <code>{}</code></small></p>\n</body>\n</html>\n",
                     ATTNLAB_VERSION, html_text(stamp.date), html_text(stamp.command));
}

}  // namespace attnlab
