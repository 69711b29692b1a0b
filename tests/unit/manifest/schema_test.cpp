#include "framework/manifest/schema.h"

#include <cmath>

#include "framework/manifest/option_lookup.h"
#include "tests/support/compositions.h"

namespace attnlab::schema_test {
namespace {

using namespace testing;

struct InnerOptions {
  double lr = 1e-3;
  std::string note = "a \"b\"";
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("lr", lr, at_least(0), "rate");
    v("note", note, "words");
  }
};

struct SampleOptions {
  bool flag = true;
  std::int64_t count = 7;
  double ratio = 0.25;
  std::string pool = "mean";
  std::vector<std::int64_t> sizes = {1, 2};
  std::vector<std::string> names;
  InnerOptions inner;
  std::string data;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("flag", flag, "a switch");
    v("count", count, range(0, 100), "how many");
    v("ratio", ratio, range(0, 1), "a share");
    v("pool", pool, one_of("mean", "class_token", ""), "what is read");
    v("sizes", sizes, at_least(1), "several");
    v("names", names, "texts");
    v("inner", inner, "a group");
    v("data", data, required(), "the folder");
  }
};

const Schema& schema() {
  static const Schema kSchema = schema_of<SampleOptions>();
  return kSchema;
}

struct Resolved {
  Node values;
  std::vector<std::string> problems;
};

Resolved resolve(const std::string& yaml, const Schema& by = schema()) {
  Resolved out;
  out.values =
      resolve_options(parse_yaml(yaml, "f.yaml"), by, "model", "model 'vit'", out.problems);
  return out;
}

/// The one problem of a map of options that also gives the required value.
std::string problem(const std::string& yaml) {
  const Resolved resolved = resolve("{data: d, " + yaml + "}");
  EXPECT_EQ(resolved.problems.size(), 1u);
  return resolved.problems.empty() ? "" : resolved.problems.front();
}

TEST(Schema, ComesFromTheOptionsStruct) {
  ASSERT_EQ(schema().size(), 8u);
  const auto types = [] {
    std::vector<std::string> texts;
    for (const OptionSpec& spec : schema()) texts.push_back(spec.name + ": " + spec.type_text());
    return texts;
  }();
  EXPECT_THAT(types, ElementsAre("flag: bool", "count: int in [0, 100]", "ratio: float in [0, 1]",
                                 "pool: mean | class_token | ''", "sizes: list of int >= 1",
                                 "names: list of string", "inner: map", "data: string"));
  EXPECT_EQ(schema()[1].help, "how many");
  EXPECT_TRUE(schema()[7].required);
  EXPECT_EQ(schema()[6].options[1].default_value.text(), "a \"b\"");
}

TEST(ResolveOptions, FillsInEveryDefaultInTheOrderOfTheSchema) {
  const Resolved resolved = resolve("data: d");
  EXPECT_THAT(resolved.problems, IsEmpty());
  EXPECT_EQ(to_flow(resolved.values),
            "{flag: true, count: 7, ratio: 0.25, pool: mean, sizes: [1, 2], names: [], "
            "inner: {lr: 0.001, note: \"a \\\"b\\\"\"}, data: d}");
  EXPECT_EQ(resolved.values.at("count").place().str(), "default of model 'vit'");
}

TEST(ResolveOptions, GivesTheOptionsStructItsValues) {
  const Resolved resolved =
      resolve("{data: 5, count: 3, sizes: [4], names: ['1', b], inner: {lr: 2}, flag: false}");
  const SampleOptions options = read_options<SampleOptions>(resolved.values);
  EXPECT_EQ(options.data, "5") << "a string option takes a number's text";
  EXPECT_EQ(options.count, 3);
  EXPECT_THAT(options.sizes, ElementsAre(4));
  EXPECT_THAT(options.names, ElementsAre("1", "b"));
  EXPECT_EQ(options.inner.lr, 2.0);
  EXPECT_FALSE(options.flag);
}

TEST(ResolveOptions, TakesNullForTheDefaultButNotForARequiredValue) {
  EXPECT_EQ(resolve("{data: d, count: null}").values.at("count").text(), "7");
  EXPECT_THAT(resolve("data: null").problems,
              ElementsAre(mentions("f.yaml:1:1:", "model.data:", "'vit'", "(string): the folder")));
}

