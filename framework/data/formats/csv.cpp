#include "framework/data/formats/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"

namespace attnlab {
namespace {

/// Reads rows one after the other.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& path, char separator)
      : text_(text), path_(path), separator_(separator) {}

  /// @returns whether there was another row that is not empty.
  bool next(CsvTable::Row& row) {
    while (at_ < text_.size()) {
      row = {line_, {}};
      do {
        row.values.push_back(value());
      } while (at_ < text_.size() && text_[at_++] == separator_);
      ++line_;
      if (row.values.size() > 1 || !row.values.front().empty()) return true;
    }
    return false;
  }

 private:
  /// One value; stops at the separator or the line's end behind it.
  std::string value() {
    std::string out;
    if (at_ < text_.size() && text_[at_] == '"') out = quoted();
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n') {
      out += text_[at_++];
    }
    if (!out.empty() && out.back() == '\r') out.pop_back();
    return out;
  }

  std::string quoted() {
    const std::size_t began = line_;
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') {
          ++at_;
          return out;
        }
        ++at_;
      }
      line_ += text_[at_] == '\n' ? 1 : 0;
      out += text_[at_];
    }
    throw DataError(
        fmt::format("{}:{}: a quote that begins in this row does not end; the file is "
                    "damaged or cut off",
                    path_, began));
  }

  std::string_view text_;
  const std::string& path_;
  char separator_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (std::count(found, columns.end(), name) > 1) {
    throw DataError(
        fmt::format("{}: several columns are called '{}'; rename all but one", path, name));
  }
  if (found != columns.end()) return static_cast<std::size_t>(found - columns.begin());
  throw DataError(fmt::format("{}: has no column '{}'{}", path, name, suggestion(name, columns)));
}

std::string CsvTable::place(std::size_t row) const {
  return fmt::format("{}:{}", path, rows.at(row).line);
}

CsvTable parse_csv(std::string_view text, const std::string& path, char separator) {
  CsvReader reader(without_mark(text, path), path, separator);
  CsvTable table{path, {}, {}};
  CsvTable::Row row;
  if (reader.next(row)) table.columns = std::move(row.values);
  while (reader.next(row)) {
    if (row.values.size() != table.columns.size()) {
      throw DataError(fmt::format("{}:{}: has {} values where the first row names {} columns", path,
                                  row.line, row.values.size(), table.columns.size()));
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) throw DataError(fmt::format("{}: holds no rows", path));
  return table;
}

}  // namespace attnlab
