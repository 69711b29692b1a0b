#include "framework/data/formats/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

/// All numbers of a text; charconv reads neither "+1" nor " 1".
template <class Number>
std::vector<Number> numbers_in(std::string_view text, const std::string& place) {
  constexpr std::string_view kBetween = ", \t";
  std::vector<Number> numbers;
  for (std::size_t at = text.find_first_not_of(kBetween); at != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const auto number = parsed_number<Number>(word);
    if (!number || !std::isfinite(double(*number))) {
      throw DataError(
          fmt::format("{}: {} is not a {}number; repair the line, or fetch the file again", place,
                      excerpt(word), std::is_integral_v<Number> ? "whole " : ""));
    }
    numbers.push_back(*number);
    at = text.find_first_not_of(kBetween, end);
  }
  return numbers;
}

}  // namespace

std::string TextLines::place(std::size_t index) const {
  return fmt::format("{}:{}", path, lines.at(index).number);
}

std::vector<double> TextLines::numbers(std::size_t index) const {
  return numbers_in<double>(lines.at(index).text, place(index));
}

std::vector<std::int64_t> TextLines::integers(std::size_t index) const {
  return numbers_in<std::int64_t>(lines.at(index).text, place(index));
}

TextLines read_lines(const std::string& path) {
  TextLines file{path, std::make_shared<const std::string>(read_data_file(path)), {}};
  const std::string_view all = without_mark(*file.text, path);
  std::size_t number = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view text = trimmed(all.substr(at, end - at));
    ++number;
    if (!text.empty()) file.lines.push_back({number, text});
    at = end + 1;
  }
  return file;
}

}  // namespace attnlab