TEST(ResolveOptions, ReportsAllProblemsAtOnceEachWithItsPlace) {
  EXPECT_THAT(
      resolve("cuont: 3\nflag: 1\nratio: 2\npool: maen\ninner: {lr: -1, momentum: 2}\n").problems,
      ElementsAre(
          mentions("f.yaml:1:1:", "model:", "unknown key 'cuont'", "'vit'", "'count'"),
          mentions("f.yaml:2:7:", "model.flag:", "true or false", "found 1"),
          mentions("f.yaml:3:8:", "model.ratio:", "2 is out of range", "[0, 1]"),
          mentions("f.yaml:4:7:", "model.pool:", "'maen'", "mean, class_token, ''", "'mean'?"),
          mentions("f.yaml:5:17:", "model.inner:", "unknown key 'momentum'", "'vit'", "lr, note"),
          mentions("f.yaml:5:13:", "model.inner.lr:", "-1 is out of range", ">= 0"),
          mentions("f.yaml:1:1:", "model.data:", "'vit'", "(string): the folder")));
}

TEST(ResolveOptions, RefusesYesAndNoWithTheWordThatIsMeant) {
  EXPECT_THAT(problem("flag: yes"), says({"f.yaml:1:17:", "model.flag:", "found yes", "'true'"}));
  EXPECT_THAT(problem("flag: On"), EndsWith("did you mean 'true'?"));
  EXPECT_THAT(problem("flag: no"), EndsWith("did you mean 'false'?"));
  EXPECT_THAT(problem("flag: off"), EndsWith("did you mean 'false'?"));
  EXPECT_THAT(problem("flag: 'true'"), EndsWith("found \"true\" (remove the quotes)"));
}

TEST(ResolveOptions, RefusesLeadingZerosWithTheNumberThatIsMeant) {
  EXPECT_THAT(problem("count: 010"),
              says({"f.yaml:1:18:", "model.count:", "found \"010\"", "'10'"}));
  EXPECT_THAT(problem("count: 00"), EndsWith("did you mean '0'?"));
  EXPECT_THAT(problem("ratio: 01"), EndsWith("did you mean '1'?"));
}

TEST(ResolveOptions, RefusesFloatsForIntegers) {
  EXPECT_THAT(problem("count: 1e1"), says({"f.yaml:1:18:", "model.count:", "found 1e1", "'10'"}));
  EXPECT_THAT(problem("count: 3.0"), EndsWith("did you mean '3'?"));
  EXPECT_THAT(problem("count: 3.5"), EndsWith("found 3.5"));
  EXPECT_THAT(problem("count: 1e300"), EndsWith("found 1e300"));
  EXPECT_THAT(problem("count: .inf"), EndsWith("found .inf"));
}

TEST(ResolveOptions, KeepsNumbersInTheirRangeEndsIncluded) {
  EXPECT_THAT(resolve("{data: d, count: 0, ratio: 1}").problems, IsEmpty());
  EXPECT_THAT(resolve("{data: d, count: 100, ratio: 0}").problems, IsEmpty());
  EXPECT_THAT(problem("count: 101"), mentions("101 is out of range", "int in [0, 100]"));
  EXPECT_THAT(problem("ratio: .nan"), HasSubstr("out of range"));
  EXPECT_THAT(problem("sizes: [1, 0]"), HasSubstr("model.sizes: 0 is out of range"));
}

TEST(ResolveOptions, ChecksTheShapeOfListsAndGroups) {
  EXPECT_THAT(problem("sizes: 3"), says({"f.yaml:1:18:", "model.sizes:", "found 3", "[3]"}));
  EXPECT_THAT(problem("sizes: [1, x]"), says({"f.yaml:1:22:", "model.sizes:", "found x"}));
  EXPECT_THAT(problem("count: [1]"), says({"f.yaml:1:18:", "model.count:", "found [1]"}));
  EXPECT_THAT(problem("inner: 5"),
              says({"f.yaml:1:18:", "model.inner:", "map of options", "found 5"}));
}

