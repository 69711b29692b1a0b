// Numbers in files of any byte order, with messages that name the file.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"

namespace attnlab {

/// A scalar type of a file, by what it is and how many bytes it takes.
struct ScalarType {
  char kind = 'f';  ///< f floating point, i signed, u unsigned
  std::size_t bytes = 4;
};

/// @param from  `type.bytes` bytes
inline double scalar_at(const char* from, ScalarType type, bool big_endian) {
  unsigned char raw[8] = {};
  for (std::size_t i = 0; i < type.bytes; ++i) {
    raw[i] = static_cast<unsigned char>(from[big_endian ? type.bytes - 1 - i : i]);
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < type.bytes; ++i) bits |= std::uint64_t{raw[i]} << (8 * i);
  if (type.kind == 'f') {
    return type.bytes == 8 ? std::bit_cast<double>(bits)
                           : std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  }
  if (type.kind == 'u') return static_cast<double>(bits);
  const int shift = 64 - 8 * static_cast<int>(type.bytes);
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

/// A text read line by line.
class WordReader {
 public:
  /// The byte-order mark of UTF-8 is passed over. @throws DataError for that of another encoding.
  WordReader(std::string_view text, std::string path)
      : text_(without_mark(text, path)), path_(std::move(path)) {}

  /// All behind the line that `line` gave last.
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  bool at_end() const { return at_ >= text_.size(); }
  /// Up to the next line end, which is passed; without "\r".
  std::string_view line() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
    return found;
  }
  /// The line that `line` gave last, from 1.
  std::size_t line_number() const { return line_; }
  /// @param what  quotes the text by `excerpt`
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(path_ + ":" + std::to_string(line_) + ": " + what);
  }

 private:
  std::string_view text_;
  std::string path_;
  std::size_t at_ = 0, line_ = 0;
};

/// Takes the first word off a line; empty where there is none. @param also  divides, beside blanks
inline std::string_view take_word(std::string_view& line, std::string_view also = "") {
  const auto divides = [&](char c) {
    return c == ' ' || c == '\t' || c == '\r' || also.find(c) != std::string_view::npos;
  };
  std::size_t begin = 0;
  while (begin < line.size() && divides(line[begin])) ++begin;
  std::size_t end = begin;
  while (end < line.size() && !divides(line[end])) ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

/// With small letters for capitals, of ASCII alone.
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

/// Whether the whole word is a number ("nan" is one).
inline bool read_number(std::string_view word, double& number) {
  if (!word.empty() && word.front() == '+') word.remove_prefix(1);
  const auto read = parsed_number<double>(word);
  if (read) number = *read;
  return read.has_value();
}

/// Whether the whole word is a whole number from 0 to `most`.
inline bool read_whole(std::string_view word, double most, std::int64_t& number) {
  double value = -1;
  if (!read_number(word, value) || !(value >= 0 && value <= most) || value != std::floor(value)) {
    return false;
  }
  number = static_cast<std::int64_t>(value);
  return true;
}

}  // namespace attnlab
