#include "framework/data/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/text/byte_pairs.h"
#include "framework/data/text/word_scan.h"
#include "framework/data/text/word_table.h"

namespace attnlab {
namespace {

constexpr std::uint32_t kCodePoints = 0x110000;

/// Calls use(code point, where it begins).
template <class Use>
void scan_characters(const TextPiece& piece, const Use& use) {
  const std::string_view text = piece.text;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      use(first, at++);
      continue;
    }
    const std::size_t size = character_size(text.substr(at, 4));
    if (size == 0) refuse_encoding(piece, at);
    use(code_point(text.substr(at, size)), at);
    at += size;
  }
}

/// Numbers of entries by falling count, equal ones as they came, without those that rules leave
/// out.
/// @param reserved  entries that stand in the vocabulary anyway
std::vector<std::size_t> kept(const std::vector<std::int64_t>& counts, const VocabularyRules& rules,
                              std::int64_t reserved) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  const auto rare = std::find_if(order.begin(), order.end(),
                                 [&](std::size_t i) { return counts[i] < rules.min_count; });
  order.erase(rare, order.end());
  if (rules.max_size > 0) {
    const auto room =
        static_cast<std::size_t>(std::max<std::int64_t>(0, rules.max_size - reserved));
    if (order.size() > room) order.resize(room);
  }
  return order;
}

std::vector<std::string> learn_words(const Text& train, const VocabularyRules& rules) {
  WordTable table;
  std::vector<std::int64_t> counts;
  for (const TextPiece& piece : train) {
    scan_words(
        piece, rules.split_marks,
        [&](std::string_view word, std::uint64_t hash) {
          const auto number = static_cast<std::size_t>(table.find_or_add(word, hash));
          if (number == counts.size()) counts.push_back(0);
          ++counts[number];
        },
        [] {});
  }
  // A line's end is not a word of the text, even where the text spells it.
  const std::int32_t spelt = table.find(Vocabulary::kLineEnd, WordHash::of(Vocabulary::kLineEnd));
  if (spelt >= 0) counts[static_cast<std::size_t>(spelt)] = 0;
  std::vector<std::string> words = {std::string(Vocabulary::kLineEnd)};
  bool has_unknown = false;
  for (const std::size_t number : kept(counts, rules, 2)) {
    words.emplace_back(table.word(static_cast<std::int32_t>(number)));
    has_unknown |= words.back() == Vocabulary::kUnknown;
  }
  if (!has_unknown) words.emplace_back(Vocabulary::kUnknown);
  return words;
}

std::vector<std::string> learn_characters(const Text& train, const VocabularyRules& rules) {
  std::vector<std::int64_t> counts(kCodePoints, 0);
  for (const TextPiece& piece : train) {
    scan_characters(piece, [&](std::uint32_t code, std::size_t) { ++counts[code]; });
  }
  VocabularyRules own = rules;
  own.min_count = std::max<std::int64_t>(1, rules.min_count);
  const auto all = static_cast<std::size_t>(
      std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; }));
  const bool leaves_out = rules.max_size > 0 && all > static_cast<std::size_t>(rules.max_size);
  std::vector<std::size_t> codes = kept(counts, own, leaves_out || rules.min_count > 1 ? 1 : 0);
  std::sort(codes.begin(), codes.end());
  std::vector<std::string> characters;
  for (const std::size_t code : codes) {
    characters.push_back(utf8_character(static_cast<std::uint32_t>(code)));
  }
  if (leaves_out || rules.min_count > 1) characters.emplace_back(Vocabulary::kUnknown);
  return characters;
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  return bytes;
}

/// Hands tokens over in blocks.
class Blocks {
 public:
  explicit Blocks(const Vocabulary::Take& take) : take_(take) {}
  void add(std::int32_t token) {
    tokens_[count_++] = token;
    if (count_ == tokens_.size()) hand_over();
  }
  void hand_over() {
    if (count_ > 0) take_(tokens_.data(), count_);
    count_ = 0;
  }

 private:
  const Vocabulary::Take& take_;
  std::array<std::int32_t, 4096> tokens_;
  std::size_t count_ = 0;
};

}  // namespace

/// Tokens by what they stand for.
class Vocabulary::Index {
 public:
  Index(TextUnit unit, const std::vector<std::string>& entries) {
    if (unit == TextUnit::character) codes_.assign(kCodePoints, -1);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto token = static_cast<std::int32_t>(i);
      if (unit == TextUnit::word) {
        words_.find_or_add(entries[i], WordHash::of(entries[i]));
      } else if (unit == TextUnit::character && entries[i] != kUnknown) {
        scan_characters({{}, entries[i], entries[i], nullptr},
                        [&](std::uint32_t code, std::size_t) { codes_[code] = token; });
      }
    }
  }
  explicit Index(BytePairs pairs) : pairs_(std::move(pairs)) {}
  std::int32_t word(std::string_view word, std::uint64_t hash) const {
    return words_.find(word, hash);
  }
  std::int32_t character(std::uint32_t code) const { return codes_[code]; }
  const BytePairs& pairs() const { return *pairs_; }

 private:
  WordTable words_;
  std::vector<std::int32_t> codes_;
  std::optional<BytePairs> pairs_;
};

