// What errors say survives as a C string.
#include "framework/base/error.h"

#include <gtest/gtest.h>

namespace attnlab::error_test {
namespace {

TEST(Error, SaysWhatStandsBehindAZeroByte) {
  const std::string word("a\0b", 3), told = "a.txt: 'a\\x00b' is not a number";
  EXPECT_STREQ(DataError("a.txt: '" + word + "' is not a number").what(), told.c_str());
  EXPECT_STREQ(ConfigError(std::vector<std::string>{word, word}).what(), "a\\x00b\na\\x00b");
  EXPECT_STREQ(ConfigError(Place{word, 2}, "x").what(), "a\\x00b:2: x");
  EXPECT_STREQ(OptionError("root", word).what(), "root: a\\x00b");
}

}  // namespace
}  // namespace attnlab::error_test