TEST(ResolveOptions, AsksForAValueThatMustBeGiven) {
  EXPECT_THAT(
      resolve("data: d\ncount: ???\n").problems,
      ElementsAre(mentions("f.yaml:2:8:", "model.count:", "must be given", "(int in [0, 100])")));
  EXPECT_THAT(resolve("data: \"???\"").problems, IsEmpty()) << "quoted it is a text";
}

TEST(ResolveOptions, LeavesOutOptionsWithProblems) {
  EXPECT_EQ(resolve("{data: d, count: x}").values.find("count"), nullptr);
}

TEST(ReadOptions, NamesThePlaceOfAValueOfAnotherType) {
  const Node values = parse_yaml("{lr: [1]}", "f.yaml");
  EXPECT_EQ(message_of<ConfigError>([&] { read_options<InnerOptions>(values); }),
            "f.yaml:1:6: expected a number, found [1]");
}

// ---- values that JSON writes in a way of its own

struct NumberOptions {
  double tiny = 1e-30;
  double third = 1.0 / 3.0;
  double infinite = std::numeric_limits<double>::infinity();
  double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> several = {0.1, 2e-30, -std::numeric_limits<double>::infinity()};
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("tiny", tiny, range(1e-40, 1.0 / 3.0), "limits without a short decimal form");
    v("third", third, "1/3");
    v("infinite", infinite, "no limit");
    v("none", none, "not given");
    v("several", several, "a list");
  }
};

TEST(Schema, GivesBackEveryDefaultAndLimitExactly) {
  const Schema numbers = schema_of<NumberOptions>();
  EXPECT_EQ(numbers[0].low, 1e-40);
  EXPECT_EQ(numbers[0].high, 1.0 / 3.0);
  std::vector<std::string> problems;
  const Node values = resolve_options({}, numbers, "x", "x", problems);
  EXPECT_THAT(problems, IsEmpty());
  const NumberOptions options = read_options<NumberOptions>(values);
  EXPECT_EQ(options.tiny, 1e-30);
  EXPECT_EQ(options.third, 1.0 / 3.0);
  EXPECT_EQ(options.infinite, INFINITY);
  EXPECT_TRUE(std::isnan(options.none));
  EXPECT_THAT(options.several, ElementsAre(0.1, 2e-30, -INFINITY));
}

struct NeedyGroup {
  std::string path;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("path", path, required(), "a path");
  }
};
struct NeedyOptions {
  NeedyGroup group;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("group", group, "a group");
  }
};

TEST(ResolveOptions, SaysWhereAValueOfAMissingGroupBelongs) {
  EXPECT_THAT(
      resolve("\n{}", schema_of<NeedyOptions>()).problems,
      ElementsAre(mentions("f.yaml:2:1:", "model.group.path:", "'vit'", "(string): a path")));
}

/// What options of plugins cannot have, and keys of the host's own files can.
struct SkippingRule {
  std::string reason;
  std::vector<std::string> names;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("reason", reason, filled(), "why");
    v("names", names, one_or_more(), "who");
  }
};
struct FileKeys {
  std::vector<SkippingRule> rules;
  std::optional<NeedyGroup> group;
  std::optional<std::string> name;
  NoOptions anything;
  std::vector<NoOptions> items;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("rules", rules, one_or_more(), "rules");
    v("group", group, "a group that may be absent");
    v("name", name, "a text that may be absent");
    v("anything", anything, "of keys that somebody else knows");
    v("items", items, filled(), "maps and words");
  }
};

TEST(KeysOfFiles, MayBeListsOfGroupsAndAbsent) {
  const Resolved given =
      resolve("{rules: {reason: x, names: a}, anything: {b: [1]}, items: [quest, {use: quest}]}",
              schema_of<FileKeys>());
  EXPECT_THAT(given.problems, IsEmpty());
  EXPECT_EQ(to_flow(given.values),
            "{rules: [{reason: x, names: [a]}], anything: {b: [1]}, items: [quest, {use: quest}]}");
  const auto keys = read_keys<FileKeys>(given.values);
  ASSERT_EQ(keys.rules.size(), 1U);
  EXPECT_THAT(keys.rules[0].names, ElementsAre("a"));
  EXPECT_FALSE(keys.group || keys.name);
  EXPECT_TRUE(
      read_keys<FileKeys>(resolve("{group: {path: p}}", schema_of<FileKeys>()).values).group);
}

