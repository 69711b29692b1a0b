// Vocabularies: which tokens a text has, and back.
#include "framework/data/text/vocabulary.h"

#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/temp_folder.h"

namespace attnlab::vocabulary_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

Text text(const std::string& bytes) { return {text_of("a.txt", bytes)}; }

std::vector<std::int64_t> tokens_of(const Vocabulary& vocabulary, const Text& text) {
  std::vector<std::int64_t> all;
  vocabulary.encode(text, [&](const std::int32_t* tokens, std::size_t count) {
    all.insert(all.end(), tokens, tokens + count);
  });
  return all;
}

std::string spelt(const Vocabulary& vocabulary, const std::vector<std::int64_t>& tokens) {
  std::string out;
  std::int64_t before = -1;
  for (const std::int64_t token : tokens) {
    out += vocabulary.decode(token, before);
    before = token;
  }
  return out;
}

using Words = std::vector<std::string>;
using Tokens = std::vector<std::int64_t>;

TEST(Vocabulary, HasTheMostFrequentWordsFirstAndEqualOnesAsTheyCame) {
  const auto learnt =
      Vocabulary::learn(text("b a c a\n\nc b a d\n"), TextUnit::word, VocabularyRules{});
  EXPECT_EQ(learnt.entries(), (Words{"<eos>", "a", "b", "c", "d", "<unk>"}));
  EXPECT_EQ(learnt.line_end(), 0);
  EXPECT_EQ(tokens_of(learnt, text("d x\n\na")), (Tokens{4, 5, 0, 0, 1, 0}));
}

TEST(Vocabulary, KeepsTheUnknownWordWhereTheTextHasIt) {
  const auto learnt =
      Vocabulary::learn(text("a <unk> <unk> b\n"), TextUnit::word, VocabularyRules{});
  EXPECT_EQ(learnt.entries(), (Words{"<eos>", "<unk>", "a", "b"}));
  EXPECT_EQ(tokens_of(learnt, text("z\n")), (Tokens{1, 0}));
}

TEST(Vocabulary, TakesALineEndThatIsSpeltForOne) {
  const auto learnt = Vocabulary::learn(text("a <eos> a\n"), TextUnit::word, VocabularyRules{});
  EXPECT_EQ(learnt.entries(), (Words{"<eos>", "a", "<unk>"}));
  EXPECT_EQ(tokens_of(learnt, text("a <eos> a\n")), (Tokens{1, 0, 1, 0}));
}

TEST(Vocabulary, LeavesOutRareWordsAndThoseBeyondItsSize) {
  const Text train = text("a a a b b c\n");
  EXPECT_EQ(Vocabulary::learn(train, TextUnit::word, {.min_count = 2}).entries(),
            (Words{"<eos>", "a", "b", "<unk>"}));
  EXPECT_EQ(Vocabulary::learn(train, TextUnit::word, {.max_size = 3}).entries(),
            (Words{"<eos>", "a", "<unk>"}));
}

TEST(Vocabulary, SplitsWordsWherePythonDoes) {
  // U+0085, U+00A0, U+1680, U+2003, U+2028, U+202F, U+205F, U+3000; U+200B is not white space.
  const Text train = text(
      "a\xC2\x85"
      "b\xC2\xA0"
      "c\xE1\x9A\x80"
      "d\xE2\x80\x83"
      "e\xE2\x80\xA8"
      "f\xE2\x80\xAF"
      "g\xE2\x81\x9F"
      "h\xE3\x80\x80"
      "i\xE2\x80\x8B"
      "j\t\v\f\r \x1C k\x1F\n");
  EXPECT_EQ(
      Vocabulary::learn(train, TextUnit::word, VocabularyRules{}).entries(),
      (Words{"<eos>", "a", "b", "c", "d", "e", "f", "g", "h", "i\xE2\x80\x8Bj", "k", "<unk>"}));
}

