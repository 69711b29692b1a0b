// Byte pairs: where GPT-2's pattern cuts words, merges against a search for the earliest one, and
// files that do not fit.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "framework/base/random.h"
#include "tests/plugins/language/byte_pair_files.h"
#include "tests/support/data_files.h"

namespace attnlab::byte_pairs_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::BytesPair;
using ::testing::HasSubstr;
using testing::message_of;
using testing::PairFiles;
using testing::pairs_of;
using testing::TempFolder;

using Words = std::vector<std::string>;
using Tokens = std::vector<std::int64_t>;

/// What a text is cut into: its merges join any two neighbours, so that a word is one token.
Words words_of(const std::string& text) {
  std::vector<BytesPair> merges;
  std::set<BytesPair> there;
  for (std::size_t length = 2; length <= text.size(); ++length) {
    for (std::size_t begin = 0; begin + length <= text.size(); ++begin) {
      for (std::size_t left = 1; left < length; ++left) {
        const BytesPair pair{text.substr(begin, left), text.substr(begin + left, length - left)};
        if (there.insert(pair).second) merges.push_back(pair);
      }
    }
  }
  const TempFolder folder;
  const Vocabulary pairs = pairs_of(PairFiles(merges).write(folder, "all"));
  Words words;
  for (const std::int64_t token : pairs.encode(text)) words.push_back(pairs.decode(token, -1));
  return words;
}

TEST(BytePairs, CutLettersNumbersAndOthersWithABlankBefore) {
  EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words_of("ab12 34cd!? #x"), (Words{"ab", "12", " 34", "cd", "!?", " #", "x"}));
  EXPECT_EQ(words_of("a_b-c"), (Words{"a", "_", "b", "-", "c"}));
}

TEST(BytePairs, CutOffEnglishEndingsInSmallLetters) {
  EXPECT_EQ(words_of("don't we've I'm he'll"),
            (Words{"don", "'t", " we", "'ve", " I", "'m", " he", "'ll"}));
  EXPECT_EQ(words_of("I'd you're it's"), (Words{"I", "'d", " you", "'re", " it", "'s"}));
  EXPECT_EQ(words_of("DON'T 'tis '"), (Words{"DON", "'", "T", " '", "tis", " '"}));
  EXPECT_EQ(words_of("!'s 'rx"), (Words{"!'", "s", " '", "rx"}));
}

TEST(BytePairs, LeaveTheLastWhiteSpaceToTheWordBehind) {
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a\n b\n\nc"), (Words{"a", "\n", " b", "\n", "\n", "c"}));
  EXPECT_EQ(words_of("a\t b  \n "), (Words{"a", "\t", " b", "  \n "}));
}

TEST(BytePairs, KnowUnicodesLettersNumbersAndSpaces) {
  EXPECT_EQ(words_of("über東京4½²"), (Words{"über東京", "4½²"}));
  EXPECT_EQ(words_of("a\u00A0b\u3000\u2003c"),
            (Words{"a", "\u00A0", "b", "\u3000", "\u2003", "c"}));
  // A combining accent is not a letter; U+10428 is, of Deseret; U+001C is not white space here.
  EXPECT_EQ(words_of("e\u0301\U00010428 \u0661"), (Words{"e", "\u0301", "\U00010428", " \u0661"}));
  EXPECT_EQ(words_of("a\x1C"
                     "b"),
            (Words{"a", "\x1C", "b"}));
}

/// Merges as byte-pair encoding learns them: the most frequent neighbours of a text, again and
/// again. As in published files, each token is made by one merge.
std::vector<BytesPair> learnt(const std::string& text, std::size_t count) {
  Words tokens;
  for (const char c : text) tokens.emplace_back(1, c);
  std::vector<BytesPair> merges;
  std::set<std::string> made;
  while (merges.size() < count) {
    std::map<BytesPair, int> counts;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      if (made.count(tokens[i - 1] + tokens[i]) == 0) ++counts[{tokens[i - 1], tokens[i]}];
    }
    const BytesPair best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    merges.push_back(best);
    made.insert(best.first + best.second);
    Words joined;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool pair = i + 1 < tokens.size() && BytesPair{tokens[i], tokens[i + 1]} == best;
      joined.push_back(pair ? tokens[i] + tokens[i + 1] : tokens[i]);
      if (pair) ++i;
    }
    tokens = joined;
  }
  return merges;
}

/// GPT-2's own loop: the earliest merge that fits anywhere, everywhere, and again.
Words merged(const std::string& word, const std::vector<BytesPair>& merges) {
  Words tokens;
  for (const char c : word) tokens.emplace_back(1, c);
  for (bool found = true; found;) {
    found = false;
    for (const BytesPair& merge : merges) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (BytesPair{tokens[i], tokens[i + 1]} != merge) continue;
        tokens[i] += tokens[i + 1];
        tokens.erase(tokens.begin() + std::ptrdiff_t(i) + 1);
        found = true;
      }
      if (found) break;
    }
  }
  return tokens;
}

