#include "framework/data/text/byte_pairs.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "framework/base/unicode.h"
#include "framework/data/text/letter_table.h"
#include "framework/data/text/word_scan.h"
#include "framework/data/text/word_table.h"

namespace attnlab {
namespace {

enum class LetterKind : std::uint8_t { other, letter, number, space };

constexpr std::size_t kCodes = 0x110000;

const std::vector<LetterKind>& letter_kinds() {
  static const std::vector<LetterKind> all = [] {
    std::vector<LetterKind> kinds(kCodes, LetterKind::other);
    const auto set = [&](const auto& ranges, LetterKind kind) {
      for (const CodeRange& range : ranges) {
        std::fill(kinds.begin() + range.first, kinds.begin() + range.last + 1, kind);
      }
    };
    set(kLetters, LetterKind::letter);
    set(kNumbers, LetterKind::number);
    set(kSpaces, LetterKind::space);
    return kinds;
  }();
  return all;
}

/// Cuts a part of a text into words.
class WordCutter {
 public:
  /// @param end  of the part; nothing behind it is looked at
  WordCutter(const TextPiece& piece, std::size_t end)
      : piece_(piece), text_(piece.text.substr(0, end)), kinds_(letter_kinds().data()) {}

  /// The end of the word that begins here, before the part's end.
  std::size_t end_of_word(std::size_t begin) const {
    if (const std::size_t size = contraction(begin); size > 0) return begin + size;
    std::size_t at = begin;
    Letter letter = letter_at(at);
    if (text_[begin] == ' ' && begin + 1 < text_.size()) {
      const Letter next = letter_at(begin + 1);
      if (next.kind != LetterKind::space) {
        letter = next;
        at = begin + 1;
      }
    }
    if (letter.kind == LetterKind::space) return end_of_space(begin);
    const LetterKind kind = letter.kind;
    do {
      at += letter.size;
      if (at == text_.size()) break;
      letter = letter_at(at);
    } while (letter.kind == kind);
    return at;
  }

 private:
  struct Letter {
    LetterKind kind;
    std::size_t size;
  };

  Letter letter_at(std::size_t at) const {
    const auto first = static_cast<unsigned char>(text_[at]);
    if (first < 0x80) return {kinds_[first], 1};
    const std::size_t size = character_size(text_.substr(at, 4));
    if (size == 0) refuse_encoding(piece_, at);
    return {kinds_[code_point(text_.substr(at, size))], size};
  }

  /// Bytes of 's, 't, 're, 've, 'm, 'll or 'd; 0: none begins here.
  std::size_t contraction(std::size_t at) const {
    if (text_[at] != '\'') return 0;
    const std::string_view rest = text_.substr(at + 1, 2);
    if (rest == "re" || rest == "ve" || rest == "ll") return 3;
    return !rest.empty() && std::string_view("stmd").find(rest[0]) != std::string_view::npos ? 2
                                                                                             : 0;
  }

  /// All white space at the end of the part, else without its last character, which belongs to the
  /// word behind it. A single character of white space is taken alone.
  std::size_t end_of_space(std::size_t begin) const {
    std::size_t at = begin, last = begin;
    while (at < text_.size()) {
      const Letter letter = letter_at(at);
      if (letter.kind != LetterKind::space) return last == begin ? at : last;
      last = at;
      at += letter.size;
    }
    return at;
  }

  const TextPiece& piece_;
  std::string_view text_;
  const LetterKind* kinds_;
};

/// Where a text spells special tokens, from its beginning on.
class Specials {
 public:
  Specials(std::string_view text, const std::vector<std::string>& entries,
           const std::vector<std::int32_t>& tokens)
      : text_(text) {
    for (const std::int32_t token : tokens) {
      const std::string_view spelt = entries[static_cast<std::size_t>(token)];
      all_.push_back({token, spelt, text.find(spelt)});
    }
  }

