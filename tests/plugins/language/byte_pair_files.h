// Files of byte-pair tokenizers for tests.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/unicode.h"
#include "framework/data/text/vocabulary.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

/// Bytes as GPT-2's files spell them: '!' to '~', U+00A1 to U+00AC and U+00AE to U+00FF are
/// themselves, others U+0100, U+0101, ... in order.
inline std::string spelt(std::string_view bytes) {
  static const std::vector<std::string> letters = [] {
    std::vector<std::string> all(256);
    std::uint32_t next = 0;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      all[byte] = utf8_character(itself ? byte : 0x100 + next++);
    }
    return all;
  }();
  std::string out;
  for (const char byte : bytes) out += letters[static_cast<unsigned char>(byte)];
  return out;
}

/// A merge of bytes.
using BytesPair = std::pair<std::string, std::string>;

/// The 256 bytes, then what merges make in their order, then a special token.
class PairFiles {
 public:
  explicit PairFiles(std::vector<BytesPair> merges) : merges_(std::move(merges)) {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    for (const auto& [left, right] : merges_) add(left + right);
    special_ = static_cast<std::int64_t>(numbers_.size());
  }

  std::int64_t number(const std::string& bytes) const { return numbers_.at(bytes); }
  const std::map<std::string, std::int64_t>& numbers() const { return numbers_; }
  std::int64_t special() const { return special_; }

  /// A token a line.
  std::string vocab_json() const { return vocabulary(true).dump(1); }
  std::string merges_txt() const {
    std::string text = "#version: 0.2\n";
    for (const auto& [left, right] : merges_) text += spelt(left) + " " + spelt(right) + "\n";
    return text;
  }
  /// @param lists  merges as ["left", "right"]
  nlohmann::json tokenizer_json(bool lists) const {
    nlohmann::json merges = nlohmann::json::array();
    for (const auto& [left, right] : merges_) {
      if (lists) merges.push_back({spelt(left), spelt(right)});
      if (!lists) merges.push_back(spelt(left) + " " + spelt(right));
    }
    nlohmann::json file;
    file["version"] = "1.0";
    file["added_tokens"][0] = {
        {"id", special_}, {"content", "<|endoftext|>"}, {"lstrip", false}, {"special", true}};
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    file["model"] = {{"type", "BPE"}, {"dropout", nullptr}};
    file["model"]["vocab"] = vocabulary(lists);
    file["model"]["merges"] = merges;
    return file;
  }

  /// vocab.json and merges.txt in a folder. @returns its path.
  std::string write(const TempFolder& folder, const std::string& name) const {
    folder.write(name + "/vocab.json", vocab_json());
    folder.write(name + "/merges.txt", merges_txt());
    return folder / name;
  }

 private:
  void add(const std::string& bytes) {
    numbers_.emplace(bytes, static_cast<std::int64_t>(numbers_.size()));
  }
  nlohmann::json vocabulary(bool with_special) const {
    nlohmann::json vocab;
    for (const auto& [bytes, number] : numbers_) vocab[spelt(bytes)] = number;
    if (with_special) vocab["<|endoftext|>"] = special_;
    return vocab;
  }

  std::vector<BytesPair> merges_;
  std::map<std::string, std::int64_t> numbers_;
  std::int64_t special_ = 0;
};

inline Vocabulary pairs_of(const std::string& folder) {
  return Vocabulary::byte_pairs(byte_pair_files(folder));
}

}  // namespace attnlab::testing
