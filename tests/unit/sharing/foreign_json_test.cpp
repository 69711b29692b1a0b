// JSON of strangers: what is nested deeply is refused before it takes the stack.
#include "framework/sharing/foreign_json.h"

#include <gtest/gtest.h>

#include "framework/sharing/index.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::foreign_json_test {
namespace {

using sharing::BundleError;

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

TEST(ForeignJson, IsNestedNoDeeperThanOurFormats) {
  EXPECT_EQ(sharing::parse_json("{\"a\": [1, {\"b\": null}]}").at("a").size(), 2U);
  EXPECT_NO_THROW(sharing::parse_json(nested(32)));
  EXPECT_THROW(sharing::parse_json(nested(33)), BundleError);
  EXPECT_THROW(sharing::parse_json(nested(40)), BundleError);
  EXPECT_THROW(sharing::parse_json(nested(1'000'000)), BundleError);
  EXPECT_THROW(sharing::parse_json(std::string(1'000'000, '[')), BundleError);
  EXPECT_THROW(sharing::parse_json("{"), nlohmann::json::exception);
}

TEST(ForeignJson, IsNoLargerThanWhatItSays) {
  const std::string spaces(100, ' ');
  EXPECT_NO_THROW(sharing::parse_json("[]" + spaces, 102));
  EXPECT_THROW(sharing::parse_json("[]" + spaces, 101), BundleError);
  EXPECT_THROW(sharing::parse_json("[]" + std::string(sharing::kLargestJson, ' ')), BundleError);
  // A few bytes each, which become many times as many.
  std::string many = "[[]";
  for (int i = 0; i < 2'000'000; ++i) many += ",[]";
  EXPECT_THROW(sharing::parse_json(many + "]", many.size() + 1), BundleError);
}

TEST(ForeignJson, OfABundleIsRefusedWhereItIsTooLarge) {
  const std::string list = write_contents(made_contents(), {});
  EXPECT_NO_THROW(sharing::read_contents(list, {}));
  const std::string padded = list + std::string(sharing::kLargestContentList, ' ');
  EXPECT_THROW(sharing::read_contents(padded, {}), BundleError);
  // In a few kilobytes of a file, as anybody can make it.
  const std::string bomb = sharing::sealed(sharing::write_archive({{"bundle.json", padded}}));
  EXPECT_LT(bomb.size(), padded.size() / 1000);
  EXPECT_THROW(sharing::parse_bundle(bomb), BundleError);
  EXPECT_THROW(sharing::parse_index(std::string(sharing::kLargestIndex + 1, ' ')), BundleError);
}

TEST(ForeignJson, OfAHundredThousandFilesIsRead) {
  std::vector<sharing::ArchiveFile> files;
  for (int i = 0; i < 100'000; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 6 - number.size(), '0');
    files.push_back({"runs/" + std::string(150, 'x') + number + "/config.yaml", "", true});
  }
  const std::string list = write_contents(made_contents(), files);
  EXPECT_NO_THROW(sharing::read_contents(list, files));
}

TEST(ForeignJson, InABundleOrAnIndexIsRefused) {
  auto contents = nlohmann::json::parse(write_contents(made_contents(), {}));
  std::string text = contents.dump();
  EXPECT_NO_THROW(sharing::read_contents(text, {}));
  text.insert(1, "\"x\":" + nested(1'000'000) + ",");
  EXPECT_THROW(sharing::read_contents(text, {}), BundleError);
  EXPECT_THROW(sharing::parse_index("{\"format\":" + nested(1'000'000) + "}"), BundleError);
}

}  // namespace
}  // namespace attnlab::testing::foreign_json_test
