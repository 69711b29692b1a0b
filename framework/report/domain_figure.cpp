// Pictures of a page over domains that stand by themselves: style and all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "framework/base/foreign_text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/quantities.h"
#include "framework/document/markup.h"
#include "framework/report/diagrams.h"
#include "framework/report/domain_report.h"

namespace attnlab {
namespace {

constexpr double kLabels = 150, kCellWidth = 92, kCellHeight = 34, kTop = 84, kBottom = 50,
                 kNarrowest = 560;
/// Standardised differences beyond it have the full colour.
constexpr double kFullColour = 3;
/// In columns of text; small letters are 10 px.
constexpr std::size_t kLongestTitle = 13, kLongestSmall = 16, kLongestRow = 20;
/// Of a warning: the height of a line, and the width of a letter, by which lines are broken.
constexpr double kWarningHeight = 16, kLetterWidth = 7;

constexpr const char* kStyle =
    "<style>text{font:12px sans-serif;fill:#222}.small{font-size:10px;fill:#555}"
    ".group{font-weight:bold}.tick{font-size:11px;fill:#555}.axis{stroke:#222;stroke-width:1.2}"
    ".thin{stroke:#888;stroke-width:1;fill:none}.bar{stroke:#222;stroke-width:4}"
    ".frame{stroke:#fff;stroke-width:2}.warning{font-weight:bold;fill:#b35c00}"
    ".long{font-size:10px}</style>\n";

std::string shortened(const std::string& text, std::size_t longest) {
  std::string whole = valid_utf8(text);
  if (display_width(whole) <= longest) return whole;
  return std::string(display_prefix(whole, longest - 1)) + "…";
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& style = "") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     style, x, y, anchor, html_text(text));
}

/// Over a column, in smaller letters where it is long; cut where these do not help.
std::string title_at(double x, double y, const std::string& title) {
  const bool fits = display_width(valid_utf8(title)) <= kLongestTitle;
  return text_at(x, y, "middle", shortened(title, kLongestSmall), fits ? "" : "long");
}

