// Text files of numbers: lines of them, between commas or blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// A text file, cut into lines.
struct TextLines {
  struct Line {
    std::size_t number = 0;  ///< from 1
    std::string_view text;   ///< without blanks at its ends
  };

  std::string path;
  std::shared_ptr<const std::string> text;  ///< with its byte-order mark, if it has one
  std::vector<Line> lines;                  ///< those that are not empty

  /// "path:line", for messages.
  std::string place(std::size_t index) const;
  /// The numbers of a line. @throws DataError with file and line for anything else.
  std::vector<double> numbers(std::size_t index) const;
  std::vector<std::int64_t> integers(std::size_t index) const;
};

/// Reads a file, gzipped or not, with a byte-order mark or without. @throws FileError, DataError.
TextLines read_lines(const std::string& path);

}  // namespace attnlab
