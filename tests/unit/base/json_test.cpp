#include "framework/base/json.h"

#include <gmock/gmock.h>

#include <vector>

namespace attnlab {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::int64_t whole(const char* text) { return json::parse(text).get<std::int64_t>(); }

TEST(Json, WholeNumbersAreReadAsTheyStand) {
  EXPECT_EQ(whole("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(whole("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole("3.0"), 3);
  EXPECT_EQ(whole("-2e3"), -2000);
  EXPECT_EQ(json::parse("255").get<std::uint8_t>(), 255);
  EXPECT_EQ(json::parse("18446744073709551615").get<std::uint64_t>(), 18446744073709551615U);
  EXPECT_EQ(json::parse(R"({"step": 4})").value("step", std::int64_t{0}), 4);
  EXPECT_EQ(json::parse(R"({})").value("step", std::int64_t{7}), 7);
  EXPECT_EQ(json::parse("[1, 2]").get<std::vector<int>>(), (std::vector<int>{1, 2}));
}

TEST(Json, WhatIsNoWholeNumberOrDoesNotFitIsRefused) {
  const auto refused = [](const auto& read, const char* why) {
    EXPECT_THAT(read, ThrowsMessage<json::type_error>(HasSubstr(why)));
  };
  refused([] { whole("46666666666666666666"); }, "64 bits, but is 4.6");
  refused([] { whole("1e30"); }, "whole number of 64 bits");
  refused([] { whole("-1e30"); }, "whole number of 64 bits");
  refused([] { whole("9223372036854775808"); }, "whole number of 64 bits");
  refused([] { whole("2.5"); }, "64 bits, but is 2.5");
  refused([] { whole("true"); }, "number, but is boolean");
  refused([] { whole("\"3\""); }, "number, but is string");
  refused([] { static_cast<void>(json::parse("256").get<std::uint8_t>()); }, "8 bits, but is 256");
  refused([] { static_cast<void>(json::parse("-1").get<std::size_t>()); }, "but is -1");
  refused([] { static_cast<void>(json::parse("[1, 1e20]").get<std::vector<int>>()); },
          "whole number of 32 bits");
  refused(
      [] {
        const std::int64_t step = json::parse("1e20");
        static_cast<void>(step);
      },
      "whole number");
}

TEST(Json, WholeNumbersAreWrittenAsBefore) {
  EXPECT_EQ(json({{"a", 1}, {"b", std::uint64_t{18446744073709551615U}}, {"c", -3L}}).dump(),
            R"({"a":1,"b":18446744073709551615,"c":-3})");
  EXPECT_EQ(json(true).dump(), "true");
}

}  // namespace
}  // namespace attnlab
