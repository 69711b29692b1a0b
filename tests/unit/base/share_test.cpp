// Shares of examples: what a share is, and that none is ever nothing.
#include "framework/base/share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "framework/base/error.h"
#include "tests/support/message_of.h"

namespace attnlab::share_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;

std::string refusal(double wanted, std::int64_t count) {
  try {
    wanted_of("validation", wanted, count);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "";
}

TEST(Shares, AreRounded) {
  EXPECT_EQ(share_of("validation", 0.25, 10), 3);
  EXPECT_EQ(share_of("validation", 0.24, 10), 2);
  EXPECT_EQ(share_of("validation", 0, 10), 0);
  EXPECT_EQ(wanted_of("validation", 0.5, 8), 4);
  EXPECT_EQ(wanted_of("validation", 3, 8), 3);
  EXPECT_EQ(wanted_of("validation", 8, 8), 8);
}

TEST(Shares, ThatAreNoExampleAreRefusedWithTheSmallestThatIsOne) {
  EXPECT_THAT(refusal(0.01, 8), mentions("validation:", "0.01 of 8", "0.0625", "0 for none"));
  EXPECT_THAT(refusal(0.1, 3), HasSubstr("0.167,"));
  EXPECT_THAT(refusal(0.1, 0), HasSubstr("nothing to take"));
  for (std::int64_t count = 1; count < 3000; ++count) {
    const std::string message = refusal(1e-9, count);
    const std::string before = "take at least ";
    const std::size_t at = message.find(before);
    ASSERT_NE(at, std::string::npos) << message;
    const double smallest = std::stod(message.substr(at + before.size()));
    EXPECT_EQ(share_of("validation", smallest, count), 1) << message;
  }
}

TEST(Shares, OrNumbersAreRefusedWhereThereAreTooFew) {
  EXPECT_THAT(refusal(9, 8), mentions("9 is more than", "8"));
  EXPECT_THAT(refusal(1.5, 8), HasSubstr("1.5 is neither"));
}

}  // namespace
}  // namespace attnlab::share_test