/// White at 0, blue above, orange below: told apart without red and green.
std::string colour_of(const std::optional<Effect>& effect) {
  if (!effect) return "#eeeeee";
  const double share = std::clamp(effect->value / kFullColour, -1.0, 1.0);
  const int full[3] = {share > 0 ? 70 : 230, share > 0 ? 130 : 140, share > 0 ? 200 : 50};
  int mixed[3];
  for (int i = 0; i < 3; ++i) {
    mixed[i] = static_cast<int>(std::lround(255 + std::abs(share) * (full[i] - 255)));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

/// What fits below a number or in its place.
std::string short_verdict(const DomainCell& cell, const std::string& verdict) {
  return cell.diverged == 0 && cell.baseline_diverged > 0 && !cell.row.gap ? "baseline diverged"
         : cell.diverged > 0 ? fmt::format("{} of {} diverged", cell.diverged, cell.own_seeds())
                             : verdict;
}

std::string mark_of(const std::string& verdict) {
  return verdict == "better" ? " ▲" : verdict == "worse" ? " ▼" : "";
}

std::string cell_svg(const DomainPage& page, const DomainRow& row, std::size_t column, double x,
                     double y) {
  const DomainCell& cell = row.cells[column];
  const std::string verdict = cell_verdict(page, row, column);
  const std::string missing = missing_text(page, row, column);
  const bool number = cell.row.contrast && cell.row.contrast->difference.count > 0;
  std::string out = fmt::format(
      "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" "
      "fill=\"{}\"><title>{}: {}; {}{}</title></rect>\n",
      x, y, kCellWidth, kCellHeight, colour_of(cell.effect), html_text(page.columns[column].name()),
      html_text(cell_text(page, row, column)), html_text(verdict),
      missing.empty() ? "" : "; " + missing);
  const double centre = x + kCellWidth / 2;
  if (number) {
    const std::string difference = plain(
        difference_of(cell.row.metric, cell.row.contrast->difference.mean, cell.row.summary.mean));
    out += text_at(centre, y + 21, "middle", difference + mark_of(verdict));
  } else {
    out += text_at(centre, y + 21, "middle", short_verdict(cell, verdict), "small");
  }
  if (number && (!cell.whole() || !missing.empty())) {
    out += text_at(centre, y + 31, "middle", cell.whole() ? missing : short_verdict(cell, verdict),
                   "small");
  }
  return out;
}

std::string headings(const DomainPage& page) {
  std::string out, domain;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const double x = kLabels + kCellWidth * static_cast<double>(i);
    if (page.columns[i].domain != domain) {
      domain = page.columns[i].domain;
      out += text_at(x + 2, kTop - 44, "start", shortened(domain, kLongestTitle), "group");
    }
    const std::string unit = difference_unit(page.metrics[i]);
    const std::string title = page.columns[i].title == domain ? "" : page.columns[i].title;
    const std::string arrow = arrow_of(page.metrics[i]);
    out += title_at(x + kCellWidth / 2, kTop - 26, title) +
           text_at(x + kCellWidth / 2, kTop - 12, "middle",
                   shortened(unit.empty() ? page.metrics[i].name : unit,
                             kLongestSmall - display_width(arrow)) +
                       arrow,
                   "small");
  }
  return out;
}

/// Words in lines of at most `longest` columns; a longer word has a line of its own.
std::vector<std::string> broken(const std::string& text, std::size_t longest) {
  std::vector<std::string> lines;
  std::istringstream words(one_line(text));
  for (std::string word; words >> word;) {
    const bool fits =
        !lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= longest;
    if (fits) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

/// The page's warnings: nobody may take a picture without them.
std::vector<std::string> warning_lines(const DomainPage& page, double width) {
  std::vector<std::string> lines;
  for (const std::string& warning : page_warnings(page)) {
    const auto some = broken(warning, static_cast<std::size_t>((width - 20) / kLetterWidth));
    lines.insert(lines.end(), some.begin(), some.end());
  }
  return lines;
}

std::string warnings_svg(const std::vector<std::string>& lines, double top) {
  std::string out;
  for (const std::string& line : lines) {
    out += text_at(10, top += kWarningHeight, "start", line, "warning");
  }
  return out;
}

/// A picture with the page's warnings above it.
std::string with_warnings(const DomainPage& page, const std::string& svg) {
  const std::string view = "viewBox=\"0 0 ";
  const std::size_t at = svg.find(view) + view.size(), open = svg.find('>') + 1;
  const std::size_t second = svg.find(' ', at) + 1, close = svg.rfind("</svg>");
  const double width = std::stod(svg.substr(at)), height = std::stod(svg.substr(second));
  const std::vector<std::string> lines = warning_lines(page, width);
  if (lines.empty()) return svg;
  const double shift = kWarningHeight * static_cast<double>(lines.size()) + 6;
  return svg.substr(0, second) + fmt::format("{:.0f}", height + shift) +
         svg.substr(svg.find('"', second), open - svg.find('"', second)) + warnings_svg(lines, 0) +
         fmt::format("<g transform=\"translate(0 {:.0f})\">", shift) +
         svg.substr(open, close - open) + "</g>" + svg.substr(close);
}

/// The figure of a page as one of its own: a name space, a background and the style.
std::string standing_alone(const std::string& svg) {
  const std::size_t open = svg.find("<svg"), close = svg.find('>', open);
  return svg.substr(0, open) + "<svg xmlns=\"http://www.w3.org/2000/svg\"" +
         svg.substr(open + 4, close - open - 3) + "\n" + kStyle +
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + svg.substr(close + 1);
}

}  // namespace

std::string domain_figure(const DomainPage& page) {
  const double width =
      std::max(kNarrowest, kLabels + kCellWidth * static_cast<double>(page.columns.size()) + 10);
  const double height = kTop + kCellHeight * static_cast<double>(page.rows.size() - 1) + kBottom;
  std::string body = text_at(10, 22, "start", page.title, "group") + headings(page);
  for (std::size_t r = 1; r < page.rows.size(); ++r) {
    const double y = kTop + kCellHeight * static_cast<double>(r - 1);
    body += text_at(kLabels - 8, y + 21, "end", shortened(page.rows[r].attention, kLongestRow));
    for (std::size_t i = 0; i < page.columns.size(); ++i) {
      body += cell_svg(page, page.rows[r], i, kLabels + kCellWidth * static_cast<double>(i), y);
    }
  }
  body += text_at(10, height - 26, "start",
                  fmt::format("Differences to {} in each column's unit; ▲ ▼: significant.",
                              page.baseline),
                  "small") +
          text_at(10, height - 12, "start",
                  "Blue: better, orange: worse; the shade is the difference divided by its spread "
                  "over seeds.",
                  "small");
  return standing_alone(with_warnings(
      page,
      fmt::format("<svg role=\"img\" viewBox=\"0 0 {:.0f} {:.0f}\" aria-label=\"{}\">\n{}</svg>\n",
                  width, height, html_text(page.title), body)));
}

std::string domain_ranks_figure(const DomainPage& page) {
  return page.ranking ? standing_alone(with_warnings(page, rank_svg(*page.ranking))) : "";
}

}  // namespace attnlab
