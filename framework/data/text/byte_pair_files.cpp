// Reading the files of a byte-pair tokeniser: see byte_pairs.h.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/data/formats/files.h"
#include "framework/data/text/byte_pairs.h"
#include "framework/data/text/json_leaves.h"
#include "framework/data/text/vocabulary.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOneModel = "take all files from one model";
constexpr std::uint32_t kAlphabet =
    256 + 68;  // bytes 0 to 32, 127 to 160 and 173 have other letters

/// The letter that files spell a byte by: itself where it is printable in Latin-1, else one from
/// U+0100 on, in order.
std::array<std::uint32_t, 256> letters_of_bytes() {
  std::array<std::uint32_t, 256> letters{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    letters[byte] = printable ? byte : next++;
  }
  return letters;
}

/// "left right"; nothing for another text.
std::optional<std::pair<std::string, std::string>> halves_of(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == 0 || blank >= text.size() - 1 || text.find(' ', blank + 1) != text.npos) return {};
  return std::pair{std::string(text.substr(0, blank)), std::string(text.substr(blank + 1))};
}

bool is_marked(std::string_view token) {
  return token.size() > 2 && token.front() == '<' && token.back() == '>';
}

}  // namespace

/// What files say, and the tokeniser that it makes.
class BytePairFiles {
 public:
  /// Of vocab.json and merges.txt.
  BytePairFiles(const std::string& vocabulary, const std::string& merges)
      : tokens_file_(open_text(vocabulary)), merges_file_(open_text(merges)) {
    each_leaf(tokens_file_, [&](const JsonLeaf& leaf) {
      if (leaf.path.size() != 1) refuse_token(leaf);
      add_token(leaf);
    });
    const std::string_view text = merges_file_.text;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const bool version = begin == 0 && line.starts_with("#version");
      if (!version && !line.empty()) add_merge(line, begin);
      begin = end + 1;
    }
  }

  /// Of tokenizer.json.
  explicit BytePairFiles(const std::string& file)
      : tokens_file_(open_text(file)), merges_file_(tokens_file_), lists_specials_(true) {
    bool byte_level = false;
    each_leaf(tokens_file_, [&](const JsonLeaf& leaf) {
      const std::vector<std::string>& path = leaf.path;
      const auto is_in = [&](const char* map, const char* list, std::size_t length) {
        return length > 1 && path.size() == length && path[0] == map && path[1] == list;
      };
      if (is_in("model", "vocab", 3)) return add_token(leaf);
      if (is_in("model", "merges", 3) && leaf.value.is_string()) {
        return add_merge(leaf.value.get<std::string>(), leaf.at);
      }
      if (is_in("model", "merges", 4)) return add_half(leaf);
      if (is_in("model", "merges", path.size()) || is_in("model", "vocab", path.size())) {
        throw DataError(fmt::format("{}: is not a {}; fetch the file again", place(leaf),
                                    path[1] == "vocab" ? "number of a token" : "merge"));
      }
      if (path.size() == 3 && path[0] == "added_tokens") return add_special(leaf);
      check_kind(leaf);
      byte_level |= path.size() == 2 && path[0] == "pre_tokenizer" && path[1] == "type";
    });
    if (!byte_level) {
      throw DataError(file +
                      ": has no pre_tokenizer of type ByteLevel; only GPT-2's kind of "
                      "byte pairs is read");
    }
  }

  BytePairs build() {
    number_tokens();
    find_bytes();
    add_merges();
    find_specials();
    return std::move(pairs_);
  }

 private:
  /// A token as a file has it, and where.
  struct Named {
    std::string spelt;
    std::int64_t number = -1;
    std::size_t at = 0;
  };
  struct Joined {
    std::string left, right;
    std::size_t at = 0;
  };

  std::string place(const JsonLeaf& leaf) const { return tokens_file_.place(leaf.at); }
  std::string place(const Named& token) const { return tokens_file_.place(token.at); }

  [[noreturn]] void refuse_token(const JsonLeaf& leaf) const {
    throw DataError(
        fmt::format("{}: expected the number of a token, found {}; fetch the file again",
                    place(leaf), excerpt(plain_text(leaf.value))));
  }

  std::int64_t number_of(const JsonLeaf& leaf) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24;  // far above any vocabulary
    if (!leaf.value.is_number_unsigned() || leaf.value.get<std::uint64_t>() >= kMost) {
      refuse_token(leaf);
    }
    return leaf.value.get<std::int64_t>();
  }

  void add_token(const JsonLeaf& leaf) {
    tokens_.push_back({leaf.path.back(), number_of(leaf), leaf.at});
  }

  void add_merge(std::string_view text, std::size_t at) {
    auto halves = halves_of(text);
    if (!halves) {
      throw DataError(fmt::format("{}: expected two tokens with a blank between them, found {}",
                                  merges_file_.place(at), excerpt(text)));
    }
    joins_.push_back({std::move(halves->first), std::move(halves->second), at});
  }

  /// Of a merge that is a list: ["left", "right"].
  void add_half(const JsonLeaf& leaf) {
    const bool left = leaf.path[3] == "0";
    const bool right = leaf.path[3] == "1" && !joins_.empty();
    if (!leaf.value.is_string() || left == right) {
      throw DataError(fmt::format("{}: expected a merge of two tokens, found {}", place(leaf),
                                  excerpt(plain_text(leaf.value))));
    }
    if (left) joins_.push_back({leaf.value.get<std::string>(), "", leaf.at});
    if (right) joins_.back().right = leaf.value.get<std::string>();
  }

  void add_special(const JsonLeaf& leaf) {
    if (leaf.path[1] != special_of_) specials_.push_back({"", -1, leaf.at});
    special_of_ = leaf.path[1];
    const std::string& key = leaf.path[2];
    if (key == "id") specials_.back().number = number_of(leaf);
    if (key == "content") specials_.back().spelt = plain_text(leaf.value);
    const bool looser = key == "lstrip" || key == "rstrip" || key == "single_word";
    if (looser && leaf.value != false) {
      throw DataError(
          fmt::format("{}: {} of an added token is not read; it must be false", place(leaf), key));
    }
  }

  /// That tokenizer.json means what GPT-2 does.
  void check_kind(const JsonLeaf& leaf) const {
    using Values = std::vector<nlohmann::json>;
    static const std::map<std::string, Values> kAllowed = {
        {"normalizer", {nullptr}},
        {"normalizer.type", {}},
        {"pre_tokenizer", {}},
        {"pre_tokenizer.type", {"ByteLevel"}},
        {"pre_tokenizer.add_prefix_space", {false}},
        {"pre_tokenizer.use_regex", {true}},
        {"model.type", {"BPE"}},
        {"model.dropout", {nullptr}},
        {"model.continuing_subword_prefix", {nullptr, ""}},
        {"model.end_of_word_suffix", {nullptr, ""}},
        {"model.byte_fallback", {false}},
        {"model.ignore_merges", {false}}};
    const std::string key = join(leaf.path, ".");
    const auto found = kAllowed.find(key);
    if (found == kAllowed.end()) return;
    const Values& allowed = found->second;
    if (std::find(allowed.begin(), allowed.end(), leaf.value) != allowed.end()) return;
    throw DataError(fmt::format(
        "{}: {} is {}, and only GPT-2's kind of byte pairs is read{}", place(leaf), key,
        one_line(leaf.value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
        allowed.empty() ? "" : ": it must be " + allowed.back().dump()));
  }

  /// Fills entries and numbers_.
  void number_tokens() {
    for (const Named& special : specials_) {
      if (special.number < 0 || special.spelt.empty()) {
        throw DataError(place(special) + ": an added token needs `id` and `content`");
      }
      tokens_.push_back(special);
    }
    const std::size_t own = tokens_.size() - specials_.size();
    std::vector<const Named*> by_number(tokens_.size(), nullptr);
    std::size_t count = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Named& token = tokens_[i];
      const auto [found, is_new] = numbers_.emplace(token.spelt, token.number);
      if (!is_new && i >= own && found->second == token.number) continue;  // listed in both places
      if (!is_new) {
        throw DataError(fmt::format("{}: the token {} stands there twice; {}", place(token),
                                    excerpt(token.spelt), kOneModel));
      }
      ++count;
      if (token.number >= std::ssize(by_number)) continue;  // said below
      const Named*& other = by_number[static_cast<std::size_t>(token.number)];
      if (other != nullptr) {
        throw DataError(fmt::format("{}: {} has the number {}, which {} has, too; {}", place(token),
                                    excerpt(token.spelt), token.number, excerpt(other->spelt),
                                    kOneModel));
      }
      other = &token;
    }
    for (const Named& token : tokens_) {
      if (token.number < static_cast<std::int64_t>(count)) continue;
      throw DataError(fmt::format(
          "{}: {} has the number {}, and there are {} tokens: their numbers are 0 to {}; {}",
          place(token), excerpt(token.spelt), token.number, count, count - 1, kOneModel));
    }
    by_number.resize(count);
    tokens_by_number_ = std::move(by_number);
    for (const Named* token : tokens_by_number_) pairs_.entries_.push_back(bytes_of(token->spelt));
    made_ = std::vector<bool>(count);
  }

  /// What a token stands for; as it is spelt where letters of it stand for no byte.
  static std::string bytes_of(const std::string& spelt) {
    static const std::array<std::int16_t, kAlphabet> kBytes = [] {
      std::array<std::int16_t, kAlphabet> bytes{};
      bytes.fill(-1);
      const auto letters = letters_of_bytes();
      for (std::size_t i = 0; i < letters.size(); ++i) bytes[letters[i]] = std::int16_t(i);
      return bytes;
    }();
    std::string bytes;
    for (std::size_t at = 0; at < spelt.size();) {
      const std::string_view rest = std::string_view(spelt).substr(at, 4);
      const std::size_t size = character_size(rest);
      const std::uint32_t code = code_point(rest.substr(0, size));
      if (code >= kAlphabet || kBytes[code] < 0) return spelt;
      bytes += static_cast<char>(kBytes[code]);
      at += size;
    }
    return bytes;
  }

  std::int32_t find(const std::string& spelt) const {
    const auto found = numbers_.find(spelt);
    return found == numbers_.end() ? -1 : static_cast<std::int32_t>(found->second);
  }

  void find_bytes() {
    const auto letters = letters_of_bytes();
    for (std::size_t byte = 0; byte < letters.size(); ++byte) {
      const std::string letter = utf8_character(letters[byte]);
      const std::int32_t token = find(letter);
      if (token < 0) {
        throw DataError(fmt::format("{}: lacks the token '{}', the byte {}; {}", tokens_file_.path,
                                    letter, byte, kOneModel));
      }
      pairs_.of_bytes_[byte] = token;
      made_[static_cast<std::size_t>(token)] = true;
    }
  }

  void add_merges() {
    for (const Joined& merge : joins_) {
      const auto refuse = [&](const std::string& what) {
        return DataError(fmt::format("{}: {}; {}", merges_file_.place(merge.at), what, kOneModel));
      };
      const auto token_of = [&](const std::string& spelt) {
        const std::int32_t token = find(spelt);
        if (token >= 0) return token;
        throw refuse(fmt::format("{} is not a token of {}", excerpt(spelt), tokens_file_.path));
      };
      const std::int32_t left = token_of(merge.left), right = token_of(merge.right);
      const std::int32_t both = token_of(merge.left + merge.right);
      for (const std::int32_t half : {left, right}) {
        if (made_[static_cast<std::size_t>(half)]) continue;
        throw refuse(fmt::format("no merge before this one makes {}",
                                 excerpt(half == left ? merge.left : merge.right)));
      }
      const BytePairs::Merge made{static_cast<std::int32_t>(pairs_.merges_.size()), both};
      if (!pairs_.merges_.emplace(BytePairs::pair_of(left, right), made).second) {
        throw refuse("this merge stands there twice");
      }
      made_[static_cast<std::size_t>(both)] = true;
    }
  }

  /// Tokens that no merge makes.
  void find_specials() {
    for (const Named& special : specials_) {
      const std::int32_t token = find(special.spelt);
      pairs_.specials_.push_back(token);
      pairs_.entries_[static_cast<std::size_t>(token)] = special.spelt;
      made_[static_cast<std::size_t>(token)] = true;
    }
    for (std::size_t i = 0; i < made_.size(); ++i) {
      if (made_[i]) continue;
      const Named& token = *tokens_by_number_[i];
      if (lists_specials_ || !is_marked(token.spelt)) {
        throw DataError(fmt::format("{}: no merge of {} makes the token {}; {}", place(token),
                                    merges_file_.path, excerpt(token.spelt), kOneModel));
      }
      pairs_.specials_.push_back(static_cast<std::int32_t>(i));
      pairs_.entries_[i] = token.spelt;
    }
  }

  TextPiece tokens_file_, merges_file_;
  bool lists_specials_ = false;  ///< else they are known by < and >
  std::vector<Named> tokens_, specials_;
  std::vector<Joined> joins_;
  std::string special_of_;  ///< the place in added_tokens of the last of specials_
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<const Named*> tokens_by_number_;
  std::vector<bool> made_;  ///< tokens that are bytes, merged or special
  BytePairs pairs_;
};

BytePairs BytePairs::read(const std::vector<std::string>& files) {
  return files.size() == 1 ? BytePairFiles(files[0]).build()
                           : BytePairFiles(files.at(0), files.at(1)).build();
}

std::vector<std::string> byte_pair_files(const std::string& tokenizer) {
  std::error_code error;
  if (fs::is_regular_file(tokenizer, error)) return {tokenizer};
  const auto in_folder = [&](const char* name) {
    return with_or_without_gz(fmt::format("{}/{}", tokenizer, name));
  };
  const std::string vocabulary = in_folder("vocab.json"), merges = in_folder("merges.txt");
  if (fs::exists(vocabulary, error) && fs::exists(merges, error)) return {vocabulary, merges};
  if (fs::exists(in_folder("tokenizer.json"), error)) return {in_folder("tokenizer.json")};
  throw DataMissingError(fmt::format(
      "{}: has no vocab.json and merges.txt, and no tokenizer.json; put there the files of the "
      "model, as its page of downloads has them",
      tokenizer));
}

}  // namespace attnlab