std::string letters(Random& random, std::int64_t count) {
  std::string text;
  for (; count > 0; --count) text += static_cast<char>('a' + random.below(3));
  return text;
}

TEST(BytePairs, TakeTheEarliestMergeOfAWordAgainAndAgain) {
  Random random(5);
  const std::vector<BytesPair> merges = learnt(letters(random, 3000), 60);
  const PairFiles files(merges);
  const TempFolder folder;
  const Vocabulary pairs = pairs_of(files.write(folder, "learnt"));
  for (int i = 0; i < 300; ++i) {
    const std::string word = letters(random, 1 + random.below(60));
    Tokens expected;
    for (const std::string& token : merged(word, merges)) expected.push_back(files.number(token));
    EXPECT_EQ(pairs.encode(word), expected) << word;
    EXPECT_EQ(pairs.encode(word + "1" + word).size(), 2 * expected.size() + 1) << "from its table";
  }
}

TEST(BytePairs, SpellEveryTextThatIsUtf8) {
  const TempFolder folder;
  const Vocabulary pairs = pairs_of(PairFiles({{"a", "b"}, {"\xC3", "\xA4"}}).write(folder, "two"));
  std::string text = "ab äb\r\n\t";
  for (std::uint32_t code = 1; code < 0x11000; code += 97) {
    if (code < 0xD800 || code > 0xDFFF) text += utf8_character(code);
  }
  std::string back;
  for (const std::int64_t token : pairs.encode(text)) back += pairs.decode(token, -1);
  EXPECT_EQ(back, text);
  EXPECT_EQ(pairs.line_end(), -1);
  EXPECT_THAT(message_of<DataError>([&] {
                pairs.encode(Text{text_of("a.txt", "ab\nab \xE9 b\n")}, [](const auto*, auto) {});
              }),
              HasSubstr("a.txt:2: is not UTF-8"));
}

TEST(BytePairs, ReadSpecialTokensAsTheyAreSpelt) {
  const PairFiles files({{"a", "b"}, {" ", "a"}});
  const TempFolder folder;
  const Vocabulary pairs = pairs_of(files.write(folder, "two"));
  const std::int64_t end = files.special(), ab = files.number("ab"), blank = ' ';
  EXPECT_EQ(pairs.encode("ab<|endoftext|>ab  <|endoftext|><|endoftext|>"),
            (Tokens{ab, end, ab, blank, blank, end, end}));
  EXPECT_EQ(pairs.encode("<|endoftext|").size(), 12U);
  EXPECT_EQ(pairs.decode(end, -1), "<|endoftext|>");
}

TEST(BytePairs, OfATokenizerJsonAreTheSame) {
  Random random(6);
  const PairFiles files(learnt(letters(random, 500), 20));
  const TempFolder folder;
  const Vocabulary plain = pairs_of(files.write(folder, "two"));
  const std::string text = letters(random, 80) + " <|endoftext|>" + letters(random, 9);
  for (const bool lists : {false, true}) {
    const std::string json = files.tokenizer_json(lists).dump(1);
    const Vocabulary one = pairs_of(folder.write("one/tokenizer.json", json));
    EXPECT_EQ(one.entries(), plain.entries());
    EXPECT_EQ(one.encode(text), plain.encode(text));
    EXPECT_EQ(pairs_of(folder / "one").encode(text), plain.encode(text)) << "by its folder";
  }
}

class BytePairFilesThatDoNotFit : public ::testing::Test {
 protected:
  std::string refusal(const std::string& vocab, const std::string& merges) const {
    folder_.write("bad/vocab.json", vocab);
    folder_.write("bad/merges.txt", merges);
    return message_of<DataError>([&] { pairs_of(folder_ / "bad"); });
  }
  std::string refusal(const nlohmann::json& tokenizer) const {
    const std::string path = folder_.write("one/tokenizer.json", tokenizer.dump(1));
    return message_of<DataError>([&] { pairs_of(path); });
  }
  /// The line of a text in which this stands.
  static std::string line_with(const std::string& text, const std::string& what) {
    const auto end = text.begin() + std::ptrdiff_t(text.find(what));
    return ":" + std::to_string(1 + std::count(text.begin(), end, '\n')) + ":";
  }

  const TempFolder folder_;
  const PairFiles files_{{{"a", "b"}, {"ab", "c"}}};
  const std::string vocab_ = files_.vocab_json(), merges_ = files_.merges_txt();
};

