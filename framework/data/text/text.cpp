#include "framework/data/text/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/byte_order_mark.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/mapped_file.h"

namespace attnlab {
namespace {

std::uint64_t characters_of(const TextPiece& piece) {
  for (std::size_t at = 0; at < piece.text.size();) {
    const std::size_t size = character_size(piece.text.substr(at, 4));
    if (size == 0) refuse_encoding(piece, at);
    at += size;
  }
  return static_cast<std::uint64_t>(
      std::count_if(piece.text.begin(), piece.text.end(), begins_character));
}

/// Where the character of this number begins.
std::size_t byte_of_character(std::string_view text, std::uint64_t number) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && number-- == 0) return at;
  }
  return text.size();
}

/// Of a piece, in what shares are counted by.
std::uint64_t length_of(const TextPiece& piece, TextUnit unit) {
  return unit == TextUnit::character ? characters_of(piece) : piece.text.size();
}

/// The byte at which a part ends that holds so much of the piece.
std::size_t end_within(const TextPiece& piece, TextUnit unit, std::uint64_t much) {
  if (unit == TextUnit::character) return byte_of_character(piece.text, much);
  if (unit == TextUnit::byte || much == 0) return much;
  const std::size_t line = piece.text.find('\n', much - 1);
  return line == std::string_view::npos ? piece.text.size() : line + 1;
}

/// All of a file but its byte-order mark. @throws DataError where nothing is left.
TextPiece whole_text(const std::string& path, std::string_view bytes,
                     std::shared_ptr<const void> owner) {
  const std::string_view text = without_mark(bytes);
  if (text.empty()) throw DataError(path + ": is empty; fetch the file again");
  return {path, text, text, std::move(owner)};
}

TextPiece part_of(const TextPiece& piece, std::size_t begin, std::size_t end) {
  TextPiece part = piece;
  part.text = piece.text.substr(begin, end - begin);
  return part;
}

}  // namespace

TextUnit text_unit(std::string_view name) {
  if (name == "word") return TextUnit::word;
  if (name == "character") return TextUnit::character;
  if (name == "byte") return TextUnit::byte;
  if (name == "byte_pair") return TextUnit::byte_pair;
  throw ConfigError(fmt::format("unit: '{}' is not one of word, character, byte, byte_pair", name));
}

std::string TextPiece::place(std::size_t at) const {
  const auto begin = static_cast<std::size_t>(text.data() - whole.data());
  const std::string_view before = whole.substr(0, begin + at);
  return fmt::format("{}:{}", path, 1 + std::count(before.begin(), before.end(), '\n'));
}

std::uint64_t size_of(const Text& text) {
  std::uint64_t size = 0;
  for (const TextPiece& piece : text) size += piece.text.size();
  return size;
}

TextPiece open_text(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  if (file->bytes().substr(0, 2) == "\x1f\x8b") return text_of(path, read_data_file(path));
  const std::string_view start = file->bytes().substr(0, 6);
  const bool bzip2 =
      start.starts_with("BZh") && start.size() > 3 && start[3] >= '1' && start[3] <= '9';
  if (bzip2 || start.starts_with("PK\x03\x04") ||
      start.starts_with("\xfd"
                        "7zXZ") ||
      start.starts_with("\x28\xb5\x2f\xfd")) {
    throw DataError(path + ": is an archive, no text; unpack it and take it out of the folder");
  }
  return whole_text(path, file->bytes(), file);
}

TextPiece text_of(const std::string& path, std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return whole_text(path, *owner, owner);
}

std::vector<Text> cut_text(const Text& text, TextUnit unit, const std::vector<double>& shares) {
  std::vector<std::uint64_t> lengths;
  std::uint64_t all = 0;
  for (const TextPiece& piece : text) all += lengths.emplace_back(length_of(piece, unit));
  std::vector<Text> parts;
  std::size_t piece = 0, begin = 0;  // where the next part begins
  std::uint64_t before = 0;          // in the pieces before that one
  double share = 0;
  for (const double own : shares) {
    share += own;
    // The margin keeps 0.9 + 0.05 of 100 million at 95 million, whatever way sums are rounded.
    const auto end = std::min(all, static_cast<std::uint64_t>(double(all) * (share + 1e-12)));
    Text& part = parts.emplace_back();
    const auto take = [&](std::size_t to) {
      if (to > begin) part.push_back(part_of(text[piece], begin, to));
      begin = std::max(begin, to);
    };
    while (piece < text.size() && before + lengths[piece] <= end) {
      take(text[piece].text.size());
      before += lengths[piece++];
      begin = 0;
    }
    if (piece < text.size() && end > before) take(end_within(text[piece], unit, end - before));
    if (!part.empty()) continue;
    throw DataError(
        fmt::format("{}: a share of {} of it is empty; give larger shares, or more text",
                    text.front().path, shortest(own)));
  }
  return parts;
}

std::uint64_t text_fingerprint(const Text& text, std::uint64_t seed) {
  for (const TextPiece& piece : text) seed = content_fingerprint(piece.text, seed);
  return seed;
}

void refuse_encoding(const TextPiece& piece, std::size_t at) {
  const std::string other = wrong_encoding(piece.whole);
  throw DataError(
      fmt::format("{}: {}, or read it by byte (unit: byte)", piece.place(at),
                  other.empty() ? "is not UTF-8; convert the file (iconv -t UTF-8)" : other));
}

}  // namespace attnlab
