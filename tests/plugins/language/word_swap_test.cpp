// Word swap: which words are swapped, how many, how often.
#include "framework/data/text/word_swap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "framework/base/files.h"

namespace attnlab::word_swap_test {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (const WordPlace& place : swap_words(line))
    words.push_back(line.substr(place.begin, place.size));
  return words;
}

std::map<std::string, int> outcomes(const std::string& line, double rate, int draws) {
  std::map<std::string, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[swapped(line, rate, Random(std::uint64_t(i) * 7919))];
  return counts;
}

/// Five standard deviations of a binomial count around its mean.
void expect_share(int count, int draws, double share) {
  EXPECT_NEAR(count, draws * share, 5 * std::sqrt(draws * share * (1 - share)));
}

TEST(WordSwap, FindsTheWordsOfALine) {
  EXPECT_EQ(words_of(" = Robert Boulter = "), (std::vector<std::string>{"Robert", "Boulter"}));
  EXPECT_EQ(words_of("the <unk> 's role , 1 @,@ 000 @-@ odd don't"),
            (std::vector<std::string>{"the", "unk", "s", "role", "1", "000", "odd", "don't"}));
  EXPECT_EQ(words_of("'-_*@ --x- 'tis*"), (std::vector<std::string>{"x-", "tis*"}));
  EXPECT_EQ(words_of("café – “naïve” 東京、京都 £5"),
            (std::vector<std::string>{"café", "naïve", "東京", "京都", "5"}));
  EXPECT_TRUE(words_of(" . , ; ").empty());
}

TEST(WordSwap, KnowsStopWordsAsTheyAreWritten) {
  for (const char* word : {"a", "the", "yourselves", "shan't", "should've", "that'll"}) {
    EXPECT_TRUE(is_stop_word(word)) << word;
  }
  for (const char* word : {"The", "cat", "", "zebra", "shall"}) {
    EXPECT_FALSE(is_stop_word(word)) << word;
  }
}

TEST(WordSwap, HasAllOfTheList) {
  std::string all;
  for (const std::string_view word : stop_words()) {
    EXPECT_TRUE(is_stop_word(word)) << word;
    if (!all.empty()) all += ' ';
    all += word;
  }
  EXPECT_EQ(stop_words().size(), 179U);
  EXPECT_EQ(hex(fingerprint(all)), "6d46c6d81319b3e8") << "of NLTK's list, sorted, with blanks";
}

TEST(WordSwap, SwapsOneOfAShortLinesWordsOrNone) {
  const int draws = 8000;
  const std::map<std::string, int> counts = outcomes("the red cat sat", 0.015, draws);
  ASSERT_EQ(counts.size(), 4U);
  for (const char* line :
       {"the red cat sat", "the AAA cat sat", "the red AAA sat", "the red cat AAA"}) {
    ASSERT_EQ(counts.count(line), 1U) << line;
    expect_share(counts.at(line), draws, 0.25);
  }
}

TEST(WordSwap, SwapsTheShareOfALongLine) {
  // 40 words of which 20 are stop words; 0.05 * 40 = 2.
  std::string line;
  for (int i = 0; i < 20; ++i) line += "the w" + std::to_string(i) + " ";
  const int draws = 4000;
  int one = 0, two = 0;
  for (const auto& [out, count] : outcomes(line, 0.05, draws)) {
    std::size_t swaps = 0;
    for (std::size_t at = out.find("AAA"); at != std::string::npos; at = out.find("AAA", at + 1)) {
      ++swaps;
    }
    ASSERT_TRUE(swaps == 1 || swaps == 2) << out;
    (swaps == 1 ? one : two) += count;
  }
  EXPECT_EQ(one + two, draws);
  expect_share(one, draws, 1.0 / 20);  // 19 words are left for the second swap, or none
}

/// As words are taken out of a list, one after the other.
std::string swapped_by_list(const std::string& line, double rate, Random random) {
  std::vector<WordPlace> words = swap_words(line), chosen;
  auto swaps = std::max<std::int64_t>(1, std::int64_t(rate * double(words.size())));
  std::erase_if(words, [&](const WordPlace& place) {
    return is_stop_word(line.substr(place.begin, place.size));
  });
  for (; swaps > 0 && !words.empty(); --swaps) {
    const auto left = std::int64_t(words.size());
    const std::int64_t drawn = random.below(swaps > 1 ? left : left + 1);
    if (drawn == left) break;
    chosen.push_back(words[std::size_t(drawn)]);
    words.erase(words.begin() + drawn);
  }
  std::string out = line;
  std::sort(chosen.begin(), chosen.end(),
            [](const WordPlace& a, const WordPlace& b) { return a.begin > b.begin; });
  for (const WordPlace& place : chosen) out.replace(place.begin, place.size, "AAA");
  return out;
}

TEST(WordSwap, ChoosesTheWordsThatAListOfThoseLeftGives) {
  std::string line;
  for (int words = 0; words < 70; ++words) {
    for (const double rate : {0.1, 0.5, 1.0}) {
      const Random random{std::uint64_t(words)};
      EXPECT_EQ(swapped(line, rate, random), swapped_by_list(line, rate, random)) << words;
    }
    line += words % 5 == 0 ? "the " : "w" + std::to_string(words) + ", ";
  }
}

TEST(WordSwap, RoundsTheNumberDown) {
  std::string line;
  for (int i = 0; i < 59; ++i) line += "w ";  // 0.05 * 59 = 2.95
  std::size_t most = 0;
  for (const auto& [out, count] : outcomes(line, 0.05, 200)) {
    most = std::max(most, (out.size() - line.size()) / 2);
  }
  EXPECT_EQ(most, 2U);
}

TEST(WordSwap, LeavesWhatHasNoWordToSwap) {
  for (const char* line : {"", " ", "the of and", "AAA", " = ="}) {
    EXPECT_EQ(swapped(line, 1.0, Random(1)), line);
  }
}

TEST(WordSwap, CanSwapEveryWord) {
  // At rate 1 all but perhaps the last of the swaps are made.
  const std::map<std::string, int> counts = outcomes("red, blue; (green)", 1.0, 3000);
  expect_share(counts.at("AAA, AAA; (AAA)"), 3000, 0.5);
  EXPECT_EQ(counts.count("red, blue; (green)"), 0U);
}

TEST(WordSwap, KeepsPunctuationAndSpaces) {
  EXPECT_EQ(outcomes("  (Hello) ! ", 0.1, 50).size(), 2U);
  EXPECT_EQ(outcomes("  (Hello) ! ", 0.1, 50).count("  (AAA) ! "), 1U);
}

}  // namespace
}  // namespace attnlab::word_swap_test
