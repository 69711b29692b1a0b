#include "framework/config/node.h"

#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "tests/support/compositions.h"

namespace attnlab::node_test {
namespace {

using namespace testing;

Node plain(const std::string& text) { return Node::scalar(text); }

TEST(NodeInteger, AcceptsDecimalDigitsWithASign) {
  EXPECT_EQ(plain("0").as_int(), 0);
  EXPECT_EQ(plain("-12").as_int(), -12);
  EXPECT_EQ(plain("+12").as_int(), 12);
  EXPECT_EQ(plain("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(plain("-9223372036854775808").as_int(), INT64_MIN);
}

TEST(NodeInteger, RefusesEveryOtherNotation) {
  for (const char* text : {"010", "00", "-01", "0x10", "0o17", "1_000", "1.0", "1e3", "", "-", "+",
                           "+-5", "--5", " 5", "5 ", "9223372036854775808", "five"}) {
    EXPECT_EQ(plain(text).as_int(), std::nullopt) << text;
  }
}

TEST(NodeNumber, AcceptsDecimalAndExponentNotation) {
  EXPECT_EQ(plain("0.1").as_double(), 0.1);
  EXPECT_EQ(plain("-.5").as_double(), -0.5);
  EXPECT_EQ(plain("1e-12").as_double(), 1e-12);
  EXPECT_EQ(plain("+2.5E+3").as_double(), 2500.0);
  EXPECT_EQ(plain("7").as_double(), 7.0);
  EXPECT_EQ(plain(".inf").as_double(), INFINITY);
  EXPECT_EQ(plain("-.inf").as_double(), -INFINITY);
  EXPECT_TRUE(std::isnan(plain(".nan").as_double().value()));
}

TEST(NodeNumber, RefusesWordsLeadingZerosAndOverflow) {
  for (const char* text : {"inf", "nan", "infinity", "010", "00.5", "0x1p3", "1e999", "+-5",
                           "1.2.3", ".", "e5", "-"}) {
    EXPECT_EQ(plain(text).as_double(), std::nullopt) << text;
  }
}

TEST(NodeBoolean, KnowsTrueAndFalseOnly) {
  EXPECT_EQ(plain("true").as_bool(), true);
  EXPECT_EQ(plain("False").as_bool(), false);
  for (const char* text : {"yes", "no", "on", "off", "y", "1", "tRue", ""}) {
    EXPECT_EQ(plain(text).as_bool(), std::nullopt) << text;
  }
}

TEST(Node, QuotedScalarsAreStringsWhateverTheyLookLike) {
  for (const char* text : {"5", "0.5", "true"}) {
    const Node quoted = Node::scalar(text, {}, true);
    EXPECT_FALSE(quoted.as_int() || quoted.as_double() || quoted.as_bool()) << text;
    EXPECT_EQ(quoted.as_string(), text);
  }
}

TEST(Node, KeepsTheOrderOfKeysWhenOneIsSetAgain) {
  Node map = Node::map();
  map.set("b", plain("1"));
  map.set("a", plain("2"));
  map.set("b", plain("3"));
  EXPECT_EQ(to_flow(map), "{b: 3, a: 2}");
  EXPECT_TRUE(map.erase("b"));
  EXPECT_FALSE(map.erase("b"));
  EXPECT_EQ(to_flow(map), "{a: 2}");
}

TEST(Node, NamesItsPlaceWhenAKeyIsMissing) {
  const Node map = Node::map({"x.yaml", 3, 7});
  EXPECT_EQ(message_of<ConfigError>([&] { map.at("lr"); }), "x.yaml:3:7: 'lr' is missing");
}

TEST(Node, KnowsWhereAKeyStandsApartFromItsValue) {
  Node map = parse_yaml("a:\n  1\n", "x.yaml");
  EXPECT_EQ(map.key_place("a").str(), "x.yaml:1:1");
  EXPECT_EQ(map.at("a").place().str(), "x.yaml:2:3");
  map.set("b", Node::scalar("2", {"y.yaml", 5, 6}));
  EXPECT_EQ(map.key_place("b").str(), "y.yaml:5:6");
}

TEST(Place, ShowsOnlyWhatIsKnown) {
  EXPECT_EQ((Place{"a.yaml", 2, 3}).str(), "a.yaml:2:3");
  EXPECT_EQ((Place{"a.yaml", 2, 0}).str(), "a.yaml:2");
  EXPECT_EQ((Place{"a.yaml", 0, 0}).str(), "a.yaml");
  EXPECT_EQ((Place{"", 2, 3}).str(), "line 2:3");
}

TEST(NodeText, IsBlockStyleWithShortListsInFlow) {
  const std::string text = "a: 1\nb:\n  c: [1, x]\n  d: {}\ne:\n  - {f: 1}\n  - [2]\ng: null\n";
  EXPECT_EQ(to_yaml(parse_yaml(text, "x")), text);
}

TEST(NodeText, KeepsTheMarkOfAValueThatMustBeGiven) {
  const Node tree = parse_yaml("a: ???\nb: \"???\"\nc:\n  d: ???\n", "x");
  EXPECT_EQ(to_yaml(tree), "a: ???\nb: \"???\"\nc:\n  d: ???\n");
  EXPECT_FALSE(parse_yaml(to_yaml(tree), "x").at("a").quoted());
}

TEST(NodeText, EscapesReferencesSoThatComposingGivesThemBack) {
  Node tree = Node::map();
  const std::vector<std::string> texts = {"${a}", "$${a}", "x ${", "${${", "$", "$$${env:HOME}"};
  for (std::size_t i = 0; i < texts.size(); ++i) tree.set("k" + std::to_string(i), plain(texts[i]));
  Node again = parse_yaml(to_yaml(tree), "x");
  interpolate(again);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(again.at("k" + std::to_string(i)).text(), texts[i]);
  }
}

// ---- printing and reading back, over random trees of awkward values

class RandomTree {
 public:
  explicit RandomTree(unsigned seed) : random_(seed) {}

  Node tree(int depth) {
    Node map = Node::map();
    for (int i = below(5); i >= 0; --i) {
      // Keys of a composition do not end in + or -: those are instructions.
      map.set(text() + "k" + std::to_string(i), value(depth));
    }
    return map;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Node value(int depth) {
    switch (below(depth > 0 ? 6 : 4)) {
      case 0:
        return {};
      case 1:
        return plain(number());
      case 4: {
        Node list = Node::list();
        for (int i = below(4); i > 0; --i) list.items().push_back(value(depth - 1));
        return list;
      }
      case 5:
        return below(8) == 0 ? Node::map() : tree(depth - 1);
      default:
        return Node::scalar(text(), {}, true);
    }
  }

  std::string number() {
    static const char* const kNumbers[] = {"0",    "-1",    "+3",   "0.5",  "1e-12", "1.50",
                                           ".inf", "-.inf", ".nan", "true", "False", "-.5",
                                           "5.",   "1E5",   "TRUE", "-0",   "1e+22"};
    return kNumbers[below(static_cast<int>(std::size(kNumbers)))];
  }

  std::string text() {
    static const char* const kPieces[] = {
        "a",      "quest",  "\"",   "'",   "\n",   "\r",   "\t",      "\\",   "${",      "$${",
        "}",      ": ",     ":",    " #",  "#",    "  ",   " ",       "- ",   "-",       "é",
        "∞",      "𝔸",      "010",  "1e3", "true", "null", "~",       "yes",  "???",     "&a",
        "*a",     "!!int",  "|",    ">",   "%",    "@",    "`",       "[",    "]",       "{",
        ",",      "? ",     "---",  "...", "=",    "<<",   "\x01",    "\x7f", "\u0085",  "\u2028",
        "\u00a0", "\ufeff", "0x1f", "1_0", "+",    "\\n",  "\\u0041", "\v",   "\x1b[0m", "."};
    std::string text;
    for (int i = below(5); i > 0; --i) text += kPieces[below(static_cast<int>(std::size(kPieces)))];
    return text;
  }

  std::mt19937 random_;
};

/// Kind, text and typed reading of everything, in one comparable text.
std::string meaning(const Node& node) {
  if (node.is_null()) return "null";
  std::string out;
  if (node.is_scalar()) {
    const auto number = node.as_double();
    out = node.as_bool() ? "bool " : number ? "number " : "text ";
    return out + hex(fingerprint(node.text())) + " " + node.text();
  }
  for (const Node& item : node.items()) out += meaning(item) + ";";
  for (const auto& [key, value] : node.entries()) out += key + "=" + meaning(value) + ";";
  return (node.is_list() ? "[" : "{") + out + "]";
}

TEST(NodeText, ComposesBackToTheSameTree) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Node tree = RandomTree(seed).tree(4);
    const std::string yaml = to_yaml(tree);
    Node again = parse_yaml(yaml, "x");
    interpolate(again);
    ASSERT_EQ(meaning(again), meaning(tree)) << "seed " << seed << "\n" << yaml;
    ASSERT_EQ(to_yaml(again), yaml) << "seed " << seed;
  }
}

TEST(NodeText, ParsesBackToTheSameTreeInFlowStyle) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Node tree = RandomTree(seed).tree(4);
    const std::string flow = to_flow(tree);
    EXPECT_EQ(flow.find('\n'), std::string::npos);
    ASSERT_EQ(meaning(parse_yaml(flow, "x")), meaning(tree)) << "seed " << seed << "\n" << flow;
  }
}

