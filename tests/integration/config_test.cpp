// config explain, diff and schema, from outside.
#include <filesystem>

#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::config_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class Config : public Workspace {};

TEST_F(Config, ExplainShowsEachStepWithItsPlace) {
  folder_.write("mine.yaml", "schema: 1\nextends: tiny.yaml\ntrain: {epochs: 5, log_every-: }\n");
  EXPECT_THAT(must({"config", "explain", "mine.yaml", "train.epochs", "train.epochs=7"}).out,
              says_lines({{"train.epochs = 7"},
                          {"  # int >= 1: "},
                          {"  tiny.yaml:6:17             2"},
                          {"  mine.yaml:3:17             5"},
                          {"  argument 'train.epochs=7'  7"},
                          {}}));
  EXPECT_THAT(must({"config", "explain", "mine.yaml", "train.log_every"}).out,
              HasSubstr("  mine.yaml:3:20    (removed)\n  default of train  10\n"));
  const json steps =
      json::parse(must({"config", "explain", "mine.yaml", "train.epochs", "--json"}).out);
  EXPECT_EQ(steps.at(0).at("steps").at(1).at("line"), 3);
}

TEST_F(Config, ExplainHelpsWithFilesThatAreWrong) {
  folder_.write("bad.yaml", "schema: 1\nextends: tiny.yaml\ntrain: {epochs: \"${nobody}\"}\n");
  const Ended ended = attnlab({"config", "explain", "bad.yaml", "train.epochs"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.out, says_lines({{"train.epochs", "not there"},
                                     {"  # int >= 1: "},
                                     {"  tiny.yaml:6:17  2"},
                                     {"  bad.yaml:3:17   ${nobody}"},
                                     {"    nobody", "not there"},
                                     {}}));
  EXPECT_THAT(ended.err, mentions("bad.yaml:3:17: ${nobody}: ", "no 'nobody'"));
}

TEST_F(Config, DiffShowsOnlyWhatDiffersAndWhereItCameFrom) {
  folder_.write("mine.yaml",
                "schema: 1\nextends: tiny.yaml\nname: tiny\n"
                "train: {optimizer: {lr: 0.001, eps: 1e-7}}\n");
  EXPECT_EQ(must({"config", "diff", "tiny.yaml", "mine.yaml"}).out,
            "- tiny.yaml\n+ mine.yaml\n"
            "train.optimizer.eps\n"
            "  - 1e-08   # default of train\n"
            "  + 1e-7   # mine.yaml:4:37\n");
  EXPECT_EQ(must({"config", "diff", "tiny.yaml", "tiny.yaml"}).out, "no value differs\n");
  const json both = json::parse(
      must({"config", "diff", "tiny.yaml", "tiny.yaml", "attention=quest", "--json"}).out);
  const json& first = both.at("differences").at(0);
  EXPECT_EQ(first.at("key"), "attention.use");
  EXPECT_EQ(first.at("a").at("value"), "standard");
  EXPECT_EQ(first.at("a").at("origin"), "tiny.yaml:3:18");
  EXPECT_EQ(first.at("b").at("origin"), "argument 'attention=quest'");
}

TEST_F(Config, DiffAndExplainReadRunFolders) {
  must({"run", "tiny.yaml", "train.epochs=1", "dataset.train=16", "--progress", "none"});
  const std::string run = run_folder("tiny/standard");
  const std::string differing = must({"config", "diff", run, "tiny.yaml"}).out;
  EXPECT_EQ(differing, "- " + run + "\n+ tiny.yaml\n" +
                           "dataset.train\n"
                           "  - 16   # argument 'dataset.train=16'\n"
                           "  + 64   # tiny.yaml:5:41\n"
                           "train.epochs\n"
                           "  - 1   # argument 'train.epochs=1'\n"
                           "  + 2   # tiny.yaml:6:17\n");
  EXPECT_EQ(must({"config", "explain", run, "train.epochs"}).out,
            "train.epochs = 1\n  tiny.yaml:6:17: 2\n  argument 'train.epochs=1': 1\n");
  EXPECT_THAT(refusal({"config", "diff", run, run, "train.epochs=3"}),
              HasSubstr("a run's configuration is frozen"));
  EXPECT_THAT(attnlab({"config", "diff", ".", "tiny.yaml"}).err, HasSubstr("is not a run folder"));
}

TEST_F(Config, RefusesUnknownCommandsWithASuggestion) {
  EXPECT_THAT(attnlab({"config", "explian"}).err,
              mentions("'config explian'", "did you mean 'explain'?"));
  EXPECT_THAT(must({"config", "--help"}).out, HasSubstr("attnlab config schema"));
}

TEST_F(Config, SaysThatAWordWithAnEqualsSignIsNoFile) {
  folder_.write("a=b.yaml", "schema: 1\nextends: tiny.yaml\n");
  EXPECT_THAT(refusal({"config", "show", "a=b.yaml"}),
              mentions("FILE is missing", "'a=b.yaml'", "key=value", "./a=b.yaml"));
  EXPECT_THAT(must({"config", "show", "./a=b.yaml"}).out, HasSubstr("schema: 1"));
  EXPECT_THAT(attnlab({"config", "show"}).err, HasSubstr("FILE is missing\n  usage: "));
}

// ---- the schema, by a validator that is not ours

/// A value as an editor reads it, by YAML 1.2's core schema.
json json_of(const Node& node) {
  if (node.is_null()) return nullptr;
  if (node.is_list()) {
    json list = json::array();
    for (const Node& item : node.items()) list.push_back(json_of(item));
    return list;
  }
  if (node.is_map()) {
    json map = json::object();
    for (const auto& [key, value] : node.entries()) map[key] = json_of(value);
    return map;
  }
  if (const auto integer = node.as_int()) return *integer;
  if (const auto number = node.as_double()) return *number;
  if (const auto truth = node.as_bool()) return *truth;
  return node.text();
}

constexpr const char* kValidate = R"(
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
for name in sys.argv[2:]:
    errors = Draft202012Validator(schema).iter_errors(json.load(open(name)))
    print('; '.join(sorted(e.json_path + ': ' + e.message[:300] for e in errors)) or 'valid')
)";