  struct Special {
    std::int32_t token = -1;
    std::string_view spelt;
    std::size_t at = std::string_view::npos;
  };
  /// The first one from here on, of those at one place the longest; at the text's end: none.
  Special next(std::size_t from) {
    Special first{-1, {}, text_.size()};
    for (Special& one : all_) {
      if (one.at < from) one.at = text_.find(one.spelt, from);
      const bool longer = one.at == first.at && one.spelt.size() > first.spelt.size();
      if (one.at < first.at || longer) first = one;
    }
    return first;
  }

 private:
  std::string_view text_;
  std::vector<Special> all_;
};

}  // namespace

class BytePairs::Words {
 public:
  explicit Words(const BytePairs& pairs) : pairs_(pairs) {}

  /// Appends a word's tokens.
  void add(std::string_view word, std::vector<std::int32_t>& tokens) {
    const std::uint64_t hash = WordHash::of(word);
    const bool full = table_.size() == kMost;
    const std::int32_t number = full ? table_.find(word, hash) : table_.find_or_add(word, hash);
    if (number < 0) return pairs_.merge_word(word, tokens);
    const auto i = static_cast<std::size_t>(number);
    if (i + 1 == ends_.size()) {
      pairs_.merge_word(word, tokens_);
      ends_.push_back(tokens_.size());
    }
    tokens.insert(tokens.end(), tokens_.begin() + std::ptrdiff_t(ends_[i]),
                  tokens_.begin() + std::ptrdiff_t(ends_[i + 1]));
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 20;  // some tens of MB

  const BytePairs& pairs_;
  WordTable table_;
  std::vector<std::int32_t> tokens_;     ///< of all words, one after the other
  std::vector<std::size_t> ends_ = {0};  ///< word i has those from ends_[i] to ends_[i + 1]
};

void BytePairs::merge_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
  struct Node {
    std::int32_t token;
    std::uint32_t before,
        after;  ///< its neighbours; `after` of the last one is the number of nodes
  };
  /// Two neighbours as they were when the merge was found.
  struct Candidate {
    Merge merge;
    std::uint32_t at;
    std::int32_t left, right;
    /// The top of a queue is its largest.
    bool operator<(const Candidate& other) const {
      return std::pair(merge.rank, at) > std::pair(other.merge.rank, other.at);
    }
  };
  const auto count = static_cast<std::uint32_t>(word.size());
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes.push_back({of_bytes_[static_cast<unsigned char>(word[i])], i - 1, i + 1});
  }
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::uint32_t at) {
    if (at >= count || nodes[at].after >= count) return;
    const std::int32_t left = nodes[at].token, right = nodes[nodes[at].after].token;
    if (const Merge* merge = merge_of(left, right)) queue.push({*merge, at, left, right});
  };
  for (std::uint32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& node = nodes[best.at];
    if (node.token != best.left || node.after >= count || nodes[node.after].token != best.right) {
      continue;  // one of them is part of another token by now
    }
    nodes[node.after].token = -1;
    node.token = best.merge.token;
    node.after = nodes[node.after].after;
    if (node.after < count) nodes[node.after].before = best.at;
    offer(node.before);
    offer(best.at);
  }
  for (std::uint32_t i = 0; i < count; i = nodes[i].after) tokens.push_back(nodes[i].token);
}

void BytePairs::encode(const TextPiece& piece, const Take& take) const {
  constexpr std::size_t kBlock = 4096;
  Words words(*this);
  Specials specials(piece.text, entries_, specials_);
  std::vector<std::int32_t> block;
  const auto hand_over = [&](std::size_t least) {
    if (block.size() < least) return;
    take(block.data(), block.size());
    block.clear();
  };
  for (std::size_t at = 0; at < piece.text.size();) {
    const Specials::Special special = specials.next(at);
    const WordCutter cutter(piece, special.at);
    while (at < special.at) {
      const std::size_t end = cutter.end_of_word(at);
      words.add(piece.text.substr(at, end - at), block);
      hand_over(kBlock);
      at = end;
    }
    if (special.token < 0) break;
    block.push_back(special.token);
    at += special.spelt.size();
  }
  hand_over(1);
}

}  // namespace attnlab
