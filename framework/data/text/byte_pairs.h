// Byte-pair encoding by published merges, as GPT-2 has it.
//
//   A text is cut at special tokens, which it may spell (`<|endoftext|>`), and what is between them
//   into words, each the first of these that fits:
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   A word's bytes are tokens at first. Of neighbours that a merge joins, those of the earliest
//   merge become one token, the leftmost first, until no merge joins any.
//
// \p{L}, \p{N} and \s are those of letter_table.h. Files (published ones spell bytes by printable
// characters, a blank by Ġ):
//   vocab.json       {"token": number, ...}, numbers from 0 on
//   merges.txt       one merge per line, "left right", the earliest first; `#version` before them
//   tokenizer.json   of Hugging Face's tokenizers: model BPE behind the pre-tokeniser ByteLevel
// Source: Radford et al. 2019 and openai/gpt-2, 9b63575e, src/encoder.py; Sennrich et al., ACL
// 2016. Cost: a word that came before costs a look into a table, others O(n log n) of their bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/data/text/text.h"

namespace attnlab {

class BytePairs {
 public:
  using Take = std::function<void(const std::int32_t* tokens, std::size_t count)>;

  /// @param files  as `byte_pair_files` (vocabulary.h) gives them
  /// @throws DataError, with file and line, for what is no such file, and for merges and tokens
  ///         that do not belong together
  static BytePairs read(const std::vector<std::string>& files);

  /// The bytes of each token.
  const std::vector<std::string>& entries() const { return entries_; }

  /// Hands over the tokens of a text, some thousand at a time. Thread-safe.
  /// @throws DataError for a text that is not UTF-8
  void encode(const TextPiece& piece, const Take& take) const;

 private:
  friend class BytePairFiles;
  struct Merge {
    std::int32_t rank, token;
  };
  /// Words whose tokens are known.
  class Words;

  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }
  /// The merge of two neighbours; null: none.
  const Merge* merge_of(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(pair_of(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }
  /// Appends a word's tokens.
  void merge_word(std::string_view word, std::vector<std::int32_t>& tokens) const;

  std::vector<std::string> entries_;
  std::array<std::int32_t, 256> of_bytes_{};  ///< the token of each byte
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<std::int32_t> specials_;
};

}  // namespace attnlab
