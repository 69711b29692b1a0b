// Overrides of the command line.
#include "tests/unit/config/composed.h"

namespace attnlab::override_test {
namespace {

using namespace testing;

TEST(Override, ReadsItsValueAsYaml) {
  EXPECT_EQ(to_flow(parse_override("train.lr=1e-3")), "{train: {lr: 1e-3}}");
  EXPECT_EQ(to_flow(parse_override("a.b.c=[1, x]")), "{a: {b: {c: [1, x]}}}");
  EXPECT_EQ(to_flow(parse_override("a={b: 1}")), "{a: {b: 1}}");
  EXPECT_EQ(to_flow(parse_override("a='5'")), "{a: \"5\"}");
  EXPECT_EQ(to_flow(parse_override("a=x=y")), "{a: \"x=y\"}");
  EXPECT_TRUE(parse_override("a=").at("a").is_null());
  for (const char* nothing : {"a=null", "a=NULL", "a=~", "a= null", "a= "}) {
    EXPECT_TRUE(parse_override(nothing).at("a").is_null()) << nothing;
  }
}

TEST(Override, AppendsRemovesAndReplacesLikeAFile) {
  const std::vector<std::pair<std::string, std::string>> file = {
      {"main.yaml", "t: {l: [a, b], k: 1}\nattention: {use: standard, x: 1}\n"}};
  EXPECT_EQ(composed(file, {"t.l+=[c]", "t.l-=[a]", "t.k-=", "attention=quest", "t.n=2"}),
            "{t: {l: [b, c], n: 2}, attention: {use: quest}}");
}

TEST(Override, WinsOverFilesAndLaterOnesOverEarlier) {
  EXPECT_EQ(composed({{"main.yaml", "a: 1\nb: ${a}\n"}}, {"a=2", "a=3"}), "{a: 3, b: 3}");
}

TEST(Override, IsNotDroppedByALaterOne) {
  const std::vector<std::pair<std::string, std::string>> file = {
      {"main.yaml", "attention: {use: standard, x: 1}\n"}};
  EXPECT_EQ(composed(file, {"attention=quest", "attention.y=2"}),
            "{attention: {use: quest, y: 2}}");
  for (const char* other : {"attention=quest", "attention={use: quest}"}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  composed(file, {"attention.x=2", other});
                }),
                mentions(std::string("argument '") + other, "drops what argument 'attention.x=2'",
                         "behind"));
  }
}

TEST(Override, ExtendsFilesRelativeToTheWorkingFolder) {
  const TempFolder folder;
  folder.write("main.yaml", "m: {x: 1, y: 1}\n");
  const std::string other = folder.write("other.yaml", "x: 2\nz+: [3]\n");
  EXPECT_EQ(to_flow(compose_file(folder / "main.yaml", {"m.extends=" + other, "m.x=4"})),
            "{m: {x: 4, y: 1, z: [3]}}");
  EXPECT_THAT(
      message_of<ConfigError>([&] { compose_file(folder / "main.yaml", {"extends=gone"}); }),
      says({"'extends=gone'", "gone:", "cannot read", "No such file"}));
}

TEST(Override, RefersToOtherValuesAndLeavesValuesOpen) {
  EXPECT_EQ(composed({{"main.yaml", "a: 1\nm: {k: 2}\n"}}, {"b=${a}", "m.j=${.k}", "c=???"}),
            "{a: 1, m: {k: 2, j: 2}, b: 1, c: ???}");
}

TEST(Override, NamesTheArgumentThatIsWrong) {
  const auto refused = [](const std::string& argument) {
    return message_of<ConfigError>([&] { parse_override(argument); });
  };
  EXPECT_EQ(refused("foo"), "argument 'foo': expected key=value");
  EXPECT_EQ(refused("=1"), "argument '=1': expected key=value");
  EXPECT_THAT(refused("a..b=1"), says({"'a..b=1'", "empty part"}));
  EXPECT_THAT(refused(".a=1"), says({"'.a=1'", "empty part"}));
  EXPECT_THAT(refused("a=[1"), AllOf(StartsWith("argument 'a=[1'"), HasSubstr("not closed")));
  EXPECT_THAT(refused("a={b: 1, b: 2}"), mentions("'b'", "twice"));
}

TEST(Override, ReportsAllWrongArgumentsAtOnce) {
  EXPECT_THAT(refusal({{"main.yaml", "a: 1\n"}}, {"x", "a=2", "b-="}),
              says_lines({{"argument 'x': expected key=value"}, {"'b-='", "'b-'", "'b'"}}));
}

TEST(Override, RefusesAKeyOfAbsurdDepth) {
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  EXPECT_THAT(message_of<ConfigError>([&] { parse_override(deep + "=1"); }),
              HasSubstr("too many parts"));
}

}  // namespace
}  // namespace attnlab::override_test
