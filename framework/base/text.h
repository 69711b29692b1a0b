// Small text helpers: suggestions, joining, numbers for people.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// The candidate nearest to `word` by edit distance (insert, delete, replace, swap), or empty when
/// none is near enough to be a plausible slip.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?", or a list of what there is when nothing is near and the list is short,
/// or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

/// Without white space (blanks, tabs, line ends, form feeds) at both ends: a part of `text`, its
/// end where nothing else is in it.
std::string_view trimmed(std::string_view text);

/// The text as one word of a POSIX shell: in single quotes where it needs them.
std::string shell_word(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// The shortest decimal text that reads back as the same double ("0.1", "1e-12", "inf").
std::string shortest(double value);

/// The number that the whole text is, without a plus sign or white space ("nan" is one too);
/// nothing where it is none, or does not fit.
template <class Number>
std::optional<Number> parsed_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// "1 h 02 min", "3 min 05 s", "12 s", "0.4 s".
std::string duration(double seconds);

/// A text as JSON string content, with the quotes.
std::string json_quote(std::string_view text);

}  // namespace attnlab