class ConfigSchema : public Config {
 protected:
  void SetUp() override {
    if (run({.words = {"python3", "-c", "import jsonschema"}}).exit_code != 0) {
      GTEST_SKIP() << "needs python3-jsonschema";
    }
  }

  /// What the validator says of each text of YAML, under the schema of a kind of file.
  std::vector<std::string> verdicts(const std::string& kind,
                                    const std::vector<std::string>& texts) {
    folder_.write("schema.json", must({"config", "schema", kind}).out);
    std::vector<std::string> words = {"python3", "-c", kValidate, at("schema.json")};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string name = "file" + std::to_string(i) + ".json";
      words.push_back(folder_.write(name, json_of(parse_yaml(texts[i], name)).dump()));
    }
    const Ended ended = run({.words = words});
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    std::istringstream lines(ended.out);
    std::vector<std::string> verdicts;
    for (std::string line; std::getline(lines, line);) verdicts.push_back(line);
    EXPECT_EQ(verdicts.size(), texts.size());
    verdicts.resize(texts.size());
    return verdicts;
  }
  std::string verdict(const std::string& kind, const std::string& text) {
    return verdicts(kind, {text}).front();
  }
};

TEST_F(ConfigSchema, AcceptsEveryFileOfTheProjectsConfigurations) {
  const std::map<std::string, std::string> kinds = {
      {"experiments", "experiment"}, {"suites", "suite"},        {"base", "base"},
      {"models", "model"},           {"attention", "attention"}, {"tasks", "task"},
      {"datasets", "dataset"}};
  // Compositions in configs/ may be named, and are looked for where the program is called.
  fs::create_directory_symlink(ATTNLAB_TEST_CONFIGS, at("configs"));
  std::size_t seen = 0;
  for (const auto& [folder, kind] : kinds) {
    std::vector<std::string> files, texts;
    for (const auto& entry :
         fs::recursive_directory_iterator(std::string(ATTNLAB_TEST_CONFIGS) + "/" + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      files.push_back(entry.path());
      texts.push_back(read_text(entry.path()));
    }
    const std::vector<std::string> all = verdicts(kind, texts);
    for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(all[i], "valid") << files[i];
    seen += files.size();
  }
  EXPECT_GT(seen, 15u) << "the folders are there";
}

TEST_F(ConfigSchema, AcceptsAllThatCompositionAllows) {
  for (const std::string& verdict :
       verdicts("experiment",
                {must({"config", "show", "tiny.yaml"}).out,
                 "extends: [a.yaml, b.yaml]\nseeds+: [1]\nseeds-: [0]\ntrain: {epochs-: , extends: "
                 "t.yaml}\n",
                 "schema: 1\nmodel: {use: vit, dim: ???, heads: '${.depth}'}\nattention: quest\n"
                 "task: {use: attnlab/image_classification}\ndataset: {use: '${env:DATA,cifar}'}\n",
                 "extends: a.yaml\nattention: {eps: 0.5}\nmodel: {dim: 64}\nname: 7\n",
                 "extends: a.yaml\ntrain: null\nseeds: '${spare}'\n"})) {
    EXPECT_EQ(verdict, "valid");
  }
}

TEST_F(ConfigSchema, RefusesWhatValidateRefuses) {
  const std::string sound = "extends: tiny.yaml\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"tarin: {epochs: 3}\n", "'tarin'"},
      {"model: {use: vit, depht: 6}\n", "'depht'"},
      {"attention: {use: quest, eps: 2}\n", "maximum of 1"},
      {"train: {epochs: 0}\n", "minimum of 1"},
      {"train: {epochs: many}\n", "'many'"},
      {"train: {device: tpu}\n", "'tpu'"},
      {"model: {use: vti}\n", "'vti'"},
      {"attention: qest\n", "'qest'"},
      {"seeds: [0, -1]\n", "minimum of 0"},
      {"seeds+: 3\n", "not of type 'array'"},
      {"train: {epochs-: 3}\n", "not of type 'null'"},
      {"train: {optimizer: {lr: fast}}\n", "'fast'"},
      {"schema: 2\n", "1 was expected"},
  };
  std::vector<std::string> texts;
  for (const auto& [text, message] : wrong) texts.push_back(sound + text);
  const std::vector<std::string> all = verdicts("experiment", texts);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_THAT(all[i], HasSubstr(wrong[i].second)) << texts[i];
    folder_.write("wrong.yaml", texts[i]);
    EXPECT_EQ(attnlab({"validate", "wrong.yaml"}).exit_code, 2) << texts[i];
  }
  EXPECT_THAT(verdict("experiment", "schema: 1\nmodel: vit\n"), HasSubstr("'dataset'"));
  EXPECT_THAT(verdict("suite", "schema: 1\nattentions: [quest]\n"), HasSubstr("'experiments'"));
  EXPECT_THAT(verdict("suite", "extends: s.yaml\nset: {trian: {}}\n"), HasSubstr("'trian'"));
  EXPECT_THAT(verdict("suite", "extends: s.yaml\ncompare: {tset: t}\n"), HasSubstr("'tset'"));
  EXPECT_EQ(verdict("suite", "extends: s.yaml\nset: {train: {epochs: 1}}\nattentions+: [quest]\n"),
            "valid");
}

}  // namespace
}  // namespace attnlab::testing::config_test
