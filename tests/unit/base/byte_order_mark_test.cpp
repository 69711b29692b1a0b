// Marks in front of a text: that of UTF-8 is passed over, others are named.
#include "framework/base/byte_order_mark.h"

#include <gtest/gtest.h>

#include "tests/support/encodings.h"
#include "tests/support/message_of.h"

namespace attnlab::byte_order_mark_test {
namespace {

using attnlab::testing::says;

using namespace std::string_view_literals;

TEST(ByteOrderMark, OfUtf8IsNoPartOfTheText) {
  EXPECT_EQ(without_mark(testing::marked("a")), "a");
  EXPECT_EQ(without_mark("\xef\xbb\xbf"), "");
  EXPECT_EQ(without_mark(testing::marked(testing::marked("a"))), testing::marked("a"));
  for (const std::string_view text : {""sv, "\xef\xbb"sv, "a\xef\xbb\xbf"sv}) {
    EXPECT_EQ(without_mark(text), text);
  }
}

TEST(ByteOrderMark, TellsOtherEncodings) {
  EXPECT_EQ(marked_encoding(testing::utf16("a")), "UTF-16");
  EXPECT_EQ(marked_encoding("\xff\xfe"sv), "UTF-16");
  EXPECT_EQ(marked_encoding("\xfe\xff\0a"sv), "UTF-16");
  EXPECT_EQ(marked_encoding("\xff\xfe\0\0a\0\0\0"sv), "UTF-32");
  EXPECT_EQ(marked_encoding("\0\0\xfe\xff\0\0\0a"sv), "UTF-32");
  for (const std::string_view text : {""sv, "a"sv, "\xff"sv, "\0\0"sv, "\xef\xbb\xbfo"sv}) {
    EXPECT_EQ(wrong_encoding(text), "");
  }
  EXPECT_THAT(wrong_encoding(testing::utf16("a")), says({"UTF-16", "iconv -t UTF-8 -f UTF-16"}));
}

}  // namespace
}  // namespace attnlab::byte_order_mark_test
