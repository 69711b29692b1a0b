// Bytes as letters: the vectors of RFC 4648, every byte there and back, and texts that are none.
#include "framework/base/base64.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace attnlab::base64_test {
namespace {

TEST(Base64, IsThatOfTheStandard) {
  const std::string words[][2] = {{"", ""},
                                  {"f", "Zg=="},
                                  {"fo", "Zm8="},
                                  {"foo", "Zm9v"},
                                  {"foob", "Zm9vYg=="},
                                  {"fooba", "Zm9vYmE="},
                                  {"foobar", "Zm9vYmFy"},
                                  {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : words) {
    EXPECT_EQ(base64_text(bytes), text);
    EXPECT_EQ(base64_bytes(text), bytes);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7 % 256);
  for (std::size_t size = 990; size < 1000; ++size) {
    EXPECT_EQ(base64_bytes(base64_text(bytes.substr(0, size))), bytes.substr(0, size));
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zm9v=m9v", "Zm9\n", "Zm 9", "Zm9vZg=a"}) {
    EXPECT_THROW(base64_bytes(text), DataError) << text;
  }
}

}  // namespace
}  // namespace attnlab::base64_test
