// Documents as HTML.
#pragma once

#include <string_view>

#include "framework/document/document.h"

namespace attnlab {

class HtmlDocument : public Document {
 public:
  /// @param level  of its headings: 2 for <h2>
  explicit HtmlDocument(int level = 2) : level_(level) {}
  void title(const std::string& text) override;
  void heading(const std::string& text) override;
  /// Words in backticks are code.
  void paragraph(const std::string& text, bool joined = false) override;
  void warning(const std::string& text) override;
  void list(const std::vector<std::string>& lines, bool joined = false) override;
  void begin_table(const Table& head) override;
  void row(const std::vector<TableCell>& cells) override;
  void end_table() override;
  void figure(const Figure& figure) override;
  void code(const std::string& text) override;
  void stamp(const std::string& date, const std::string& command) override;

  /// A paragraph with a class; empty: without.
  void paragraph_of(const std::string& style, const std::string& text);
  /// What stands in it is shown on demand.
  void begin_fold(const std::string& summary);
  void end_fold() { out_ += "</details>\n"; }
  void raw(std::string_view html) { out_ += html; }
  std::string take() { return std::move(out_); }

 private:
  int level_;
  Table head_;  ///< of the table that is being written
  std::string out_;
};

}  // namespace attnlab
