// A publication's numbers and their differences.
#include "framework/runs/published.h"

#include <gtest/gtest.h>

namespace attnlab::published_test {
namespace {

TEST(PublishedNumbers, SubtractTheBaselineWithTheDecimalsThatArePrinted) {
  PublishedNumbers table;
  table.values["a"] = {
      {"standard", "42.00"}, {"quest", "49.18"}, {"qnorm", "41.1"}, {"bare", "43"}};
  table.values["b"] = {{"quest", "1"}};
  EXPECT_EQ(table.difference("a", "quest", "standard"), "+7.18");
  EXPECT_EQ(table.difference("a", "qnorm", "standard"), "-0.90");
  EXPECT_EQ(table.difference("a", "bare", "qnorm"), "+1.9");
  EXPECT_EQ(table.difference("a", "standard", "standard"), "+0.00");
  EXPECT_EQ(table.difference("a", "linear", "standard"), "");
  EXPECT_EQ(table.difference("b", "quest", "standard"), "");
  EXPECT_EQ(table.difference("c", "quest", "standard"), "");
}

}  // namespace
}  // namespace attnlab::published_test
