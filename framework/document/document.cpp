#include "framework/document/document.h"

#include <fmt/format.h>

namespace attnlab {

std::string decimal(double value, int decimals, bool sign) {
  return sign ? fmt::format("{:+.{}f}", value, decimals) : fmt::format("{:.{}f}", value, decimals);
}

std::string interval_text(const Interval& interval, int decimals) {
  return fmt::format("[{:.{}f}, {:.{}f}]", interval.low, decimals, interval.high, decimals);
}

std::string fewer_text(std::int64_t count, std::int64_t of) {
  return count >= of ? "" : fmt::format(" ({} of {})", count, of);
}

std::string plain(const Quantity& quantity) {
  std::string out = decimal(quantity.value, quantity.decimals, quantity.sign);
  if (quantity.spread) out += " ± " + decimal(*quantity.spread, quantity.decimals);
  if (quantity.interval) out += " " + interval_text(*quantity.interval, quantity.decimals);
  return out + fewer_text(quantity.count, quantity.of);
}

std::string plain(const TableCell& cell) {
  std::string out = cell.text;
  if (cell.number) out += (out.empty() ? "" : " ") + plain(*cell.number);
  if (out.empty() && (cell.marks & kAbsent) != 0) out = "-";
  if (!cell.aside.empty()) out += " " + cell.aside;
  return cell.note.empty() ? out : out + "; " + cell.note;
}

void Document::section(const std::string& title, const std::vector<std::string>& lines) {
  if (!lines.empty()) heading(title);
  list(lines);
}

void Document::table(const Table& table) {
  begin_table(table);
  for (const std::vector<TableCell>& cells : table.rows) {
    if (!cells.empty()) row(cells);
  }
  end_table();
}

}  // namespace attnlab
