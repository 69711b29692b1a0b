// Structure of the schemas. That files are valid by them or not is tested from outside, with a
// validator (tests/integration/config_test.cpp).
#include "framework/suites/json_schema.h"

#include "tests/support/made_parts.h"

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
              HasSubstr("there is no schema of 'experimnt'; did you mean 'experiment'?"));
}

}  // namespace
}  // namespace attnlab::json_schema_test
