// Structure of the schemas. That files are valid by them or not is tested from outside, with a
// validator (tests/integration/config_test.cpp).
#include "framework/suites/json_schema.h"

#include "tests/support/made_parts.h"
#include "tests/support/python.h"

namespace attnlab::json_schema_test {
namespace {

using namespace testing;
using nlohmann::json;

class JsonSchema : public ::testing::Test {
 protected:
  json schema(const std::string& kind) {
    return json::parse(json_schema(kind, parts_.catalogue()));
  }
  MadeParts parts_;
};

TEST_F(JsonSchema, SaysOfAnOptionWhatTheManifestSays) {
  const json definitions = schema("experiment").at("$defs");
  const json& eps = definitions.at("attention.quest").at("properties").at("eps");
  EXPECT_EQ(eps.at("type"), json({"number", "string", "null"}));
  EXPECT_EQ(eps.at("minimum"), 0);
  EXPECT_EQ(eps.at("maximum"), 1);
  EXPECT_EQ(eps.at("default"), 1e-12);
  EXPECT_EQ(eps.at("description"), "floor");
  const json& train = definitions.at("experiment").at("properties").at("train").at("properties");
  EXPECT_EQ(train.at("epochs").at("minimum"), 1);
  EXPECT_FALSE(train.at("epochs").contains("maximum"));
  EXPECT_EQ(train.at("device").at("anyOf").at(0).at("enum"), json({"cpu", "cuda", nullptr}));
  EXPECT_EQ(train.at("optimizer").at("properties").at("lr").at("default"), 1e-3);
}

TEST_F(JsonSchema, LetsAMapOfGroupsHaveAnyNames) {
  const json whole = schema("experiment").at("$defs").at("experiment");
  const json& optimizer = whole.at("properties").at("train").at("properties").at("optimizer");
  const json& groups = optimizer.at("properties").at("groups");
  const json& any = groups.at("additionalProperties");
  EXPECT_EQ(any.at("properties").at("lr_scale").at("minimum"), 0);
  EXPECT_EQ(any.at("properties").at("match").at("type"), json({"array", "string", "null"}));
  EXPECT_EQ(any.at("additionalProperties"), false) << "below a name only what groups have";
  EXPECT_EQ(groups.at("patternProperties").begin().key(), "-$");
  EXPECT_TRUE(groups.at("properties").contains("extends"));
}

TEST_F(JsonSchema, KnowsTheEntriesOfEvaluateUnderAnyNames) {
  const json whole = schema("experiment").at("$defs").at("experiment");
  const json& entry = whole.at("properties").at("evaluate").at("additionalProperties");
  const json& keys = entry.at("properties");
  EXPECT_EQ(keys.at("when").at("anyOf").at(0).at("enum"), json({"end", "each", nullptr}));
  EXPECT_EQ(keys.at("set").at("properties").at("task").at("$ref"), "#/$defs/task");
  EXPECT_FALSE(keys.at("set").at("properties").contains("train")) << "nothing is trained";
  EXPECT_EQ(keys.at("over").at("additionalProperties").at("type"), "array");
  EXPECT_EQ(entry.at("additionalProperties"), false);
}

TEST_F(JsonSchema, KnowsTheKeysOfASuitesListsOfMaps) {
  const json keys = schema("suite").at("$defs").at("suite").at("properties");
  const json& rule = keys.at("skip").at("items");
  EXPECT_EQ(rule.at("properties").at("attention").at("anyOf").at(0).at("type").at(0), "array");
  EXPECT_EQ(rule.at("additionalProperties"), false);
  EXPECT_EQ(keys.at("skip+").at("items"), rule);
  const json& column = keys.at("page").at("properties").at("columns").at("items");
  EXPECT_EQ(column.at("properties").at("role").at("anyOf").at(0).at("enum"),
            json({"quality", "robustness", "stability", nullptr}));
  EXPECT_EQ(rule.at("required"), json::array({"reason"}));
  EXPECT_TRUE(keys.at("reference").at("anyOf").at(1).contains("properties")) << "one, or several";
  EXPECT_EQ(keys.at("grid").at("type").at(0), "object");
  EXPECT_FALSE(keys.at("grid").contains("additionalProperties")) << "its keys are an experiment's";
}

TEST_F(JsonSchema, ChoosesAPartsOptionsByItsPlugin) {
  const json attention = schema("attention").at("$defs").at("attention");
  bool chosen = false;
  for (const json& rule : attention.at("allOf")) {
    if (rule.at("then") != json{{"$ref", "#/$defs/attention.quest"}}) continue;
    chosen = true;
    EXPECT_EQ(rule.at("if").at("properties").at("use").at("enum"), json({"quest", "lab/quest"}));
    EXPECT_EQ(rule.at("if").at("required"), json::array({"use"}));
  }
  EXPECT_TRUE(chosen);
}

/// What a rule of `allOf` demands of sections that a condition of it holds for; null: none does.
json demanded(const json& part, const std::string& definition) {
  for (const json& rule : part.at("allOf")) {
    if (rule.at("then") == json{{"$ref", "#/$defs/" + definition}}) return rule.at("if");
  }
  return nullptr;
}

TEST_F(JsonSchema, TakesPythonFilesWherePluginsAreNamed) {
  const json definitions = schema("experiment").at("$defs");
  for (const char* kind : {"attention", "model", "dataset"}) {
    const std::string key = kind;
    const json names = definitions.at(key + ".name").at("anyOf");
    const json python = json::parse(
        R"J({"anyOf": [{"const": "python"}, {"type": "string", "pattern": ".\\.py(:[^/]*)?$"}]})J");
    EXPECT_EQ(std::count(names.begin(), names.end(), python), 1) << key;
    const json& part = definitions.at(key + ".python");
    EXPECT_EQ(part.at("additionalProperties"), false);
    for (const char* name : {"use", "file", "class", "options"}) {
      EXPECT_TRUE(part.at("properties").contains(name)) << key << " " << name;
    }
    EXPECT_EQ(demanded(definitions.at(key), key + ".python").at("properties").at("use"), python);
  }
  EXPECT_FALSE(definitions.contains("task.python"));
}

TEST_F(JsonSchema, KnowsTheOptionsOfFilesThatCompositionsName) {
  if (!python_is_there()) GTEST_SKIP() << "needs python3";
  const TempFolder temp;
  temp.write("mine.py", packable_attention());
  const std::string file = temp.write(
      "e.yaml",
      "attention: {use: mine.py, options: {temperature: 2}}\nmodel: {use: vit, note: gone.py}\n");
  const json definitions =
      json::parse(json_schema("experiment", parts_.catalogue(), {load_file(file)})).at("$defs");
  const json& options =
      definitions.at("attention.mine.py").at("properties").at("options").at("properties");
  EXPECT_EQ(options.at("temperature").at("maximum"), 10);
  EXPECT_EQ(options.at("temperature").at("default"), 1.0);
  const json condition = demanded(definitions.at("attention"), "attention.mine.py");
  EXPECT_EQ(condition.at("properties").at("use").at("const"), "mine.py");
  const json other = demanded(definitions.at("attention"), "attention.python");
  EXPECT_EQ(other.at("not").at("anyOf").at(0).at("properties"), condition.at("properties"));
  EXPECT_FALSE(definitions.contains("model.mine.py"));
}

TEST_F(JsonSchema, TakesPositionsAsAKindAloneToo) {
  const json definitions = schema("experiment").at("$defs");
  const json& either =
      definitions.at("attention.quest").at("properties").at("positions").at("anyOf");
  EXPECT_EQ(either.at(0).at("anyOf").at(0).at("enum"),
            json({"none", "rotary", "alibi", "t5", nullptr}));
  EXPECT_TRUE(either.at(1).at("properties").contains("base"));
  EXPECT_EQ(either.at(1).at("additionalProperties"), false);
}

TEST_F(JsonSchema, ClosesEveryMapButLetsItExtendAppendAndRemove) {
  const json part = schema("model").at("$defs").at("model.vit");
  EXPECT_EQ(part.at("additionalProperties"), false);
  for (const char* key : {"use", "dim", "rates", "rates+", "rates-", "extends"}) {
    EXPECT_TRUE(part.at("properties").contains(key)) << key;
  }
  EXPECT_EQ(part.at("properties").at("rates+").at("type"), "array");
  const json& removal = part.at("patternProperties");
  EXPECT_EQ(removal.begin().key(), "^(use|dim|note)-$");
  EXPECT_EQ(removal.begin().value().at("type"), "null");
}

TEST_F(JsonSchema, DemandsWhatAFileMustHoldUnlessItExtends) {
  EXPECT_EQ(schema("experiment").at("then").at("required"),
            json({"schema", "model", "attention", "task", "dataset"}));
  EXPECT_EQ(schema("experiment").at("if"), json::parse(R"({"not": {"required": ["extends"]}})"));
  EXPECT_EQ(schema("suite").at("then").at("required"),
            json({"schema", "attentions", "experiments"}));
  EXPECT_FALSE(schema("base").contains("then"));
}

TEST_F(JsonSchema, DefinesEverythingThatItRefersTo) {
  for (const std::string& kind : schema_kinds()) {
    const json whole = schema(kind);
    const std::function<void(const json&)> check = [&](const json& node) {
      if (node.is_object() && node.contains("$ref") && node.at("$ref").is_string()) {
        const std::string reference = node.at("$ref");
        ASSERT_THAT(reference, StartsWith("#/$defs/"));
        EXPECT_TRUE(whole.at("$defs").contains(reference.substr(8))) << kind << ": " << reference;
      }
      for (const json& child : node) {
        if (child.is_structured()) check(child);
      }
    };
    check(whole);
  }
}

TEST_F(JsonSchema, RefusesUnknownKinds) {
  EXPECT_THAT(message_of<ConfigError>([&] { schema("experimnt"); }),
              mentions("'experimnt'", "'experiment'"));
}

}  // namespace
}  // namespace attnlab::json_schema_test