Vocabulary::Vocabulary(TextUnit unit, std::vector<std::string> entries, bool split_marks)
    : unit_(unit),
      split_marks_(split_marks),
      entries_(std::move(entries)),
      index_(std::make_shared<const Index>(unit, entries_)) {
  const std::string_view line_end = unit == TextUnit::word ? kLineEnd : "\n";
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i] == line_end) line_end_ = static_cast<std::int64_t>(i);
    if (entries_[i] == kUnknown) unknown_ = static_cast<std::int64_t>(i);
  }
}

Vocabulary::Vocabulary(std::vector<std::string> entries, std::shared_ptr<const Index> byte_pairs)
    : unit_(TextUnit::byte_pair),
      split_marks_(false),
      entries_(std::move(entries)),
      index_(std::move(byte_pairs)) {}

Vocabulary Vocabulary::learn(const Text& train, TextUnit unit, const VocabularyRules& rules) {
  switch (unit) {
    case TextUnit::word:
      return {unit, learn_words(train, rules), rules.split_marks};
    case TextUnit::character:
      return {unit, learn_characters(train, rules), false};
    case TextUnit::byte_pair:
      throw ConfigError(
          "byte pairs are not learnt from a text; name the files of a published model");
    case TextUnit::byte:
      break;
  }
  return {TextUnit::byte, all_bytes(), false};
}

Vocabulary Vocabulary::read(const std::string& path, bool split_marks) {
  const TextPiece file = open_text(path);
  without_mark(file.text, path);  // refuses UTF-16
  std::vector<std::string> words;
  std::unordered_map<std::string, std::size_t> lines;
  for (std::size_t begin = 0; begin < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    std::string word(trimmed(file.text.substr(begin, end - begin)));
    const auto [found, is_new] = lines.emplace(word, words.size() + 1);
    if (word.empty() || word.find(' ') != std::string::npos) {
      throw DataError(
          fmt::format("{}: expected one word, found {}", file.place(begin), excerpt(word)));
    }
    if (!is_new) {
      throw DataError(fmt::format("{}: {} stands in line {}, too; remove one of them",
                                  file.place(begin), excerpt(word), found->second));
    }
    words.push_back(std::move(word));
    begin = end + 1;
  }
  for (const std::string_view needed : {kLineEnd, kUnknown}) {
    if (lines.count(std::string(needed)) > 0) continue;
    throw DataError(fmt::format("{}: lacks '{}'; add a line with it", path, needed));
  }
  return {TextUnit::word, std::move(words), split_marks};
}

Vocabulary Vocabulary::byte_pairs(const std::vector<std::string>& files) {
  BytePairs pairs = BytePairs::read(files);
  std::vector<std::string> entries = pairs.entries();
  return {std::move(entries), std::make_shared<const Index>(std::move(pairs))};
}

void Vocabulary::encode(const Text& text, const Take& take) const {
  for (const TextPiece& piece : text) encode(piece, /*ends_line=*/true, take);
}

void Vocabulary::encode(const TextPiece& piece, bool ends_line, const Take& take) const {
  if (unit_ == TextUnit::byte_pair) return index_->pairs().encode(piece, take);
  Blocks blocks(take);
  if (unit_ == TextUnit::byte) {
    for (const char c : piece.text) blocks.add(static_cast<unsigned char>(c));
  } else if (unit_ == TextUnit::character) {
    scan_characters(piece, [&](std::uint32_t code, std::size_t at) {
      const std::int32_t token = index_->character(code);
      if (token < 0 && unknown_ < 0) {
        throw DataError(fmt::format(
            "{}: the character '{}' does not stand in the training text; with min_count: 2 rare "
            "and unknown characters become one of their own",
            piece.place(at), printable(utf8_character(code))));
      }
      blocks.add(token < 0 ? static_cast<std::int32_t>(unknown_) : token);
    });
  } else {
    const auto unknown = static_cast<std::int32_t>(unknown_);
    const auto line_end = static_cast<std::int32_t>(line_end_);
    scan_words(
        piece, split_marks_,
        [&](std::string_view word, std::uint64_t hash) {
          const std::int32_t token = index_->word(word, hash);
          blocks.add(token < 0 ? unknown : token);
        },
        [&] { blocks.add(line_end); });
    if (ends_line && !piece.text.ends_with('\n')) blocks.add(line_end);
  }
  blocks.hand_over();
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> all;
  encode({"the text", text, text, nullptr}, /*ends_line=*/false,
         [&](const std::int32_t* tokens, std::size_t count) {
           all.insert(all.end(), tokens, tokens + count);
         });
  return all;
}

std::string Vocabulary::decode(std::int64_t token, std::int64_t before) const {
  if (token < 0 || token >= size()) {
    throw DataError(fmt::format("there is no token {} in a vocabulary of {}", token, size()));
  }
  if (token == line_end_) return "\n";
  const bool spaced = unit_ == TextUnit::word && before >= 0 && before != line_end_;
  return (spaced ? " " : "") + entries_[static_cast<std::size_t>(token)];
}

}  // namespace attnlab
