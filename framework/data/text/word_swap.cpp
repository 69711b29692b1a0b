#include "framework/data/text/word_swap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "framework/base/unicode.h"

namespace attnlab {
namespace {

constexpr std::string_view kSwapped = "AAA";
constexpr std::string_view kInside = "'-_*@";  // of a word, but not at its beginning

/// English stop words as NLTK 3.5 to 3.8 list them (nltk_data, corpora/stopwords/english), which
/// took them from the Snowball project (Porter). Sorted.
constexpr std::array<std::string_view, 179> kStopWords = {
    "a",          "about",    "above",     "after",     "again",   "against", "ain",
    "all",        "am",       "an",        "and",       "any",     "are",     "aren",
    "aren't",     "as",       "at",        "be",        "because", "been",    "before",
    "being",      "below",    "between",   "both",      "but",     "by",      "can",
    "couldn",     "couldn't", "d",         "did",       "didn",    "didn't",  "do",
    "does",       "doesn",    "doesn't",   "doing",     "don",     "don't",   "down",
    "during",     "each",     "few",       "for",       "from",    "further", "had",
    "hadn",       "hadn't",   "has",       "hasn",      "hasn't",  "have",    "haven",
    "haven't",    "having",   "he",        "her",       "here",    "hers",    "herself",
    "him",        "himself",  "his",       "how",       "i",       "if",      "in",
    "into",       "is",       "isn",       "isn't",     "it",      "it's",    "its",
    "itself",     "just",     "ll",        "m",         "ma",      "me",      "mightn",
    "mightn't",   "more",     "most",      "mustn",     "mustn't", "my",      "myself",
    "needn",      "needn't",  "no",        "nor",       "not",     "now",     "o",
    "of",         "off",      "on",        "once",      "only",    "or",      "other",
    "our",        "ours",     "ourselves", "out",       "over",    "own",     "re",
    "s",          "same",     "shan",      "shan't",    "she",     "she's",   "should",
    "should've",  "shouldn",  "shouldn't", "so",        "some",    "such",    "t",
    "than",       "that",     "that'll",   "the",       "their",   "theirs",  "them",
    "themselves", "then",     "there",     "these",     "they",    "this",    "those",
    "through",    "to",       "too",       "under",     "until",   "up",      "ve",
    "very",       "was",      "wasn",      "wasn't",    "we",      "were",    "weren",
    "weren't",    "what",     "when",      "where",     "which",   "while",   "who",
    "whom",       "why",      "will",      "with",      "won",     "won't",   "wouldn",
    "wouldn't",   "y",        "you",       "you'd",     "you'll",  "you're",  "you've",
    "your",       "yours",    "yourself",  "yourselves"};
static_assert(std::is_sorted(kStopWords.begin(), kStopWords.end()), "they are found by halving");

/// Beyond ASCII, ranges of characters that are neither letters nor digits: Latin-1's signs, general
/// punctuation, currencies, arrows to symbols, CJK's punctuation.
constexpr std::array<std::array<std::uint32_t, 2>, 14> kSigns = {{{0x80, 0xA9},
                                                                  {0xAB, 0xB1},
                                                                  {0xB4, 0xB4},
                                                                  {0xB6, 0xB8},
                                                                  {0xBB, 0xBB},
                                                                  {0xBF, 0xBF},
                                                                  {0xF7, 0xF7},
                                                                  {0x2000, 0x206F},
                                                                  {0x20A0, 0x20FF},
                                                                  {0x2190, 0x2BFF},
                                                                  {0x3000, 0x3004},
                                                                  {0x3008, 0x3020},
                                                                  {0xFF01, 0xFF0F},
                                                                  {0xFFF0, 0xFFFF}}};

bool is_ascii_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// Bytes of the word's character that a text begins with; 0: none.
std::size_t word_character(std::string_view text) {
  const char first = text.front();
  if (static_cast<unsigned char>(first) < 0x80) {
    return is_ascii_letter_or_digit(first) || first == '`' || kInside.find(first) != kInside.npos;
  }
  const std::size_t size = character_size(text.substr(0, 4));
  if (size == 0) return 0;
  const std::uint32_t code = code_point(text.substr(0, size));
  const bool sign = std::any_of(kSigns.begin(), kSigns.end(), [&](const auto& range) {
    return code >= range[0] && code <= range[1];
  });
  return sign ? 0 : size;
}

/// Of things numbered from 0, those that were not taken yet: a tree of counts (Fenwick's), as a
/// text of one line has millions of words.
class Remaining {
 public:
  explicit Remaining(std::size_t count) : counts_(count + 1), size_(std::int64_t(count)) {
    for (std::size_t i = 1; i <= count; ++i) {
      ++counts_[i];
      if (const std::size_t above = i + lowest_bit(i); above <= count) counts_[above] += counts_[i];
    }
  }

  std::int64_t size() const { return size_; }

  /// Takes the one with so many untaken before it. @returns its number
  std::size_t take(std::int64_t rank) {
    std::size_t at = 0;
    for (std::size_t step = std::bit_floor(counts_.size()); step > 0; step /= 2) {
      if (at + step >= counts_.size() || counts_[at + step] > rank) continue;
      at += step;
      rank -= counts_[at];
    }
    for (std::size_t i = at + 1; i < counts_.size(); i += lowest_bit(i)) --counts_[i];
    --size_;
    return at;
  }

 private:
  static std::size_t lowest_bit(std::size_t i) { return i & (~i + 1); }

  std::vector<std::int64_t> counts_;  ///< number i: of the lowest_bit(i) things up to i - 1
  std::int64_t size_;
};

}  // namespace

std::vector<WordPlace> swap_words(std::string_view line) {
  std::vector<WordPlace> words;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at;
    while (end < line.size()) {
      const std::size_t size = word_character(line.substr(end));
      if (size == 0) break;
      end += size;
    }
    const std::size_t begin = std::min(line.find_first_not_of(kInside, at), end);
    if (end > begin) words.push_back({begin, end - begin});
    at = std::max(end, at + 1);
  }
  return words;
}

std::span<const std::string_view> stop_words() { return kStopWords; }

bool is_stop_word(std::string_view word) {
  return std::binary_search(kStopWords.begin(), kStopWords.end(), word);
}

std::string swapped(std::string_view line, double rate, Random random) {
  std::vector<WordPlace> words = swap_words(line), chosen;
  auto swaps = std::max<std::int64_t>(1, static_cast<std::int64_t>(rate * double(words.size())));
  std::erase_if(words, [&](const WordPlace& place) {
    const std::string_view word = line.substr(place.begin, place.size);
    return word == kSwapped || is_stop_word(word);
  });
  Remaining remaining(words.size());
  for (; swaps > 0 && remaining.size() > 0; --swaps) {
    const std::int64_t left = remaining.size();
    const std::int64_t drawn = random.below(swaps > 1 ? left : left + 1);
    if (drawn == left) break;
    chosen.push_back(words[remaining.take(drawn)]);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const WordPlace& a, const WordPlace& b) { return a.begin < b.begin; });
  std::string out;
  std::size_t at = 0;
  for (const WordPlace& place : chosen) {
    out += line.substr(at, place.begin - at);
    out += kSwapped;
    at = place.begin + place.size;
  }
  return out.append(line.substr(at));
}

}  // namespace attnlab
