// JSON from files: deep and long ones.
#include "framework/base/parsed_json.h"
#include "tests/support/deadline.h"
#include "tests/support/encodings.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

namespace attnlab::parsed_json_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::TempFolder;
using ::testing::ThrowsMessage;

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(ParsedJson, IsWhatTheTextSays) {
  EXPECT_EQ(parsed_json(R"({"a": [1, null, {"b": "c"}], "d": -2.5})"),
            json({{"a", {1, nullptr, {{"b", "c"}}}}, {"d", -2.5}}));
  EXPECT_EQ(parsed_json(nested(100)).size(), 1U);
}

TEST(ParsedJson, MayHaveAByteOrderMarkOfUtf8) {
  EXPECT_EQ(parsed_json(testing::marked("[1]")), json({1}));
  EXPECT_THAT([] { parsed_json(testing::utf16("[1]")); },
              ThrowsMessage<json::other_error>(mentions("UTF-16", "convert the file")));
}

TEST(ParsedJson, IsNestedNoDeeperThanAHundredLevels) {
  for (const std::string& text : {nested(101), nested(1'000'000), std::string(1'000'000, '['),
                                  "{\"a\":" + nested(100) + "}"}) {
    EXPECT_THAT([&] { parsed_json(text); },
                ThrowsMessage<json::other_error>(HasSubstr("nested more than 100 levels deep")));
  }
}

TEST(ParsedJson, OfAFileIsOfARecordsSize) {
  const TempFolder folder;
  const std::string path = folder.write("a.json", R"({"a": 2})");
  EXPECT_EQ(parsed_json_file(path).at("a"), 2);
  std::filesystem::resize_file(path, std::uintmax_t{100} << 30);
  EXPECT_THAT([&] { parsed_json_file(path); },
              ThrowsMessage<FileError>(mentions("a.json:", "64 MiB")));
}

TEST(ParsedJson, SaysWhereATextIsNone) {
  EXPECT_THAT([] { parsed_json("{\"a\": }"); },
              ThrowsMessage<json::parse_error>(HasSubstr("column 7")));
  EXPECT_THAT([] { parsed_json("[1e999]"); },
              ThrowsMessage<json::out_of_range>(HasSubstr("1e999")));
}

// With a callback the parser looks at all of a list behind each map in it.
TEST(ParsedJson, MayHoldAnyNumberOfMaps) {
  const testing::Deadline deadline;  // for what takes a time that grows with the square
  constexpr std::size_t kMaps = 1'000'000;
  std::string text = "[{}";
  for (std::size_t i = 1; i < kMaps; ++i) text += ",{}";
  EXPECT_EQ(parsed_json(text + "]").size(), kMaps);
}

}  // namespace
}  // namespace attnlab::parsed_json_test
