// What people read, said once for all forms: content is written to a Document, and a renderer makes
// a terminal's text or Markdown (text.h), HTML (html.h) or LaTeX (latex.h) of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attnlab {

struct Interval {
  double low = 0, high = 0;
};

/// A number in its unit, as it is printed, with what stands beside it in as many decimals.
struct Quantity {
  double value = 0;
  int decimals = 2;
  bool sign = false;                      ///< always written: "+0.52"
  std::optional<double> spread = {};      ///< "± 0.20"
  std::optional<Interval> interval = {};  ///< "[85.21, 85.77]"
  std::int64_t count = 0, of = 0;         ///< "(2 of 3)" where it is of fewer values than could be
};

/// "85.49", with a sign on demand "+0.52".
std::string decimal(double value, int decimals, bool sign = false);
/// "[85.21, 85.77]".
std::string interval_text(const Interval& interval, int decimals);
/// " (2 of 3)" behind a value that fewer have than could; else empty.
std::string fewer_text(std::int64_t count, std::int64_t of);
/// "85.49 ± 0.20 (2 of 3)", "+0.52 [0.21, 0.83]".
std::string plain(const Quantity& quantity);

/// What a cell's look says beside its words; several may be joined.
constexpr unsigned kBest = 1, kSecond = 2, kBetter = 4, kWorse = 8, kAbsent = 16, kCode = 32;

/// A cell of a table: words and a number behind them, both may be missing.
struct TableCell {
  std::string text;
  std::optional<Quantity> number;
  std::string aside;            ///< in smaller letters behind or below it: a verdict
  std::string note;             ///< the same below that: what is missing
  std::string why;              ///< of an absence; a title in HTML, a footnote in LaTeX
  std::optional<double> order;  ///< by which a table is sorted, where not by number or words
  unsigned marks = 0;

  TableCell() : marks(kAbsent) {}
  TableCell(std::string words, unsigned marks = 0) : text(std::move(words)), marks(marks) {}
  TableCell(const char* words) : text(words) {}
  TableCell(Quantity quantity, unsigned marks = 0) : number(quantity), marks(marks) {}
};
/// "+0.86 [0.21, 1.51] better; 1 of 3 missing"; "-" of a cell without anything.
std::string plain(const TableCell& cell);

struct Column {
  std::string heading;
  bool number = false;  ///< aligned on the right
  std::string help;     ///< a title in HTML
  std::string aside;    ///< in smaller letters below the heading in HTML

  Column(std::string heading, bool number = false, std::string help = "")
      : heading(std::move(heading)), number(number), help(std::move(help)) {}
  Column(const char* heading) : heading(heading) {}
};

struct Table {
  std::string caption = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<TableCell>> rows = {};  ///< an empty one is a line across in LaTeX
  std::string id = {};                            ///< in HTML: its headings sort it
};

/// A drawing: `svg` where pictures can be shown, `text` where not, and what is said below it.
struct Figure {
  std::string svg = {}, text = {}, caption = {};
};

/// Foreign text in it is made fit for the form.
class Document {
 public:
  virtual ~Document() = default;
  virtual void title(const std::string& text) = 0;
  virtual void heading(const std::string& text) = 0;
  /// @param joined  follows what stands before it without an empty line, where there are any
  virtual void paragraph(const std::string& text, bool joined = false) = 0;
  virtual void warning(const std::string& text) = 0;
  /// Nothing without lines.
  virtual void list(const std::vector<std::string>& lines, bool joined = false) = 0;
  /// A heading and a list below it; nothing without lines.
  void section(const std::string& title, const std::vector<std::string>& lines);
  /// A long table is written row by row, so that its cells need not be kept.
  /// @param head  all but rows
  virtual void begin_table(const Table& head) = 0;
  virtual void row(const std::vector<TableCell>& cells) = 0;
  virtual void end_table() = 0;
  void table(const Table& table);
  virtual void figure(const Figure& figure) = 0;
  /// Lines as they are, right behind what stands before.
  virtual void code(const std::string& text) = 0;
  /// Who made it: the last line.
  virtual void stamp(const std::string& date, const std::string& command) = 0;
};

}  // namespace attnlab
