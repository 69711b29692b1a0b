// Tables as text: values between separators, one row per line, column names in the first row.
//
// A value may stand in double quotes, and then hold separators, line ends, and quotes written twice
// (RFC 4180). Lines may end in CRLF; empty lines do not count, nor does a byte-order mark.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

struct CsvTable {
  struct Row {
    std::size_t line = 0;  ///< where it begins, from 1
    std::vector<std::string> values;
  };

  std::string path;
  std::vector<std::string> columns;
  std::vector<Row> rows;  ///< each with as many values as there are columns

  /// The place of a column. @throws DataError naming those that there are.
  std::size_t column(std::string_view name) const;
  /// "path:line", for messages.
  std::string place(std::size_t row) const;
};

/// @param path  for messages
/// @throws DataError with path and line: no rows, a quote that does not end, a row of another
/// length; for UTF-16.
CsvTable parse_csv(std::string_view text, const std::string& path, char separator = ',');

}  // namespace attnlab
