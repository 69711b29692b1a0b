// Values that a shell delimited: what YAML would cut off, or read in them, is text or refused.
#include "framework/config/compose.h"
#include "tests/support/compositions.h"

namespace attnlab::value_test {
namespace {

using namespace testing;

Node parsed(const std::string& text) { return parse_override("a=" + text).at("a"); }

/// In flow style.
std::string value_of(const std::string& text) {
  const Node value = parsed(text);
  EXPECT_EQ(value.place().str(), "argument 'a=" + text + "'");
  return to_flow(value);
}

TEST(Value, TakesAsTextWhatYamlWouldCutOffOrRead) {
  for (const std::string text :
       {"#5",   "data/set #2", "null # x", "5 # x", "...",  "---",        "a\n---\nb", "a\nb",
        "a: b", "C: x",        "a:",       "&a b",  "*a",   "!important", "!!str 5",   "%a",
        "@a",   "`a`",         "- a",      "? a",   "| a",  "> a",        "a, b",      "don't",
        "a\"b", "a]",          "x [1]",    " set",  "set ", "a\tb",       "<<: x",     ","}) {
    EXPECT_EQ(parsed(text).text(), text);
    EXPECT_FALSE(parsed(text).quoted()) << text;
  }
}

TEST(Value, ReadsNumbersListsAndMapsAsAFileDoes) {
  EXPECT_EQ(value_of(" 1e-3 "), "1e-3");
  EXPECT_EQ(value_of("[1, [2, 3,], {}, [], null, ~, ???]"), "[1, [2, 3], {}, [], null, null, ???]");
  EXPECT_EQ(value_of(" {a : 1, \"b c\":2, d: , e, f+: [x]} "),
            "{a: 1, b c: 2, d: null, e: null, f+: [x]}");
  EXPECT_EQ(value_of("[a,\n  b c]"), "[a, b c]");
  EXPECT_EQ(parsed("[true, 5]").items()[1].as_int(), 5);
  EXPECT_EQ(parsed("[x]").items()[0].place().str(), "argument 'a=[x]'");
}

TEST(Value, KeepsTheMeaningOfQuotes) {
  EXPECT_EQ(parsed("'#5'").text(), "#5");
  EXPECT_EQ(parsed("'it''s'").text(), "it's");
  EXPECT_EQ(parsed("\"x\\t\\\"y\\u00e4\"").text(), "x\t\"y\u00e4");
  EXPECT_EQ(value_of("['a, b #1', \"[c\", {'k: 1': d}]"), "[\"a, b #1\", \"[c\", {\"k: 1\": d}]");
  const Node five = parsed("['5', 5, '${env:NAME,x}']");
  EXPECT_TRUE(five.items()[0].quoted());
  EXPECT_FALSE(five.items()[1].quoted());
  EXPECT_EQ(five.items()[2].text(), "${env:NAME,x}");
}

TEST(Value, IsReadBackAsItIsWritten) {
  for (const char* yaml :
       {"[1, '1', 'a: b', '#', \"\\n\", ' x ', '', \"'\", '\"', '${a}', '[', ~, .nan, ???]",
        "{'': 1, 'a: b': {x: [1, {y: 2}]}, 'k+': ['-'], '- ': '}'}", "'a\\b'", "'null'"}) {
    const std::string text = to_flow(parse_yaml(yaml, "a.yaml"));
    EXPECT_EQ(to_flow(parse_value(text, {})), text);
  }
}

TEST(Value, RefusesWhatYamlWouldCutOffOrReadInListsAndMaps) {
  for (const std::string text :
       {"[old] data",     "'a' b",      "{a: 1} b",    "[a, b], c", "'a', 'b'",    "[a #1, b]",
        "{root: set #2}", "['a' #1]",   "[a\n---\nb]", "[&a x]",    "[&a [x]]",    "{k: &a {x: 1}}",
        "[!t x]",         "[!!str 5]",  "[*a]",        "'tis",      "\"a",         "[a",
        "{a: 1",          "[a [1], b]", "['a' b]",     "\"\\q\"",   "{a: 1, a: 2}"}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  parse_value(text, {"--set", 0, 0});
                }),
                AllOf(StartsWith("--set: "), HasSubstr("put a text that holds")))
        << text;
  }
}

TEST(Value, SaysWhatIsInTheWay) {
  const auto refused = [](const std::string& text) {
    return message_of<ConfigError>([&] { parse_value(text, {"--set", 0, 0}); });
  };
  EXPECT_THAT(refused("[a, b], c"), mentions("--set:", "[a, b], c", "more"));
  EXPECT_THAT(refused("[&a x]"), HasSubstr("'&' begins an anchor"));
  EXPECT_THAT(refused("[!t x]"), HasSubstr("'!' begins a tag"));
  EXPECT_THAT(refused(std::string(100000, '[')), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(refused("a\xff"), says({"--set:", "not UTF-8"}));
  EXPECT_THAT(refused("a\x01"), HasSubstr("a control character"));
}

}  // namespace
}  // namespace attnlab::value_test
