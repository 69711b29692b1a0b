#include "framework/experiment/keys.h"

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/manifest/option_lookup.h"
#include "tests/support/made_parts.h"

namespace attnlab::keys_test {
namespace {

using namespace testing;

TEST(Keys, AreThoseOfThePluginsThatTheCompositionNames) {
  const MadeParts parts;
  const Node named = parse_yaml("{model: {use: lab/vit}, attention: quest}", "f.yaml");
  const Schema keys = experiment_keys(named, parts.catalogue());
  EXPECT_THAT(
      option_keys(keys),
      ::testing::IsSupersetOf({"schema", "name", "model", "model.use", "model.dim", "attention.as",
                               "attention.eps", "train.optimizer.lr", "trace.every", "seeds"}));
  EXPECT_EQ(find_option(keys, "task.smoothing"), nullptr) << "no task is named";
  EXPECT_EQ(find_option(keys, "attention.use")->choices,
            (std::vector<std::string>{"quest", "standard"}));
  EXPECT_EQ(find_option(keys, "attention.positions.use")->choices,
            (std::vector<std::string>{"none", "rotary", "alibi", "t5"}));
  EXPECT_EQ(find_option(keys, "train.epochs")->type_text(), "int >= 1");
  EXPECT_EQ(find_option(keys, "train.epochs.x"), nullptr);
  EXPECT_EQ(find_option(keys, ""), nullptr);
}

TEST(Keys, OfEvaluationsAreKnownUnderTheNamesThatThereAre) {
  const MadeParts parts;
  const Node named = parse_yaml("{evaluate: {fog: {set: {model: {dim: 2}}}}}", "f.yaml");
  const Schema keys = experiment_keys(named, parts.catalogue());
  EXPECT_EQ(find_option(keys, "evaluate.fog.when")->choices,
            (std::vector<std::string>{"end", "each"}));
  EXPECT_NE(find_option(keys, "evaluate.snow.weights"), nullptr) << "a name that may come";
  EXPECT_EQ(find_option(keys, "evaluate.fog.wen"), nullptr);
}

TEST(Keys, AreSuggestedFromDeeperDownFirst) {
  const MadeParts parts;
  const Schema keys = experiment_keys(Node(), parts.catalogue());
  EXPECT_EQ(suggest_key("lr", keys), "; did you mean 'train.optimizer.lr'?");
  EXPECT_EQ(suggest_key("tarin", keys), "; did you mean 'train'?");
  EXPECT_THAT(suggest_key("train.optimizer.lr", keys),
              says({"command line", "train: {optimizer: {lr: ...}}"}));
}

TEST(Keys, AreWhatAnExperimentIsCheckedAgainst) {
  const MadeParts parts;
  const Experiment experiment =
      parts.resolve(kImages + "trace: {every: 5}\nname: x\npublished: {parameters: 5}\n");
  const Schema keys = experiment_keys(experiment.resolved, parts.catalogue());
  std::vector<std::string> resolved;
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& node,
                                                                        const std::string& at) {
    for (const auto& [key, value] : node.entries()) {
      resolved.push_back(at + key);
      walk(value, at + key + ".");
    }
  };
  walk(experiment.resolved, "");
  std::vector<std::string> known = option_keys(keys);
  // These stand only where they are given.
  std::erase_if(known, [](const std::string& key) {
    return key == "attention.as" || key == "attention.layers" || key == "train.attention_losses" ||
           key.rfind("attention.projection", 0) == 0 || key.rfind("attention.positions", 0) == 0 ||
           key.rfind("init", 0) == 0 || key.rfind("evaluate", 0) == 0;
  });
  EXPECT_THAT(resolved, ::testing::UnorderedElementsAreArray(known));
}

TEST(Roles, SayWhatHashesComparisonsAndCostsDependOn) {
  const Node config = parse_yaml(
      "{name: x, model: {dim: 2}, train: {epochs: 3, optimizer: {lr: 1}, tensorboard: true}, "
      "trace: {every: 5}, evaluate: {fog: {when: end}}, seeds: [0], published: {parameters: 5}}",
      "f.yaml");
  const std::string comparison = "{model: {dim: 2}, train: {epochs: 3, optimizer: {lr: 1}}}";
  EXPECT_EQ(to_flow(counted(config, Role::none)), to_flow(config));
  EXPECT_EQ(to_flow(counted(config, Role::identity)),
            "{model: {dim: 2}, train: {epochs: 3, optimizer: {lr: 1}, tensorboard: true}, trace: "
            "{every: 5}}");
  EXPECT_EQ(to_flow(counted(config, Role::comparison)), comparison);
  EXPECT_EQ(to_flow(counted(config, Role::cost)), "{model: {dim: 2}, train: {epochs: 3}}");
  EXPECT_EQ(role_of({"train", "optimizer", "lr"}), Role::comparison) << "as what holds it";
  EXPECT_EQ(role_of({"dataset", "seeds"}), Role::cost) << "an option of a plugin";
}

TEST(Roles, AreWhatThePageOfSuitesSays) {
  std::map<Role, std::vector<std::string>> keys;
  for (const OptionSpec& key : experiment_keys()) {
    keys[key.role].push_back(fmt::format("`{}`", key.name));
    if (key.name != "train") continue;
    for (const OptionSpec& one : key.options) {
      keys[one.role].push_back(fmt::format("`train.{}`", one.name));
    }
  }
  EXPECT_THAT(
      read_text(ATTNLAB_SOURCES "/docs/suites.md"),
      HasSubstr(fmt::format("| {} | - | - | - |\n| {} | yes | - | - |\n| {} | yes | yes | - |\n"
                            "| all others | yes | yes | yes |\n",
                            join(keys[Role::none], ", "), join(keys[Role::identity], ", "),
                            join(keys[Role::comparison], ", "))));
}

TEST(Problems, OfComposingAndOfOptionsComeTogether) {
  const MadeParts parts;
  const std::string file = parts.folder().write(
      "bad.yaml",
      kImages + "train: {epochs: 0, lr: 1, batch_size: \"${train.epohcs}\"}\nseeds-: [1]\n");
  const std::string message =
      message_of<ConfigError>([&] { load_experiment(file, {"model.dmi=3"}, parts.catalogue()); });
  EXPECT_THAT(message,
              says_lines({{file + ":7:1:", "'seeds-'", "'seeds'"},
                          {file + ":6:39:", "${train.epohcs}", "'epohcs'", "'train'", "'epochs'"},
                          {"'model.dmi=3'", "model:", "'dmi'", "'vit'", "'dim'"},
                          {file + ":6:20:", "train:", "'lr'", "'optimizer.lr'"},
                          {file + ":6:17:", "train.epochs:", "0 is out of range", ">= 1"}}));
}

TEST(Problems, ThatFollowFromAMissingFileAreNotListed) {
  const MadeParts parts;
  const std::string file =
      parts.folder().write("lost.yaml", "extends: [gone.yaml, lost.yaml]\nx: ${model.dim}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { load_experiment(file, {"y"}, parts.catalogue()); }),
              says_lines({{file + ":1:11:", "/gone.yaml:", "cannot read", "No such file"},
                          {file + ":1:22:", "extends itself", file + " -> " + file},
                          {"'y'", "key=value"}}));
}

TEST(Problems, OfAValueThatMustBeGivenAreTheSameForEveryType) {
  const MadeParts parts;
  const auto refusal = [&](const std::string& text) {
    return message_of<ConfigError>([&] { parts.resolve(kImages + text); });
  };
  EXPECT_THAT(refusal("train: ???\n"),
              says({"f.yaml:6:8:", "train:", "a value must be given", "map of options"}));
  EXPECT_THAT(
      refusal("train: {epochs: ???, schedule: ???}\n"),
      says_lines({{"f.yaml:6:17:", "train.epochs:", "a value must be given", "int >= 1"},
                  {"f.yaml:6:32:", "train.schedule:", "a value must be given", "map of options"}}));
  EXPECT_THAT(refusal("trace: {record: ???}\n"),
              AllOf(StartsWith("f.yaml:6:17: trace.record:"), HasSubstr("must be given")));
}

TEST(Experiments, TakeNothingForTheDefaultOfNameAndSeedsToo) {
  const MadeParts parts;
  const Experiment experiment = parts.resolve(kImages + "name:\nseeds:\ntrain:\n");
  EXPECT_EQ(experiment.name, "made");
  EXPECT_EQ(experiment.seeds, std::vector<std::int64_t>{0});
}

}  // namespace
}  // namespace attnlab::keys_test