TEST(Node, ACopyAndItsOriginalChangeApart) {
  const std::function<void(Node&)> changes[] = {
      [](Node& node) { node.set("new", plain("1")); },
      [](Node& node) { node.set("text", plain("1")); },
      [](Node& node) { node.erase("text"); },
      [](Node& node) { node.find("text")->set_text("1"); },
      [](Node& node) { node.find("map")->find("inner")->set("deep", plain("1")); },
      [](Node& node) { node.find("map")->erase("inner"); },
      [](Node& node) { node.find("list")->items().push_back(plain("1")); },
      [](Node& node) { node.find("list")->items()[1].items()[0] = plain("1"); },
      [](Node& node) { node.entries().pop_back(); },
      [](Node& node) { node = plain("1"); },
  };
  const Node whole = parse_value("{text: a, map: {inner: {deep: b}}, list: [c, [d]]}", {});
  const std::string before = to_flow(whole);
  for (const auto& change : changes) {
    Node first = whole, second = first;
    change(first);
    EXPECT_NE(to_flow(first), before);
    EXPECT_EQ(to_flow(second), before);
    const std::string changed = to_flow(first);
    change(second);
    EXPECT_EQ(to_flow(second), changed);
    EXPECT_EQ(to_flow(whole), before);
  }
}

TEST(Node, PlacesAndHistoryOfACopyAreItsOwn) {
  Node first = Node::map({"a", 1, 1});
  first.set("key", plain("x"));
  Node second = first;
  second.set_place({"b", 2, 2});
  second.set_key_place("key", {"b", 3, 3});
  const Origin earlier{Place{"b", 4, 4}, "y"};
  second.find("key")->history().push_back(earlier);
  EXPECT_EQ(first.place().str(), "a:1:1");
  EXPECT_EQ(first.key_place("key").str(), plain("x").place().str());
  EXPECT_TRUE(std::as_const(first).at("key").history().empty());
}

}  // namespace
}  // namespace attnlab::node_test
