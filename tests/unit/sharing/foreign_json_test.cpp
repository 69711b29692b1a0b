// JSON of strangers: what is nested deeply is refused before it takes the stack.
#include "framework/sharing/foreign_json.h"

#include <gtest/gtest.h>

#include "framework/sharing/index.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing {
namespace {

using sharing::BundleError;

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

TEST(ForeignJson, IsNestedNoDeeperThanOurFormats) {
  EXPECT_EQ(sharing::parse_json("{\"a\": [1, {\"b\": null}]}").at("a").size(), 2U);
  EXPECT_NO_THROW(sharing::parse_json(nested(30)));
  EXPECT_THROW(sharing::parse_json(nested(40)), BundleError);
  EXPECT_THROW(sharing::parse_json(nested(1'000'000)), BundleError);
  EXPECT_THROW(sharing::parse_json(std::string(1'000'000, '[')), BundleError);
  EXPECT_THROW(sharing::parse_json("{"), nlohmann::json::exception);
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
}  // namespace attnlab::testing
