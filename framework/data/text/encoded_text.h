// Texts as tokens: encoded once, kept in memory or in a file that is mapped.
//
// The file, little-endian, of this machine's cache and nothing to exchange:
//
//   tokens of all texts end to end, 2 bytes each where there are at most 65536 entries, else 4
//   entries of the vocabulary, each as u32 length and bytes
//   u64 texts' lengths [3] | u64 bytes of a token | u64 entries | u64 bytes of the entries
//   u64 key | u64 checksum of all before it | "attntok1"
//
// It is written beside its name and renamed, so several processes may make it at once: the last
// one's stays, and all are the same. A file that is cut off, changed or of another key is made
// again. Cost: opening reads the file once (checksum), at some GB/s.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/text/vocabulary.h"

namespace attnlab {

/// Tokens that lie one after the other.
class TokenSpan {
 public:
  TokenSpan() = default;
  /// @param width  bytes of a token, 2 or 4
  TokenSpan(const void* data, std::int64_t count, std::int64_t width,
            std::shared_ptr<const void> owner)
      : data_(data), count_(count), width_(width), owner_(std::move(owner)) {}

  std::int64_t size() const { return count_; }
  std::int64_t operator[](std::int64_t i) const {
    return width_ == 2 ? static_cast<const std::uint16_t*>(data_)[i]
                       : static_cast<const std::int32_t*>(data_)[i];
  }

 private:
  const void* data_ = nullptr;
  std::int64_t count_ = 0, width_ = 2;
  std::shared_ptr<const void> owner_;
};

/// The splits of a corpus, in their order (train, validation, test); empty: there is none.
using TextSplits = std::array<Text, 3>;

struct EncodedText {
  std::vector<std::string> entries;  ///< of the vocabulary
  std::array<TokenSpan, 3> splits;
};

/// Encodes in memory.
EncodedText encode_text(const Vocabulary& vocabulary, const TextSplits& texts);

/// The same by way of a file: what it holds if it is sound, else it is made.
/// @param path        its folder is made where there is none
/// @param key         of all that the tokens depend on
/// @param vocabulary  is asked for where the file has to be made
EncodedText encode_text(const std::string& path, std::uint64_t key, const TextSplits& texts,
                        const std::function<Vocabulary()>& vocabulary);

}  // namespace attnlab
