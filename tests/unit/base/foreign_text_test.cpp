#include "framework/base/foreign_text.h"
#include "framework/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attnlab::foreign_text_test {
namespace {

TEST(ForeignText, MovesNoCursorAndTurnsNothing) {
  EXPECT_EQ(printable("a\x1b[31mb\rc\x7f\n"), "a\\x1b[31mb\\x0dc\\u007f\n");
  EXPECT_EQ(printable("\xff"
                      "caf\xc3\xa9"),
            "\\xffcaf\xc3\xa9")
      << "UTF-8 stays";
  EXPECT_EQ(printable("\xc2\x9b"), "\\u009b") << "the C1 form of ESC [";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "fdp.exe"),
            "\\u202efdp.exe");
  EXPECT_EQ(printable("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x8d"),
            "\\u061c\\u200e\\u200f\xe2\x80\x8d")
      << "marks of direction; joiners are letters' own";
}

TEST(ForeignText, OfJsonMeansWhatItMeant) {
  const nlohmann::json value = {{"name", "a\x7f\xc2\x9b\xe2\x80\xae\x1b\n"}};
  const std::string text = printable(value.dump(2));
  EXPECT_EQ(nlohmann::json::parse(text), value) << text;
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("\xe2\x80\xae")));
}

TEST(ForeignText, StandsOnOneLineOfASaneLength) {
  EXPECT_EQ(one_line("  two \t words\n\nand\x01more\n"), "two words and\\x01more");
  EXPECT_EQ(one_line(std::string(10'000'000, 'x')), std::string(500, 'x') + "...");
  EXPECT_EQ(one_line("a\xc3\xa9z", 2), "a...") << "no half of a character";
  EXPECT_EQ(one_line("fits", 4), "fits");
  EXPECT_EQ(one_line("fits \n ", 4), "fits");
}

TEST(ForeignText, IsCutBehindWordsNotBehindBlanks) {
  EXPECT_EQ(one_line(std::string(2000, ' ') + "word", 10), "word");
  EXPECT_EQ(one_line("a" + std::string(2000, '\n') + "b", 10), "a b");
  EXPECT_EQ(one_line("a" + std::string(2000, ' ') + "bcdef", 3), "a b...");
  EXPECT_EQ(one_line(std::string(2000, ' '), 10), "");
  EXPECT_EQ(one_line("ab\xc3\xa9", 3), "ab...") << "a character that is cut is not a broken one";
}

TEST(ForeignText, OfAFileIsQuotedWithItsZeroBytes) {
  EXPECT_EQ(excerpt({"a\0b\xff\n", 5}), "'a\\x00b\\xff'");
  EXPECT_EQ(excerpt(""), "''");
  EXPECT_EQ(excerpt(std::string(10'000'000, 'x')), "'" + std::string(100, 'x') + "...'");
}

TEST(ForeignText, OfMessagesKeepsItsLinesAndASaneSize) {
  EXPECT_EQ(message_text("one\n\n  two\x1b[2J\n"), "one\n\n  two\\x1b[2J");
  EXPECT_EQ(message_text("bad\nframe #0: f (0x1 in lib)\n"), "bad");
  EXPECT_EQ(message_text("a\n" + std::string(10'000'000, 'x') + "\nb"),
            "a\n  " + std::string(kLongestMessageLine, 'x') + "...\n  b");
  EXPECT_EQ(message_text("a file\nattnlab run: done\n once\n    deep"),
            "a file\n  attnlab run: done\n   once\n    deep")
      << "no line but the first stands where the program's own do";
  std::string many;
  for (std::size_t i = 0; i < kMostMessageLines + 3; ++i) many += "line\n";
  const std::string text = message_text(many);
  EXPECT_THAT(text, ::testing::EndsWith("line\n  ... and 3 more lines"));
  EXPECT_EQ(message_text(""), "");
}

TEST(ForeignText, HasNoBacktraces) {
  EXPECT_EQ(without_backtrace("bad shape\nException raised from f at x.cpp:1 (most recent call "
                              "first):\nframe #0: f (0x1 in lib)\nframe #1: g\n\n; remedy"),
            "bad shape\n\n; remedy");
  EXPECT_EQ(without_backtrace("one\ntwo"), "one\ntwo");
  EXPECT_EQ(without_backtrace(""), "");
}

}  // namespace
}  // namespace attnlab::foreign_text_test
