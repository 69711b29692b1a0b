#include "framework/base/unicode.h"

#include "tests/support/compositions.h"

namespace attnlab::unicode_test {
namespace {

using namespace testing;

TEST(Unicode, KnowsWhatIsUtf8) {
  for (const char* text : {"", "plain", "±", "√D", "😀", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(valid_utf8(text), text);
  }
  // A lone byte, cut off, overlong, a surrogate, beyond the last code point.
  for (const char* text :
       {"\x80", "\xE2\x88", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(Unicode, ReplacesBytesThatAreNotText) {
  EXPECT_EQ(valid_utf8("a\xFF"
                       "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(valid_utf8("\xE2\x88"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "one for each byte";
}

TEST(Unicode, CountsCodePointsAsColumns) {
  EXPECT_EQ(display_width("0.91 ± 0.02"), 11U);
  EXPECT_EQ(display_prefix("√D√D", 3), "√D√");
  EXPECT_EQ(display_prefix("√D", 9), "√D");
  EXPECT_EQ(display_prefix("√D", 0), "");
}

}  // namespace
}  // namespace attnlab::unicode_test
