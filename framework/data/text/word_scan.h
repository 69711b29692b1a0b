// Words of a text, in one pass.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "framework/base/unicode.h"
#include "framework/data/text/text.h"

namespace attnlab {

/// What a byte means to a scan for words.
enum class ByteKind : std::uint8_t { word, space, line_end, mark, wide };

constexpr std::array<ByteKind, 256> byte_kinds(bool split_marks) {
  std::array<ByteKind, 256> kinds{};
  for (const unsigned char c : {'\t', '\v', '\f', '\r', ' ', '\x1c', '\x1d', '\x1e', '\x1f'}) {
    kinds[c] = ByteKind::space;
  }
  kinds['\n'] = ByteKind::line_end;
  for (std::size_t c = 0x80; c < 256; ++c) kinds[c] = ByteKind::wide;
  if (!split_marks) return kinds;
  for (const char c : std::string_view(".,;:!?\"()[]")) {
    kinds[static_cast<unsigned char>(c)] = ByteKind::mark;
  }
  return kinds;
}

/// White space beyond ASCII: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F,
/// U+205F, U+3000. @param c  the bytes of one character
inline bool is_wide_space(std::string_view c) {
  if (c.size() == 2) return c == "\xC2\x85" || c == "\xC2\xA0";
  if (c.size() != 3) return false;
  if (c.substr(0, 2) == "\xE2\x80") {
    const auto last = static_cast<unsigned char>(c[2]);
    return last <= 0x8A || last == 0xA8 || last == 0xA9 || last == 0xAF;
  }
  return c == "\xE1\x9A\x80" || c == "\xE2\x81\x9F" || c == "\xE3\x80\x80";
}

/// 64 bits of a word, for tables in memory; another on machines of the other byte order.
class WordHash {
 public:
  void add(char c) { state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x9E3779B97F4A7C15ULL; }
  std::uint64_t take() {
    const std::uint64_t hash = state_ ^ (state_ >> 29);
    state_ = kStart;
    return hash;
  }
  static std::uint64_t of(std::string_view word) {
    WordHash hash;
    for (const char c : word) hash.add(c);
    return hash.take();
  }

 private:
  static constexpr std::uint64_t kStart = 0xCBF29CE484222325ULL;
  std::uint64_t state_ = kStart;
};

/// Calls on_word(word, hash) and on_line_end() in the order of the text.
/// @throws DataError for what is not UTF-8
template <class OnWord, class OnLineEnd>
void scan_words(const TextPiece& piece, bool split_marks, const OnWord& on_word,
                const OnLineEnd& on_line_end) {
  static constexpr auto kPlain = byte_kinds(false), kMarks = byte_kinds(true);
  const auto& kinds = split_marks ? kMarks : kPlain;
  const std::string_view text = piece.text;
  std::size_t begin = 0, at = 0;
  WordHash hash;
  const auto end_word = [&] {
    if (at > begin) on_word(text.substr(begin, at - begin), hash.take());
  };
  while (at < text.size()) {
    const ByteKind kind = kinds[static_cast<unsigned char>(text[at])];
    if (kind == ByteKind::word) {
      hash.add(text[at++]);
      continue;
    }
    std::size_t size = 1;
    if (kind == ByteKind::wide) {
      size = character_size(text.substr(at, 4));
      if (size == 0) refuse_encoding(piece, at);
      if (!is_wide_space(text.substr(at, size))) {
        for (const std::size_t end = at + size; at < end; ++at) hash.add(text[at]);
        continue;
      }
    }
    end_word();
    begin = at;
    at += size;
    if (kind == ByteKind::mark) {
      hash.add(text[begin]);
      end_word();
    }
    if (kind == ByteKind::line_end) on_line_end();
    begin = at;
  }
  end_word();
}

}  // namespace attnlab
