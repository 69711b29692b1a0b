// Documents for a terminal and as Markdown.
#pragma once

#include "framework/document/document.h"

namespace attnlab {

enum class TableStyle { text, markdown };

/// Columns that line up in a terminal, whichever the style. Rows are as long as the heading.
std::string table_text(const Table& table, TableStyle style = TableStyle::markdown);

/// Foreign text on a line, in a list or in a cell of Markdown: no bar ends the cell, "<b" begins no
/// tag, "](" no link.
std::string markdown_line(const std::string& text);

/// Foreign text as a block of code of Markdown, whose fence is longer than any in it.
std::string fenced(const std::string& text);

class TextDocument : public Document {
 public:
  explicit TextDocument(TableStyle style) : markdown_(style == TableStyle::markdown) {}
  void title(const std::string& text) override;
  void heading(const std::string& text) override;
  void paragraph(const std::string& text, bool joined = false) override;
  void warning(const std::string& text) override;
  void list(const std::vector<std::string>& lines, bool joined = false) override;
  void begin_table(const Table& head) override;
  void row(const std::vector<TableCell>& cells) override;
  void end_table() override;
  void figure(const Figure& figure) override;
  void code(const std::string& text) override;
  void stamp(const std::string& date, const std::string& command) override;
  std::string take() { return std::move(out_); }

 private:
  /// @param block  ends with a line break
  void add(const std::string& block, bool joined = false);
  std::string shown(const std::string& line) const;

  bool markdown_;
  std::vector<std::vector<std::string>> rows_;  ///< of the table that is being written
  std::string out_;
};

}  // namespace attnlab
