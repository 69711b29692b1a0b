#include "framework/runs/run_config.h"

#include <fmt/format.h>

#include "framework/config/frozen.h"
#include "tests/support/compositions.h"

namespace attnlab::run_config_test {
namespace {

using namespace testing;

const std::string kText =
    "schema: 1\nname: small\nmodel:\n  use: vit\n  note: \"a: b\"\n  rates: [0.5, 1e-3]\n"
    "attention:\n  use: quest\n  eps: 1e-12\nseeds: [0]\nstages:\n  - {epochs: 1}\n"
    "title: \"$${HOME} is not read\"\nnothing: null\nempty: {}\n";

std::string with_seed(int seed) {
  std::string text = kText;
  return text.replace(text.find("[0]"), 3, fmt::format("[{}]", seed));
}

TEST(ConfigPoolTest, ReadsWhatTheParserReads) {
  ConfigPool pool;
  const auto config = pool.read(kText, "config.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(to_yaml(config->tree()), kText);
  EXPECT_EQ(to_yaml(config->tree()), to_yaml(frozen_tree(kText, "config.yaml")));
  EXPECT_EQ(config->at("title").text(), "${HOME} is not read");
  EXPECT_TRUE(config->at("nothing").is_null());
  EXPECT_EQ(config->find("gone"), nullptr);
  EXPECT_THAT(message_of<ConfigError>([&] { config->at("gone"); }), HasSubstr("'gone' is missing"));
}

TEST(ConfigPoolTest, KeepsWhatRunsHaveInCommonOnce) {
  ConfigPool pool;
  constexpr int kRuns = 500;
  const auto first = pool.read(with_seed(0), "0/config.yaml");
  ASSERT_TRUE(first);
  const std::size_t sections = pool.size();
  for (int seed = 1; seed < kRuns; ++seed) {
    const auto config = pool.read(with_seed(seed), "n/config.yaml");
    ASSERT_TRUE(config);
    EXPECT_EQ(config->find("model"), first->find("model"));
    EXPECT_EQ(config->at("seeds").items().at(0).as_int(), seed);
  }
  EXPECT_EQ(pool.size(), sections + kRuns - 1) << "of each further run its seed is new, alone";
}

TEST(ConfigPoolTest, LeavesEveryOtherFormToTheParser) {
  for (const std::string text :
       {"", "a: 1", "a: 1 # one\n", "a: {b: 1}\n", "a: 1\na: 2\n", "a: &x 1\nb: *x\n", "a: 'b'\n",
        "a: 1\n---\nb: 2\n", "- a\n", "a:\n    b: 1\n", "extends: other.yaml\n", "a: ${b}\nb: 1\n",
        "a: \"b\n",
        "\xEF\xBB\xBF"
        "a: 1\n",
        "a: 1\n\n", "a: \t1\n", "# a\nb: 1\n"}) {
    ConfigPool pool;
    EXPECT_FALSE(pool.read(text, "config.yaml")) << text;
  }
}

TEST(ConfigPoolTest, TakesBackASectionByItsText) {
  ConfigPool first, second;
  const auto config = first.read(kText, "config.yaml");
  ASSERT_TRUE(config);
  RunConfig::Sections sections;
  for (const auto& section : config->sections())
    sections.push_back(second.section(section->text()));
  const RunConfig again(sections);
  EXPECT_EQ(again.at("model").at("rates").items().size(), 2U);
  EXPECT_EQ(to_yaml(again.tree()), kText);
  EXPECT_EQ(second.section("name: small\n"), sections.at(1));
}

TEST(RunConfigTest, IsMadeOfATreeAndChangedByItself) {
  const RunConfig before = parse_yaml("a: {b: 1}\nc: 2\n", "f.yaml");
  RunConfig after = before;
  after.set("c", Node::scalar("3"));
  after.set("d", Node::scalar("4"));
  EXPECT_EQ(to_yaml(after.tree()), "a:\n  b: 1\nc: 3\nd: 4\n");
  EXPECT_EQ(before.at("c").text(), "2");
  EXPECT_FALSE(RunConfig().is_map());
  EXPECT_TRUE(RunConfig().tree().is_null());
  EXPECT_TRUE(RunConfig(Node::map()).is_map());
}

}  // namespace
}  // namespace attnlab::run_config_test
