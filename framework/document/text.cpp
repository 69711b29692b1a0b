#include "framework/document/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "framework/base/foreign_text.h"
#include "framework/base/unicode.h"

namespace attnlab {
namespace {

/// Names of plugins, metrics and groups may hold anything.
std::string fit(std::string cell, bool markdown) {
  const bool fits = printable(cell) == cell && cell.find('\n') == std::string::npos;
  if (!fits || cell.size() > kLongestLine) cell = one_line(cell);  // an indent may stay
  return markdown ? markdown_line(cell) : cell;
}

}  // namespace

std::string fenced(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += "`";
  return fmt::format("{}\n{}{}{}\n", fence, text, text.empty() || text.back() != '\n' ? "\n" : "",
                     fence);
}

std::string markdown_line(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    const bool tag = text[i] == '<' && (std::isalpha(static_cast<unsigned char>(next)) != 0 ||
                                        next == '/' || next == '!' || next == '?');
    const bool link = text[i] == ']' && (next == '(' || next == '[' || next == ':');
    // Before other characters it stands for itself: "\x1b".
    const bool escape = text[i] == '\\' && std::ispunct(static_cast<unsigned char>(next)) != 0;
    if (tag || link || escape || text[i] == '|') out += '\\';
    out += text[i];
  }
  return out;
}

std::string table_text(const Table& table, TableStyle style) {
  TextDocument out(style);
  out.table(table);
  return out.take();
}

void TextDocument::add(const std::string& block, bool joined) {
  if (!out_.empty() && !joined) out_ += "\n";
  out_ += block;
}

std::string TextDocument::shown(const std::string& line) const {
  const std::string clean = one_line(line, kLongestMessageLine);
  return markdown_ ? markdown_line(clean) : clean;
}

void TextDocument::title(const std::string& text) {
  add((markdown_ ? "# " : "") + shown(text) + "\n");
}

void TextDocument::heading(const std::string& text) {
  add((markdown_ ? "## " : "") + shown(text) + "\n");
}

void TextDocument::paragraph(const std::string& text, bool joined) {
  const std::string clean = one_line(text, 4 * text.size());
  add((markdown_ ? markdown_line(clean) : clean) + "\n", joined);
}

void TextDocument::warning(const std::string& text) {
  add(markdown_ ? fmt::format("**{}**\n", shown(text)) : shown(text) + "\n");
}

void TextDocument::list(const std::vector<std::string>& lines, bool joined) {
  std::string out;
  for (const std::string& line : lines) out += "- " + shown(line) + "\n";
  if (!out.empty()) add(out, joined);
}

void TextDocument::begin_table(const Table& head) {
  if (!head.caption.empty()) paragraph(head.caption + ":");
  rows_.assign(1, {});
  for (const Column& column : head.columns) rows_[0].push_back(fit(column.heading, markdown_));
}

void TextDocument::row(const std::vector<TableCell>& cells) {
  std::vector<std::string>& row = rows_.emplace_back();
  row.reserve(cells.size());
  for (const TableCell& cell : cells) row.push_back(fit(plain(cell), markdown_));
}

void TextDocument::end_table() {
  std::vector<std::size_t> widths(rows_.front().size(), 3);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  add("");
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      line += (markdown_ ? "| " : "") + rows_[r][i] +
              std::string(widths[i] - display_width(rows_[r][i]) + (markdown_ ? 1 : 2), ' ');
    }
    if (!markdown_) line.erase(line.find_last_not_of(' ') + 1);
    out_ += line + (markdown_ ? "|\n" : "\n");
    if (r > 0) continue;
    for (const std::size_t width : widths) {
      out_ += markdown_ ? "|" + std::string(width + 2, '-') : std::string(width, '-') + "  ";
    }
    if (!markdown_) out_.erase(out_.size() - 2);
    out_ += markdown_ ? "|\n" : "\n";
  }
  rows_.clear();
}

void TextDocument::figure(const Figure& figure) {
  if (!figure.text.empty())
    add(markdown_ ? fenced(printable(figure.text)) : printable(figure.text));
  if (!figure.caption.empty()) paragraph(figure.caption, /*joined=*/!figure.text.empty());
}

void TextDocument::code(const std::string& text) {
  add(markdown_ ? fenced(printable(text)) : printable(text) + "\n", /*joined=*/true);
}

void TextDocument::stamp(const std::string& date, const std::string& command) {
  add(fmt::format("attnlab {}, {}: `{}`\n", ATTNLAB_VERSION, date,
                  one_line(command, command.size())));
}

}  // namespace attnlab