TEST(Vocabulary, SplitsMarksOnRequest) {
  const Text train = text("\"Well,\" he said: it's (a) dog-day.\n");
  EXPECT_EQ(Vocabulary::learn(train, TextUnit::word, {.split_marks = true}).entries(),
            (Words{"<eos>", "\"", "Well", ",", "he", "said", ":", "it's", "(", "a", ")", "dog-day",
                   ".", "<unk>"}));
}

TEST(Vocabulary, HasTheCharactersOfTheTextSorted) {
  const auto learnt = Vocabulary::learn(text("zß\n€a𝄞z"), TextUnit::character, VocabularyRules{});
  EXPECT_EQ(learnt.entries(), (Words{"\n", "a", "z", "ß", "€", "𝄞"}));
  EXPECT_EQ(learnt.line_end(), 0);
  EXPECT_EQ(tokens_of(learnt, text("𝄞az")), (Tokens{5, 1, 2}));
  EXPECT_THAT(message_of<DataError>([&] { tokens_of(learnt, text("aa\nzä")); }),
              mentions("a.txt:2:", "'ä'", "training text"));
}

TEST(Vocabulary, TakesRareCharactersTogetherOnRequest) {
  const auto learnt = Vocabulary::learn(text("aabbc"), TextUnit::character, {.min_count = 2});
  EXPECT_EQ(learnt.entries(), (Words{"a", "b", "<unk>"}));
  EXPECT_EQ(tokens_of(learnt, text("cxa")), (Tokens{2, 2, 0}));
  EXPECT_EQ(Vocabulary::learn(text("aabbc"), TextUnit::character, {.max_size = 2}).entries(),
            (Words{"a", "<unk>"}));
}

TEST(Vocabulary, HasEveryByte) {
  const auto bytes = Vocabulary::learn(text("x"), TextUnit::byte, VocabularyRules{});
  EXPECT_EQ(bytes.size(), 256);
  EXPECT_EQ(tokens_of(bytes, text(std::string("\xFF\x00\n", 3))), (Tokens{255, 0, 10}));
}

TEST(Vocabulary, SpellsWhatItEncodes) {
  const std::string words = "a b\n\nb a\na", any = "zß\n€a𝄞z\n";
  const auto by_word = Vocabulary::learn(text(words), TextUnit::word, VocabularyRules{});
  EXPECT_EQ(spelt(by_word, by_word.encode(words)), words);
  for (const TextUnit unit : {TextUnit::character, TextUnit::byte}) {
    const auto learnt = Vocabulary::learn(text(any), unit, VocabularyRules{});
    EXPECT_EQ(spelt(learnt, learnt.encode(any)), any);
  }
  EXPECT_EQ(by_word.encode("a  nobody"), (Tokens{1, 3}));
  EXPECT_THROW(by_word.decode(4, -1), DataError);
}

TEST(Vocabulary, NamesTheLineThatIsNotUtf8) {
  for (const TextUnit unit : {TextUnit::word, TextUnit::character}) {
    const auto learn = [&] { Vocabulary::learn(text("a\nb\nc \xE9t\n"), unit, VocabularyRules{}); };
    EXPECT_THAT(message_of<DataError>(learn), HasSubstr("a.txt:3: is not UTF-8"));
  }
}

TEST(Vocabulary, OfAFileMayHaveAByteOrderMark) {
  const TempFolder folder;
  const auto read = [&](const std::string& bytes) {
    return Vocabulary::read(folder.write("v", bytes), false);
  };
  const std::string words = "<eos>\nthe\n<unk>\n";
  for (const std::string& bytes :
       {testing::marked(words), testing::gzipped(testing::marked(words))}) {
    EXPECT_EQ(read(bytes).entries(), (Words{"<eos>", "the", "<unk>"}));
  }
  EXPECT_THAT(message_of<DataError>([&] { read(testing::utf16(words)); }),
              mentions("v:", "UTF-16", "convert the file (iconv"));
}