TEST(KeysOfFiles, SayEachMistakeWithItsPlace) {
  EXPECT_THAT(
      resolve("{rules: [{reason: ''}], group: {}, anything: 3, items: []}", schema_of<FileKeys>())
          .problems,
      ElementsAre(mentions("f.yaml:1:19:", "model.rules.reason:", "'vit'", "(string): why"),
                  mentions("f.yaml:1:32:", "model.group.path:", "'vit'", "(string): a path"),
                  mentions("f.yaml:1:46:", "model.anything:", "a map of options", "found 3"),
                  mentions("f.yaml:1:56:", "model.items:", "'vit'", "(list): maps and words")));
}

TEST(ParseSchema, RefusesTextThatIsNoSchema) {
  const auto refused = [](const std::string& text) {
    return message_of<Error>([&] { parse_schema(text); });
  };
  EXPECT_THAT(refused("["), StartsWith("not a schema of options: "));
  EXPECT_THAT(refused("[{\"type\": \"int\"}]"), StartsWith("not a schema of options: "));
  EXPECT_THAT(refused("[{\"name\": \"x\", \"type\": \"tensor\"}]"),
              says({"option 'x'", "'tensor'"}));
}

TEST(ParseSchema, RefusesOptionsThatNoCompositionCouldSet) {
  for (const std::string name : {"a.b", "a+", "a-", "extends"}) {
    EXPECT_THAT(message_of<Error>([&] {
                  parse_schema(R"([{"name": ")" + name + R"(", "type": "int", "default": 1}])");
                }),
                says({"'" + name + "'", "name of an option"}));
  }
}

TEST(ParseSchema, RefusesDefaultsThatTheOptionItselfWouldRefuse) {
  const auto refused = [](const std::string& rest) {
    return message_of<Error>([&] { parse_schema(R"([{"name": "n", )" + rest + "}]"); });
  };
  EXPECT_THAT(refused(R"("type": "int", "low": 1, "high": 5, "default": 70)"),
              says({"option n:", "70 is out of range", "[1, 5]"}));
  EXPECT_THAT(refused(R"("type": "int", "default": "abc")"),
              says({"option n:", "an integer", "found abc", "remove the quotes"}));
  EXPECT_THAT(refused(R"("type": "string", "choices": ["a", "b"], "default": "c")"),
              says({"option n:", "'c'", "a, b"}));
  EXPECT_THAT(refused(R"("type": "int", "list": true, "default": 7)"),
              says({"option n:", "expected a list", "found 7", "[7]"}));
  EXPECT_THAT(refused(R"("type": "int", "default": null)"),
              says({"default", "option 'n'", "nothing"}));
  EXPECT_THAT(refused(R"("type": "float", "low": ".nan", "default": 1)"),
              says({"bound", "option 'n'", "not a number"}));
}

struct GroupOptions {
  std::vector<std::string> match;
  double scale = 1;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("match", match, required(), "patterns");
    v("scale", scale, at_least(0), "a factor");
  }
};

struct GroupedOptions {
  double lr = 0.5;
  OptionMap<GroupOptions> groups;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("lr", lr, "rate");
    v("groups", groups, "by names");
  }
};

Resolved resolve_grouped(const std::string& yaml) {
  return resolve(yaml, schema_of<GroupedOptions>());
}

TEST(FreeNames, HaveTheSameOptionsUnderEveryName) {
  const Schema schema = schema_of<GroupedOptions>();
  EXPECT_EQ(schema[1].type_text(), "map of names");
  for (const char* name : {"any", "NAME", "a-b"}) {
    const std::string key = std::string("groups.") + name;
    ASSERT_NE(find_option(schema, key), nullptr) << key;
    EXPECT_EQ(find_option(schema, key + ".scale")->help, "a factor");
    EXPECT_EQ(find_option(schema, key + ".scael"), nullptr);
  }
  EXPECT_THAT(option_keys(schema), ElementsAre("lr", "groups"));
}

