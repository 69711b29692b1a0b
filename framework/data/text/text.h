// Plain text as corpora come in: files, pieces of them, and where in them something is wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// What a token stands for.
enum class TextUnit { word, character, byte, byte_pair };

/// "word", "character", "byte" or "byte_pair".
TextUnit text_unit(std::string_view name);

/// A part of a file, or of a text made in memory.
struct TextPiece {
  std::string path;                   ///< for messages
  std::string_view text;              ///< the part
  std::string_view whole;             ///< what it is a part of: lines count from its beginning
  std::shared_ptr<const void> owner;  ///< keeps `whole` where it is

  /// "path:line" of a byte of `text`.
  std::string place(std::size_t at) const;
};

/// One text: pieces that follow each other. A piece ends a line.
using Text = std::vector<TextPiece>;

std::uint64_t size_of(const Text& text);

/// A file without its byte-order mark; plain ones are mapped, gzipped ones unpacked in memory.
/// @throws DataError for an empty file, FileError.
TextPiece open_text(const std::string& path);

/// A text made in memory, without a byte-order mark. @param path  what messages call it
TextPiece text_of(const std::string& path, std::string text);

/// A text cut into parts of these shares, in order: of its bytes; of its characters; or, for words
/// and byte pairs, of its bytes, at the end of the line in which each share ends.
/// @param shares  above 0, together at most 1; what they leave is in no part
/// @throws DataError where a part is empty, or for text that is not UTF-8 (characters)
std::vector<Text> cut_text(const Text& text, TextUnit unit, const std::vector<double>& shares);

/// 64 bits that change whenever a byte of the text does.
std::uint64_t text_fingerprint(const Text& text, std::uint64_t seed);

/// Refuses what is not UTF-8. @throws DataError with file, line and remedy.
[[noreturn]] void refuse_encoding(const TextPiece& piece, std::size_t at);

}  // namespace attnlab