TEST(Vocabulary, QuotesWhatItRefusesOnOneLine) {
  const TempFolder folder;
  EXPECT_THAT(message_of<DataError>(
                  [&] { Vocabulary::read(folder.write("v", std::string("a \0\n", 4)), false); }),
              mentions("v:1:", "one word", "'a \\x00'"));
  EXPECT_THAT(message_of<DataError>([] {
                Vocabulary::learn(text("a"), TextUnit::character, VocabularyRules{})
                    .encode(text(std::string(1, '\0')), [](const std::int32_t*, std::size_t) {});
              }),
              mentions("'\\x00'", "training text"));
}

TEST(Vocabulary, IsReadFromAFile) {
  const TempFolder folder;
  const auto read = [&](const std::string& bytes) {
    return Vocabulary::read(folder.write("v", bytes), false);
  };
  EXPECT_EQ(read("the\n<unk>\n<eos>\n").entries(), (Words{"the", "<unk>", "<eos>"}));
  EXPECT_EQ(tokens_of(read("the\n<unk>\n<eos>\n"), text("the a\n")), (Tokens{0, 1, 2}));
  EXPECT_THAT(message_of<DataError>([&] { read("<eos>\nthe\nthe\n"); }),
              mentions("v:3:", "'the'", "line 2"));
  EXPECT_THAT(message_of<DataError>([&] { read("the\n<eos>\n"); }), HasSubstr("lacks '<unk>'"));
  EXPECT_THAT(message_of<DataError>([&] { read("the\n\n<eos>\n"); }),
              HasSubstr("v:2: expected one word"));
}

TEST(CutText, KeepsSharesInOrderWithoutLossOrRepetition) {
  const std::string bytes = "one\ntwo two\nthree\nfour €\nfive\n";
  for (const TextUnit unit : {TextUnit::word, TextUnit::character, TextUnit::byte}) {
    const std::vector<Text> parts = cut_text(text(bytes), unit, {0.5, 0.3, 0.2});
    std::string all;
    for (const Text& part : parts) {
      for (const TextPiece& piece : part) all += piece.text;
    }
    EXPECT_EQ(all, bytes);
  }
  const std::vector<Text> lines = cut_text(text(bytes), TextUnit::word, {0.2, 0.5});
  EXPECT_EQ(lines[0][0].text, "one\ntwo two\n");  // a fifth ends within the second line
  EXPECT_EQ(lines[1][0].text, "three\nfour €\n");
  EXPECT_EQ(lines[1][0].place(6), "a.txt:4");
  EXPECT_EQ(cut_text(text("ä€𝄞xyz"), TextUnit::character, {0.5, 0.5})[0][0].text, "ä€𝄞");
}

TEST(CutText, CutsAcrossFiles) {
  const Text files = {text_of("a", "12345"), text_of("b", "678"), text_of("c", "90")};
  const std::vector<Text> parts = cut_text(files, TextUnit::byte, {0.7, 0.1, 0.2});
  ASSERT_EQ(parts[0].size(), 2U);
  EXPECT_EQ(parts[0][1].text, "67");
  EXPECT_EQ(parts[1][0].text, "8");
  EXPECT_EQ(parts[2][0].text, "90");
  EXPECT_THAT(message_of<DataError>([&] {
                cut_text(files, TextUnit::byte, {0.9, 0.01});
              }),
              mentions("0.01", "empty"));
}

TEST(CutText, EndsWherePublishedSplitsDo) {
  const Text text = {text_of("enwik8", std::string(1000000, 'x'))};
  const std::vector<Text> parts = cut_text(text, TextUnit::byte, {0.9, 0.05, 0.05});
  EXPECT_EQ(size_of(parts[0]), 900000U);
  EXPECT_EQ(size_of(parts[1]), 50000U);
  EXPECT_EQ(size_of(parts[2]), 50000U);
}

}  // namespace
}  // namespace attnlab::vocabulary_test