TEST(FreeNames, AreKnownOnceACompositionGivesThem) {
  const Node given = parse_yaml("{groups: {head: {match: [h]}, body: null}}", "f.yaml");
  const Schema schema = with_names(schema_of<GroupedOptions>(), given);
  EXPECT_THAT(option_keys(schema),
              ElementsAre("lr", "groups", "groups.head", "groups.head.match", "groups.head.scale",
                          "groups.body", "groups.body.match", "groups.body.scale"));
}

TEST(FreeNames, KeepTheirOrderAndAreFilledIn) {
  const Resolved resolved =
      resolve_grouped("{groups: {z: {match: [a], scale: 3}, b: {match: []}}}");
  EXPECT_THAT(resolved.problems, IsEmpty());
  EXPECT_EQ(to_flow(resolved.values),
            "{lr: 0.5, groups: {z: {match: [a], scale: 3}, b: {match: [], scale: 1}}}");
  const auto options = read_options<GroupedOptions>(resolved.values);
  ASSERT_EQ(options.groups.size(), 2u);
  EXPECT_EQ(options.groups[0].first, "z");
  EXPECT_EQ(options.groups[0].second.scale, 3);
  EXPECT_THAT(options.groups[0].second.match, ElementsAre("a"));
  EXPECT_EQ(options.groups[1].second.scale, 1);
  const Resolved again = resolve_grouped(to_yaml(resolved.values));
  EXPECT_EQ(to_flow(again.values), to_flow(resolved.values)) << "a frozen file loads again";
}

TEST(FreeNames, AreNoneByDefault) {
  for (const char* yaml : {"{}", "groups: null", "groups: {}"}) {
    const Resolved resolved = resolve_grouped(yaml);
    EXPECT_EQ(to_flow(resolved.values), "{lr: 0.5, groups: {}}") << yaml;
    EXPECT_TRUE(read_options<GroupedOptions>(resolved.values).groups.empty());
  }
}

TEST(SchemaText, OfForeignPluginsIsCheckedAndMadeFitForATerminal) {
  const auto refused = [](const std::string& text) {
    return message_of<Error>([&] { parse_schema(text); });
  };
  EXPECT_EQ(refused(R"([{"name": "a", "type": "int"}, {"name": "a", "type": "bool"}])"),
            "option 'a' is declared twice");
  EXPECT_THAT(refused(R"([{"name": "a", "type": "float", "low": 2, "high": 1.5}])"),
              says({"option 'a'", "empty range", "[2, 1.5]"}));
  EXPECT_THAT(refused(R"([{"name": "a\nb", "type": "int"}])"),
              says({"'a b'", "name of an option"}));
  const Schema schema =
      parse_schema(R"([{"name": "a", "type": "int", "help": "red\u001b[31m\nand more"}])");
  EXPECT_EQ(schema.at(0).help, "red\\x1b[31m and more");
}

TEST(FreeNames, AreCheckedLikeAnyOptionsEachWithItsPlace) {
  EXPECT_THAT(
      resolve_grouped("groups:\n  a: {match: [x], scael: 2}\n  b: {match: [x], scale: -1}\n"
                      "  c: {}\n  d.e: {match: [x]}\n  f: 3\n")
          .problems,
      ElementsAre(
          mentions("f.yaml:2:19:", "model.groups.a:", "unknown key 'scael'", "'vit'", "'scale'"),
          mentions("f.yaml:3:26:", "model.groups.b.scale:", "-1 is out of range", ">= 0"),
          mentions("f.yaml:4:6:", "model.groups.c.match:", "'vit'", "(list of string): patterns"),
          mentions("f.yaml:5:3:", "model.groups:", "'d.e' is not a name"),
          mentions("f.yaml:6:6:", "model.groups.f:", "a map of options", "found 3")));
  EXPECT_THAT(resolve_grouped("groups: [a]").problems,
              ElementsAre(mentions("f.yaml:1:9:", "model.groups:", "a map of names", "found [a]")));
}

}  // namespace
}  // namespace attnlab::schema_test