TEST_F(BytePairFilesThatDoNotFit, AreMergesOfAnotherModel) {
  EXPECT_THAT(refusal(vocab_, merges_ + "a x\n"),
              mentions("merges.txt:4:", "'ax'", "a token", "vocab.json;", "from one"));
  EXPECT_THAT(refusal(vocab_, "#version: 0.2\nab c\na b\n"),
              mentions("merges.txt:2:", "no merge", "'ab'"));
  EXPECT_THAT(refusal(vocab_, merges_ + "a b\n"), HasSubstr("merges.txt:4: this merge stands"));
  for (const char* line : {"a", "a b c", " b", "a ", "a  b"}) {
    EXPECT_THAT(refusal(vocab_, "a b\n" + std::string(line) + "\n"),
                HasSubstr("merges.txt:2: expected two tokens"))
        << line;
  }
  EXPECT_THAT(refusal(vocab_, "a b\n"),
              AllOf(HasSubstr("vocab.json" + line_with(vocab_, "\"abc\"")),
                    HasSubstr("makes the token 'abc'")));
}

TEST_F(BytePairFilesThatDoNotFit, AreVocabulariesWithHolesAndTokensTwice) {
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string vocab = vocab_;
    return vocab.replace(vocab.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal(changed("\"abc\": 257", "\"abc\": 256"), merges_),
              mentions("vocab.json" + line_with(vocab_, "\"abc\""), "number 256", "'ab'"));
  EXPECT_THAT(refusal(changed("\"abc\": 257", "\"abc\": 300"), merges_),
              AllOf(HasSubstr(line_with(vocab_, "\"abc\"")), HasSubstr("numbers are 0 to 258")));
  EXPECT_THAT(refusal(changed("\"abc\": 257", "\"ab\": 257"), merges_),
              AllOf(HasSubstr(line_with(vocab_, "\"abc\"")), HasSubstr("'ab' stands there twice")));
  EXPECT_THAT(refusal(changed("\"abc\": 257", "\"abc\": \"x\""), merges_),
              AllOf(HasSubstr(line_with(vocab_, "\"abc\"")), HasSubstr("the number of a token")));
  EXPECT_THAT(refusal(changed("\"q\"", "\"abq\""), merges_),
              mentions("vocab.json:", "token 'q'", "byte 113"));
  EXPECT_THAT(refusal(vocab_.substr(0, vocab_.find("\"abc\"")), merges_),
              AllOf(HasSubstr("vocab.json" + line_with(vocab_, "\"abc\"")),
                    HasSubstr("is not sound JSON")));
}

TEST_F(BytePairFilesThatDoNotFit, AreTokenizersOfOtherKinds) {
  const auto with = [&](const std::string& place, const nlohmann::json& value) {
    nlohmann::json changed = files_.tokenizer_json(false);
    changed[nlohmann::json::json_pointer(place)] = value;
    return refusal(changed);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("model.type is \"Unigram\""));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("it must be false"));
  EXPECT_THAT(with("/pre_tokenizer/type", "Whitespace"), HasSubstr("it must be \"ByteLevel\""));
  EXPECT_THAT(with("/pre_tokenizer/add_prefix_space", true), HasSubstr("add_prefix_space is true"));
  EXPECT_THAT(with("/normalizer", {{"type", "NFC"}}), HasSubstr("normalizer.type is \"NFC\""));
  EXPECT_THAT(with("/added_tokens/0/lstrip", true), HasSubstr("lstrip of an added token"));
  EXPECT_THAT(with("/added_tokens/0/content", ""), HasSubstr("needs `id` and `content`"));
  EXPECT_THAT(with("/model/merges/1", "a x"), mentions("tokenizer.json:", "'ax'", "a token"));
  EXPECT_THAT(with("/model/merges/1", {"a"}), mentions("''", "a token"));
  EXPECT_THAT(with("/model/merges/1", 7), HasSubstr("is not a merge"));
  nlohmann::json without = files_.tokenizer_json(false);
  without.erase("pre_tokenizer");
  EXPECT_THAT(refusal(without), mentions("pre_tokenizer", "ByteLevel"));
}

TEST_F(BytePairFilesThatDoNotFit, AreNamedWhereTheyAreMissing) {
  folder_.write("empty/other", "x");
  EXPECT_THAT(message_of<DataMissingError>([&] { pairs_of(folder_ / "empty"); }),
              mentions("empty:", "vocab.json and merges.txt", "tokenizer.json"));
}

/// Numbers as GPT-2's users know them.
TEST(BytePairs, OfGpt2AreThePublishedOnes) {
  const char* data = std::getenv("ATTNLAB_DATA");
  const std::string folder = std::string(data == nullptr ? "" : data) + "/gpt2";
  if (!std::filesystem::exists(folder + "/merges.txt")) GTEST_SKIP() << "needs files in " << folder;
  const Vocabulary gpt2 = pairs_of(folder);
  EXPECT_EQ(gpt2.size(), 50257);
  EXPECT_EQ(gpt2.encode("Hello, my dog is cute"), (Tokens{15496, 11, 616, 3290, 318, 13779}));
  EXPECT_EQ(gpt2.encode("<|endoftext|>"), (Tokens{50256}));
}

}  // namespace
}  // namespace attnlab::byte_pairs_test
