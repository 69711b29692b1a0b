// Words and their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// Words by hash in one flat table; their bytes lie one after the other.
class WordTable {
 public:
  WordTable() : slots_(1 << 12) {}

  /// The word's number; -1: it is not there.
  std::int32_t find(std::string_view word, std::uint64_t hash) const {
    return slots_[place_of(word, hash)].word;
  }
  /// The word's number, in order of first appearance.
  std::int32_t find_or_add(std::string_view word, std::uint64_t hash) {
    Slot& slot = slots_[place_of(word, hash)];
    if (slot.word >= 0) return slot.word;
    const auto number = static_cast<std::int32_t>(begins_.size() - 1);
    slot = {static_cast<std::uint32_t>(hash >> 32), number};
    bytes_ += word;
    begins_.push_back(bytes_.size());
    hashes_.push_back(hash);
    if (2 * begins_.size() > slots_.size()) grow();
    return number;
  }
  std::string_view word(std::int32_t number) const {
    const auto i = static_cast<std::size_t>(number);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  std::size_t size() const { return hashes_.size(); }

 private:
  struct Slot {
    std::uint32_t check = 0;  ///< high bits of the hash
    std::int32_t word = -1;
  };

  /// Where a word is, or would be.
  std::size_t place_of(std::string_view word, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    const auto check = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t place = hash & mask;; place = (place + 1) & mask) {
      const Slot& slot = slots_[place];
      if (slot.word < 0 || (slot.check == check && this->word(slot.word) == word)) return place;
    }
  }
  void grow() {
    slots_.assign(4 * slots_.size(), {});
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      std::size_t place = hashes_[i] & mask;
      while (slots_[place].word >= 0) place = (place + 1) & mask;
      slots_[place] = {static_cast<std::uint32_t>(hashes_[i] >> 32), static_cast<std::int32_t>(i)};
    }
  }

  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<std::size_t> begins_ = {0};
  std::vector<std::uint64_t> hashes_;
};

}  // namespace attnlab
