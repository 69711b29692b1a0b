#include "framework/document/html.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/document/markup.h"

namespace attnlab {
namespace {

/// Escaped, with what stands in backticks as code.
std::string with_code(const std::string& text) {
  const std::string safe = html_text(text);
  std::string out;
  bool open = false;
  for (std::size_t at = 0; at < safe.size(); ++at) {
    const bool tick = safe[at] == '`' && (open || safe.find('`', at + 1) != std::string::npos);
    if (!tick) {
      out += safe[at];
      continue;
    }
    out += open ? "</code>" : "<code>";
    open = !open;
  }
  return out;
}

std::string heading_of(const Column& column, bool sortable) {
  const std::string name = html_text(column.heading);
  return fmt::format(
      "<th scope=\"col\"{}{}>{}{}</th>", column.number ? " class=\"number\"" : "",
      column.help.empty() ? "" : fmt::format(" title=\"{}\"", html_text(column.help)),
      sortable ? fmt::format("<button type=\"button\">{}</button>", name) : name,
      column.aside.empty() ? "" : fmt::format(" <small>{}</small>", html_text(column.aside)));
}

std::string classes_of(const Column& column, const TableCell& cell) {
  std::string out = column.number ? " number" : "";
  for (const auto& [mark, name] : {std::pair(kBest, " best"), std::pair(kBetter, " better"),
                                   std::pair(kWorse, " worse"), std::pair(kAbsent, " absent")}) {
    if ((cell.marks & mark) != 0) out += name;
  }
  return out.empty() ? "" : fmt::format(" class=\"{}\"", out.substr(1));
}

/// "205,066"; other numbers as they are.
std::string number_of(const Quantity& quantity) {
  std::string out = plain(quantity);
  const bool whole = quantity.decimals == 0 && !quantity.spread && !quantity.interval;
  if (!whole || !std::isfinite(quantity.value)) return out;
  for (std::size_t at = out.size(); at > 3 && out[at - 4] >= '0' && out[at - 4] <= '9';) {
    out.insert(at -= 3, ",");
  }
  return out;
}

std::string words_of(const TableCell& cell) {
  std::string out = html_text(cell.text);
  if ((cell.marks & kCode) != 0) out = "<code>" + out + "</code>";
  if (cell.number) out += (out.empty() ? "" : " ") + html_text(number_of(*cell.number));
  if (out.empty() && (cell.marks & kAbsent) != 0) out = "–";
  if (!cell.why.empty()) {
    out = fmt::format("<span title=\"{}\">{}</span>", html_text(cell.why), out);
  }
  const char* mark = (cell.marks & kBetter) != 0 ? "▲ " : (cell.marks & kWorse) != 0 ? "▼ " : "";
  if (cell.aside.empty()) {
    out = mark + out;
  } else {
    out += fmt::format(" <small>{}{}</small>", mark, html_text(cell.aside));
  }
  return cell.note.empty() ? out : out + fmt::format(" <small>{}</small>", html_text(cell.note));
}

std::string order_of(const TableCell& cell) {
  if (cell.order) return std::isfinite(*cell.order) ? shortest(*cell.order) : "";
  if (cell.number) return std::isfinite(cell.number->value) ? shortest(cell.number->value) : "";
  return (cell.marks & kAbsent) != 0 ? "" : cell.text;
}

}  // namespace

void HtmlDocument::title(const std::string& text) { out_ += "<h1>" + html_text(text) + "</h1>\n"; }

void HtmlDocument::heading(const std::string& text) {
  out_ += fmt::format("<h{0}>{1}</h{0}>\n", level_, html_text(text));
}

void HtmlDocument::paragraph(const std::string& text, bool /*joined*/) { paragraph_of("", text); }

void HtmlDocument::paragraph_of(const std::string& style, const std::string& text) {
  out_ += fmt::format("<p{}>{}</p>\n", style.empty() ? "" : " class=\"" + style + "\"",
                      with_code(text));
}

void HtmlDocument::warning(const std::string& text) { paragraph_of("warning", text); }

void HtmlDocument::list(const std::vector<std::string>& lines, bool /*joined*/) {
  if (lines.empty()) return;
  out_ += "<ul>\n";
  for (const std::string& line : lines) out_ += "<li>" + with_code(line) + "</li>\n";
  out_ += "</ul>\n";
}

void HtmlDocument::begin_table(const Table& head) {
  head_ = {head.caption, head.columns, {}, head.id};
  const std::string caption = html_text(head.caption);
  out_ += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table{1}>\n"
      "<caption>{0}</caption>\n<thead><tr>",
      caption, head.id.empty() ? "" : fmt::format(" class=\"sortable\" id=\"{}\"", head.id));
  for (const Column& column : head.columns) out_ += heading_of(column, !head.id.empty());
  out_ += "</tr></thead>\n<tbody>\n";
}

void HtmlDocument::row(const std::vector<TableCell>& cells) {
  out_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out_ += "<td" + classes_of(head_.columns[i], cells[i]);
    if (!head_.id.empty()) out_ += fmt::format(" data-order=\"{}\"", html_text(order_of(cells[i])));
    out_ += ">" + words_of(cells[i]) + "</td>";
  }
  out_ += "</tr>\n";
}

void HtmlDocument::end_table() { out_ += "</tbody>\n</table>\n</div>\n"; }

void HtmlDocument::figure(const Figure& figure) {
  out_ += "<figure class=\"scroll\" tabindex=\"0\">" + figure.svg;
  if (!figure.caption.empty()) out_ += "<figcaption>" + with_code(figure.caption) + "</figcaption>";
  out_ += "</figure>\n";
}

void HtmlDocument::stamp(const std::string& date, const std::string& command) {
  out_ += fmt::format("<p><small>attnlab {}, {}: <code>{}</code></small></p>\n", ATTNLAB_VERSION,
                      html_text(date), html_text(command));
}

void HtmlDocument::begin_fold(const std::string& summary) {
  out_ += "<details><summary>" + html_text(summary) + "</summary>\n";
}

void HtmlDocument::code(const std::string& text) {
  out_ += "<pre tabindex=\"0\">" + html_text(text) + "</pre>\n";
}

}  // namespace attnlab
