#include "framework/base/foreign_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attnlab::foreign_text_test {
namespace {

TEST(ForeignText, MovesNoCursorAndTurnsNothing) {
  EXPECT_EQ(printable("a\x1b[31mb\rc\x7f\n"), "a\\x1b[31mb\\x0dc\\x7f\n");
  EXPECT_EQ(printable("\xff"
                      "caf\xc3\xa9"),
            "\\xffcaf\xc3\xa9")
      << "UTF-8 stays";
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b") << "the C1 form of ESC [";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "fdp.exe"),
            "\\u202efdp.exe");
}

TEST(ForeignText, StandsOnOneLineOfASaneLength) {
  EXPECT_EQ(one_line("  two \t words\n\nand\x01more\n"), "two words and\\x01more");
  EXPECT_EQ(one_line(std::string(10'000'000, 'x')), std::string(500, 'x') + "...");
  EXPECT_EQ(one_line("a\xc3\xa9z", 2), "a...") << "no half of a character";
  EXPECT_EQ(one_line("fits", 4), "fits");
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
