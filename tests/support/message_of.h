// What an error says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab::testing {

/// What the error says that `act` throws. An error of another type, or none, fails the test.
template <class Error, class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// What one line of a message must hold, whatever its wording: place, key, remedy.
using Words = std::vector<std::string>;

MATCHER_P(SaysLines, lines, "") {
  std::string_view rest = arg;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    for (const std::string& word : lines[i]) {
      if (line.find(word) != std::string_view::npos) continue;
      *result_listener << "line " << i + 1 << " lacks " << word;
      return false;
    }
    if ((end == std::string_view::npos) == (i + 1 < lines.size())) {
      *result_listener << "it has another number of lines than " << lines.size();
      return false;
    }
    if (end != std::string_view::npos) rest.remove_prefix(end + 1);
  }
  return true;
}

/// As many lines as there are lists of words, each with the words of its list.
inline auto says_lines(const std::vector<Words>& lines) { return SaysLines(lines); }
/// One line with these words.
inline auto says(const Words& words) { return SaysLines(std::vector<Words>{words}); }

MATCHER_P(HasLine, words, "") {
  for (std::string_view rest = arg; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const auto held = [&](const std::string& word) {
      return line.find(word) != std::string_view::npos;
    };
    if (std::all_of(words.begin(), words.end(), held)) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

/// A text in which one line holds all of these words.
inline auto has_line(const Words& words) { return HasLine(words); }

/// A text of any number of lines that holds each of these words: place, key, remedy.
template <class... Word>
auto mentions(const Word&... words) {
  return ::testing::AllOf(::testing::HasSubstr(std::string(words))...);
}

}  // namespace attnlab::testing
