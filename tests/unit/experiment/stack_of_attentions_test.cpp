// Several mechanisms in one model: `attention: {use: linear, layers: {every_4: standard}}`.
#include <fmt/format.h>

#include <set>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/config/origins.h"
#include "framework/experiment/evaluations.h"
#include "framework/experiment/explain.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/keys.h"
#include "framework/experiment/names.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/option_lookup.h"
#include "framework/runs/lock_file.h"
#include "tests/support/made_parts.h"

namespace attnlab::stack_of_attentions_test {
namespace {

using namespace testing;

// ---- which layers a key chooses

std::string layers_of(const std::string& key, std::int64_t layers) {
  const LayerChoice choice = parse_layer_choice(key, {"f.yaml", 1, 2});
  std::vector<std::string> chosen;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (choice.has(layer, layers)) chosen.push_back(std::to_string(layer));
  }
  return join(chosen, " ");
}

TEST(LayerChoice, CountsLayersFromZero) {
  EXPECT_EQ(layers_of("first", 8), "0");
  EXPECT_EQ(layers_of("last", 8), "7");
  EXPECT_EQ(layers_of("last", 1), "0");
  EXPECT_EQ(layers_of("every_4", 12), "3 7 11");
  EXPECT_EQ(layers_of("every_2", 5), "1 3");
  EXPECT_EQ(layers_of("5", 8), "5");
  EXPECT_EQ(layers_of("2-4", 8), "2 3 4");
  EXPECT_EQ(layers_of("3-3", 8), "3");
  EXPECT_EQ(layers_of("first+last", 8), "0 7");
  EXPECT_EQ(layers_of("0+2+4-6+every_8", 8), "0 2 4 5 6 7");
  EXPECT_EQ(layers_of("999", 1000), "999");
}

TEST(LayerChoice, RefusesKeysOfAnotherForm) {
  for (const char* key : {"every 4", "every_", "every_1",     "every_0", "every_1001",
                          "every_x", "all",    "-1",          "4-2",     "4-",
                          "1000",    "0-1000", "01",          "1.5",     "first last",
                          "first+",  "+first", "first++last", "1,2",     "99999999999999999999",
                          " 1",      "First"}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  parse_layer_choice(key, {"f.yaml", 3, 4});
                }),
                AllOf(StartsWith("f.yaml:3:4: attention.layers: '" + std::string(key) + "'"),
                      HasSubstr("every_4"), HasSubstr("layers count from 0")))
        << key;
  }
  std::string long_one = "0";
  while (long_one.size() <= kLongestName) long_one += "+0";
  EXPECT_THAT(message_of<ConfigError>([&] { parse_layer_choice(long_one, {}); }),
              HasSubstr("chooses no layers"));
}

// ---- one experiment

const std::string kRest = "schema: 1\nmodel: vit\ntask: sorting\ndataset: pictures\n";

class StackTest : public WithMadeParts {
 protected:
  /// With `attention: TEXT` on line 5.
  static Experiment resolve(const std::string& attention) {
    return parts().resolve(kRest + "attention: " + attention + "\n");
  }
  static std::string refusal(const std::string& attention) {
    return message_of<ConfigError>([&] { resolve(attention); });
  }
  static std::string hash(const std::string& attention) { return resolve(attention).hash(); }
  static std::string label(const std::string& attention) {
    return resolve(attention).attention.label;
  }
};

TEST_F(StackTest, ResolvesTheMechanismOfEachKeyWithEveryDefault) {
  const Experiment experiment =
      resolve("{use: standard, layers: {every_4: {use: lab/quest, eps: 0.5}, 1+0: quest}}");
  const Part& stack = experiment.attention;
  EXPECT_EQ(stack.name, "standard");
  EXPECT_EQ(section_key(stack), "attention");
  ASSERT_EQ(stack.others.size(), 2U);
  const Part &first = stack.others[0], &fourth = stack.others[1];
  EXPECT_EQ(first.layers.key, "1+0") << "sorted";
  EXPECT_EQ(first.name, "quest");
  EXPECT_EQ(first.id, "lab/quest");
  EXPECT_EQ(first.path, parts().folder() / "plugins/quest.so");
  EXPECT_EQ(first.options.at("eps").as_double(), 1e-12);
  EXPECT_EQ(first.place.str(), "f.yaml:5:79");
  EXPECT_EQ(first.layers.place.str(), "f.yaml:5:74");
  EXPECT_EQ(section_key(first), "attention.layers.1+0");
  EXPECT_EQ(fourth.options.at("eps").as_double(), 0.5);
  EXPECT_EQ(mechanisms_text(stack), "standard (1+0: quest, every_4: quest)");
  EXPECT_EQ(to_flow(experiment.resolved.at("attention")),
            "{use: standard, layers: {\"1+0\": {use: quest, eps: 1e-12}, every_4: {use: "
            "lab/quest, eps: 0.5}}}");
  std::vector<std::string> names;
  for (const Part* part : experiment.parts()) names.push_back(part->name);
  EXPECT_THAT(names, ElementsAre("vit", "standard", "quest", "quest", "sorting", "pictures"));
}

TEST_F(StackTest, GivesALayerTheMechanismThatNamesIt) {
  const Part stack =
      resolve("{use: standard, layers: {every_4: quest, first: {use: quest, eps: 0.5}}}").attention;
  std::string found;
  for (std::int64_t layer = 0; layer < 8; ++layer) {
    const Part& part = mechanism_of(stack, layer, 8);
    found += part.layers.key.empty() ? "." : part.layers.key == "first" ? "f" : "4";
  }
  EXPECT_EQ(found, "f..4...4");
  const Part plain = resolve("quest").attention;
  EXPECT_EQ(&mechanism_of(plain, 3, 2), &plain) << "whatever the model says of its layers";
}

TEST_F(StackTest, IsOneMechanismWithoutLayers) {
  for (const char* none : {"{use: quest, layers: {}}", "{use: quest, layers: }", "{use: quest}"}) {
    const Experiment experiment = resolve(none);
    EXPECT_EQ(experiment.hash(), hash("quest")) << none;
    EXPECT_EQ(experiment.resolved.at("attention").find("layers"), nullptr) << none;
    EXPECT_EQ(experiment.attention.label, "quest") << none;
    EXPECT_EQ(mechanisms_text(experiment.attention), "quest") << none;
  }
}

TEST_F(StackTest, HashesWhatEachLayerHasAndNotTheOrderOfTheFile) {
  const std::string one = "{use: standard, layers: {first: quest, last: {use: quest, eps: 0.5}}}";
  EXPECT_EQ(hash(one),
            hash("{layers: {last: {eps: 5.0e-1, use: quest}, first: {use: quest, eps: 1e-12}}, "
                 "use: standard}"));
  const std::set<std::string> hashes = {
      hash(one),
      hash("standard"),
      hash("quest"),
      hash("{use: standard, layers: {first: quest}}"),
      hash("{use: standard, layers: {last: quest}}"),
      hash("{use: quest, layers: {last: quest}}"),
      hash("{use: standard, layers: {first: quest, last: {use: quest, eps: 0.25}}}")};
  EXPECT_EQ(hashes.size(), 7U);
  EXPECT_EQ(resolve(one).hash_without_attention(), resolve("quest").hash_without_attention());
}

TEST_F(StackTest, LoadsAgainFromItsResolvedConfiguration) {
  const Experiment first = resolve(
      "{use: quest, layers: {last: {use: quest, eps: 0.5, as: wide}, 0+2-3: standard, 5: quest}}");
  const Experiment again = frozen_experiment(parse_yaml(to_yaml(first.resolved), "config.yaml"),
                                             parts().catalogue(), "made");
  EXPECT_EQ(to_yaml(again.resolved), to_yaml(first.resolved));
  EXPECT_EQ(again.hash(), first.hash());
  EXPECT_EQ(again.attention.label, first.attention.label);
  EXPECT_EQ(mechanisms_text(again.attention), mechanisms_text(first.attention));
}

// ---- names

TEST_F(StackTest, IsCalledByItsMechanismsUnlessItHasALabel) {
  EXPECT_EQ(label("{use: quest, layers: {first: standard, last: lab/standard}}"), "quest+standard");
  EXPECT_EQ(label("{use: quest, layers: {last: {use: quest, eps: 0.5}}}"), "quest+quest");
  EXPECT_EQ(label("{use: standard, layers: {first: {use: quest, as: soft}, last: quest}}"),
            "standard+quest+soft");
  EXPECT_EQ(label("{use: quest, as: mine, layers: {last: standard}}"), "mine");
  EXPECT_EQ(name_problem(label("{use: quest, layers: {first: standard}}")), "");
  EXPECT_THAT(refusal("{use: quest, layers: {last: {use: standard, as: a/b}}}"),
              mentions("attention.layers.last.as:", "slashes"));
  const std::string word(150, 'w');
  EXPECT_THAT(refusal("{use: quest, layers: {first: {use: quest, as: " + word +
                      "}, last: {use: quest, as: 2" + word + "}}}"),
              AllOf(StartsWith("f.yaml:5:18: attention: 'quest+2www"),
                    mentions("too long", "attention.as")));
}

TEST_F(StackTest, HasOneLabelHoweverItIsWritten) {
  for (const char* text : {"quest", "lab/quest", "{use: lab/quest, layers: {first: lab/standard}}",
                           "{use: quest, layers: {last: {use: quest, as: x}, first: standard}}",
                           "{use: quest, as: a, layers: {last: standard}}"}) {
    EXPECT_EQ(attention_label(parse_yaml(text, "f")), label(text)) << text;
  }
  std::vector<std::string> found;
  for (const NamedMechanism& one : mechanisms_in(
           parse_yaml("{use: a, layers: {first: lab/b, last: {eps: 1}, 3: {use: c}}}", "f"))) {
    found.push_back(one.key + "=" + one.name);
  }
  EXPECT_THAT(found,
              ElementsAre("attention=a", "attention.layers.first=lab/b", "attention.layers.3=c"));
  EXPECT_TRUE(mechanisms_in(parse_yaml("{layers: 3}", "f")).empty());
}

TEST_F(StackTest, TakesCompositionsOfAttentionsByTheirNames) {
  const TempFolder folder;
  folder.write("configs/attention/soft.yaml", "use: quest\neps: 0.5\n");
  folder.write("configs/attention/mixed.yaml", "use: quest\nlayers: {every_2: standard}\n");
  const InFolder inside(folder.path());
  const Experiment mixed = resolve("mixed");
  EXPECT_EQ(mixed.attention.label, "mixed");
  EXPECT_EQ(mechanisms_text(mixed.attention), "quest (every_2: standard)");
  EXPECT_EQ(mechanisms_text(resolve("{use: mixed, layers: {first: soft}}").attention),
            "quest (every_2: standard, first: quest)");
  const Experiment other = resolve("{use: standard, layers: {last: soft}}");
  EXPECT_EQ(other.attention.others.at(0).options.at("eps").text(), "0.5");
  EXPECT_EQ(other.attention.label, "standard+soft");
  EXPECT_EQ(label("{use: soft, layers: {last: standard}}"), "soft+standard");
  EXPECT_THAT(refusal("{use: standard, layers: {last: mixed}}"),
              mentions("mixed.yaml:2:9:", "attention.layers.last:", "one mechanism"));
}

// ---- mistakes

TEST_F(StackTest, NamesBothPlacesOfALayerThatTwoKeysName) {
  EXPECT_THAT(refusal("{use: quest, layers: {0-3: quest, 2: standard}}"),
              says({"f.yaml:5:46:", "attention.layers.2:", "layer 2", "attention.layers.0-3",
                    "f.yaml:5:34"}));
  for (const char* both : {"first: quest, 0: quest", "every_2: quest, every_4: quest",
                           "every_2: quest, every_3: quest, 5: standard",
                           "first+last: quest, 0-1: quest", "every_4: quest, 7: quest"}) {
    EXPECT_THAT(refusal("{use: standard, layers: {" + std::string(both) + "}}"),
                AllOf(HasSubstr("names layer"), HasSubstr("too (f.yaml:5:")))
        << both;
  }
}

TEST_F(StackTest, FindsWhatDependsOnTheNumberOfLayersWhenThatIsKnown) {
  const Part stack = resolve("{use: quest, layers: {last: quest, 5: standard}}").attention;
  EXPECT_EQ(mechanism_of(stack, 5, 8).name, "standard");
  EXPECT_EQ(mechanism_of(stack, 7, 8).layers.key, "last");
  EXPECT_THAT(message_of<ConfigError>([&] { mechanism_of(stack, 0, 6); }),
              says({"f.yaml:5:34:", "attention.layers.last:", "layer 5", "attention.layers.5",
                    "f.yaml:5:47"}));
  EXPECT_THAT(message_of<ConfigError>([&] { mechanism_of(stack, 0, 3); }),
              says({"f.yaml:5:47:", "attention.layers.5:", "no layer 5", "stack of 3", "0 to 2"}));
  const Part every = resolve("{use: quest, layers: {every_4: quest, every_6: quest}}").attention;
  EXPECT_EQ(mechanism_of(every, 3, 8).layers.key, "every_4");
  EXPECT_THAT(message_of<ConfigError>([&] { mechanism_of(every, 0, 12); }),
              HasSubstr("attention.layers.every_6: names layer 11, which"));
  EXPECT_THAT(message_of<ConfigError>([&] { mechanism_of(every, 0, 5); }),
              says({"f.yaml:5:50:", "attention.layers.every_6:", "no layer", "stack of 5",
                    "smaller number"}));
}

TEST_F(StackTest, SaysEverythingThatIsWrongInEachLayer) {
  EXPECT_THAT(refusal("{use: quest, esp: 1, layers: {first: {use: quest, eps: 2}, last: {use: "
                      "standard, eps: 1}, 3: qest, 4: , x: quest, 5: {eps: 1}}}"),
              says_lines({{"f.yaml:5:25:", "attention: unknown key 'esp'"},
                          {"attention.layers.3:", "'qest'", "'quest'"},
                          {"attention.layers.4: expected {use: NAME, options...}"},
                          {"attention.layers.5: expected {use: NAME, options...}"},
                          {"attention.layers.first.eps: 2"},
                          {"attention.layers.last:", "'eps'", "'standard'"},
                          {"attention.layers: 'x' chooses no layers"}}));
  EXPECT_THAT(refusal("{use: quest, layers: [standard]}"),
              says({"f.yaml:5:33:", "attention.layers:", "{every_4: standard}", "[standard]"}));
  EXPECT_THAT(refusal("{use: quest, layers: {last: {use: standard, layers: {first: quest}}}}"),
              says({"f.yaml:5:64:", "attention.layers.last:", "one mechanism"}));
  EXPECT_THAT(message_of<ConfigError>([&] {
                parts().resolve(
                    "{schema: 1, model: {use: vit, layers: {first: vit}}, attention: quest, task: "
                    "sorting, dataset: pictures}");
              }),
              HasSubstr("model: unknown key 'layers'"))
      << "only attentions have them";
}

// ---- what the model needs

std::string on_tokens(const std::string& attention) {
  return "schema: 1\nmodel: lm\ntask: sorting\ndataset: texts\nattention: " + attention + "\n";
}

TEST_F(StackTest, HonoursTheModelsNeedsInEveryLayer) {
  EXPECT_EQ(parts().resolve(on_tokens("{use: standard, layers: {last: standard}}")).name, "made");
  EXPECT_THAT(message_of<IncompatibleError>([&] {
                parts().resolve(on_tokens("{use: standard, layers: {last: {use: quest}}}"));
              }),
              says({"f.yaml:5:49:", "'quest'", "attention.layers.last", "'causal'", "'lm'",
                    "choose another attention"}));
  EXPECT_THAT(message_of<IncompatibleError>(
                  [&] { parts().resolve(on_tokens("{use: quest, layers: {last: quest}}")); }),
              says_lines({{"f.yaml:5:18:", "'quest'", "'causal'"},
                          {"'quest'", "attention.layers.last", "not honour"}}));
}

/// Attentions that need the causal rule: `recurrent`, which has a choice, and `strict`.
class OrderedTest : public ::testing::Test {
 protected:
  OrderedTest() {
    nlohmann::json recurrent = made_manifest(Kind::attention, "recurrent");
    recurrent["traits"] = {{"causal", true}, {"ordered", true}};
    recurrent["options"] = nlohmann::json::parse(
        R"([{"name": "both_ways", "type": "bool", "default": false, "help": ""}])");
    nlohmann::json strict = made_manifest(Kind::attention, "strict");
    strict["traits"] = {{"causal", true}, {"ordered", true}};
    strict["options"] = nlohmann::json::parse(
        R"([{"name": "both_ways", "type": "string", "default": "true", "help": ""}])");
    nlohmann::json lm = made_manifest(Kind::model, "lm");
    lm["needs"] = {"causal"};
    for (const nlohmann::json& attention : {recurrent, strict}) write(attention);
    write(lm);
    write(made_manifest(Kind::attention, "free"));
    write(made_manifest(Kind::model, "vit"));
    write(made_manifest(Kind::task, "t"));
    write(made_manifest(Kind::dataset, "d"));
  }
  void write(const nlohmann::json& manifest) const {
    const std::string id = manifest.at("id");
    write_plugin(folder_, id.substr(4) + ".so", manifest);
  }
  Experiment resolve(const std::string& model, const std::string& attention) const {
    const std::string text = fmt::format(
        "{{schema: 1, task: t, dataset: d, model: {}, attention: {}}}", model, attention);
    return resolve_experiment(parse_yaml(text, "f.yaml"), catalogue_of(folder_.path()), "made");
  }
  std::string refusal(const std::string& attention) const {
    return message_of<IncompatibleError>([&] { resolve("vit", attention); });
  }

  const TempFolder folder_;
};

TEST_F(OrderedTest, IsRefusedForAModelWithoutTheCausalRule) {
  EXPECT_THAT(refusal("recurrent"),
              says({"f.yaml:1:57:", "'recurrent'", "causal rule", "'vit'", "attention.both_ways"}));
  EXPECT_THAT(refusal("strict"),
              says({"f.yaml:1:57:", "'strict'", "causal rule", "'vit'", "choose another"}))
      << "its option of that name is not a choice";
  EXPECT_THAT(refusal("{use: strict, both_ways: true}"), EndsWith("; choose another"));
  EXPECT_THAT(refusal("{use: free, layers: {last: recurrent}}"),
              says({"f.yaml:1:84:", "'recurrent'", "causal rule", "'vit'",
                    "attention.layers.last.both_ways"}));
}

TEST_F(OrderedTest, IsTakenWithTheRuleAndWhereItReadsBothWays) {
  EXPECT_FALSE(reads_both_ways(resolve("lm", "recurrent").attention));
  EXPECT_EQ(resolve("lm", "{use: free, layers: {last: strict}}").name, "made");
  EXPECT_TRUE(reads_both_ways(resolve("vit", "{use: recurrent, both_ways: true}").attention));
  EXPECT_EQ(resolve("vit", "{use: free, layers: {0: {use: recurrent, both_ways: true}}}").name,
            "made");
  EXPECT_EQ(resolve("vit", "free").name, "made") << "an attention without the trait";
}

// ---- changes, keys and where values come from

TEST_F(StackTest, IsChangedByArgumentsWithoutQuotes) {
  const TempFolder folder;
  const std::string path =
      folder.write("x.yaml", kRest + "attention: {use: quest, layers: {last: standard}}\n");
  const auto mechanisms = [&](const std::vector<std::string>& arguments) {
    return mechanisms_text(load_experiment(path, arguments, parts().catalogue()).attention);
  };
  EXPECT_EQ(mechanisms({}), "quest (last: standard)");
  EXPECT_EQ(mechanisms({"attention.layers.last=quest"}), "quest (last: quest)");
  EXPECT_EQ(mechanisms({"attention.layers.last.use=quest", "attention.layers.last.eps=0.5"}),
            "quest (last: quest)");
  EXPECT_EQ(mechanisms({"attention.layers.every_4=standard", "attention.layers.0+1=quest"}),
            "quest (0+1: quest, every_4: standard, last: standard)");
  EXPECT_EQ(mechanisms({"attention.layers.last-="}), "quest");
  EXPECT_EQ(mechanisms({"attention.layers-="}), "quest");
  EXPECT_EQ(mechanisms({"attention.eps=0.5"}), "quest (last: standard)");
  EXPECT_EQ(mechanisms({"attention=standard"}), "standard")
      << "layers are the plugin's, as options";
  EXPECT_EQ(mechanisms({"attention={use: standard, layers: {first: quest}}"}),
            "standard (first: quest)");
}

TEST_F(StackTest, KnowsTheKeysOfEachLayer) {
  const Composition composition{
      parse_yaml("{attention: {use: standard, layers: {last: quest, first: {use: lab/quest, eps: "
                 "0.5}, 3: standard}}}",
                 "f.yaml"),
      {},
      {}};
  const Schema keys = experiment_keys(composition.root, parts().catalogue());
  const std::vector<std::string> known = option_keys(keys);
  EXPECT_THAT(known,
              ::testing::IsSupersetOf({"attention.layers.last", "attention.layers.last.use",
                                       "attention.layers.last.eps", "attention.layers.first.eps",
                                       "attention.layers.3.use"}));
  EXPECT_EQ(std::count(known.begin(), known.end(), "attention.layers.last.eps"), 1);
  EXPECT_EQ(find_option(keys, "attention.layers.3.eps"), nullptr);
  EXPECT_NE(find_option(keys, "attention.layers.every_4.use"), nullptr) << "one that may come";
  const std::string text =
      explanation_text(explain(composition, keys, "attention.layers.first.eps"));
  EXPECT_THAT(text, AllOf(StartsWith("attention.layers.first.eps = 0.5\n"), HasSubstr("floor"),
                          HasSubstr("f.yaml:1:80  0.5\n")));
  const Experiment experiment = resolve("{use: standard, layers: {last: quest}}");
  EXPECT_THAT(origins_text(experiment.resolved),
              mentions("default of attention 'quest'", "attention.layers.last.eps = 1e-12\n"));
}

TEST_F(StackTest, IsChangedByEvaluationsWhoseLabelsMeanNothing) {
  const auto entries_of = [&](const std::string& evaluate) {
    return evaluations_of(
        parts().resolve(kRest + "attention: {use: standard, layers: {last: quest}}\nevaluate: " +
                        evaluate + "\n"),
        parts().catalogue());
  };
  const auto all = entries_of(
      "{a: {set: {attention: {layers: {last: {eps: 0.5}}}}}, b: {set: {attention: standard, model: "
      "{dim: 8}}}, c: {over: {attention.layers.last.eps: [0.25]}}}");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].experiment.attention.others.at(0).options.at("eps").text(), "0.5");
  EXPECT_EQ(mechanisms_text(all[1].experiment.attention), "standard (last: quest)")
      << "the same plugin keeps what it has";
  EXPECT_EQ(all[2].experiment.attention.others.at(0).options.at("eps").text(), "0.25");
  const auto hash = [&](const std::string& of_last) {
    return evaluation_hash(
        entries_of("{a: {set: {attention: {layers: {last: " + of_last + "}}}}}").at(0), "w");
  };
  EXPECT_EQ(hash("{eps: 0.5}"), hash("{eps: 0.5, as: other}"));
  EXPECT_NE(hash("{eps: 0.5}"), hash("{eps: 0.25}"));
}

// ---- plugins that a run is of

TEST(StackPlugins, AreAllPartOfARunsIdentityAndLock) {
  const MadeParts parts;
  const std::string text =
      kRest + "attention: {use: standard, layers: {first: quest, last: {use: quest, eps: 0.5}}}\n";
  const Experiment experiment = parts.resolve(text);
  const Identity before = identity_of(experiment, "d");
  EXPECT_EQ(before.plugins.at("attention").name, "standard");
  EXPECT_EQ(before.plugins.at("attention.layers.first").name, "quest");
  EXPECT_EQ(before.plugins.at("attention.layers.last").hash,
            file_hash(parts.folder() / "plugins/quest.so"));
  std::vector<std::string> ids;
  const auto lock = nlohmann::json::parse(lock_text({&experiment}, {}));
  for (const nlohmann::json& part : lock.at("parts")) ids.push_back(part.at("id"));
  EXPECT_THAT(ids, ::testing::UnorderedElementsAre("lab/vit", "lab/standard", "lab/quest",
                                                   "lab/sorting", "lab/pictures"));
  const std::string quest = parts.folder() / "plugins/quest.so";
  write_file(quest, read_text(quest) + '\0');
  const Identity now = identity_of(parts.resolve(text), "d");
  EXPECT_NE(now.hash(), before.hash());
  EXPECT_THAT(changes_between(before, now),
              ElementsAre(mentions("attention.layers.first", "'quest' changed"),
                          mentions("attention.layers.last", "'quest' changed")));
}

TEST(StackPlugins, ThatJudgeEpochsAreOnlyOthers) {
  const MadeParts parts;
  const std::string judged =
      "train: {protocol: sound, epochs: 2, early_stop: {metric: other/accuracy}}\n"
      "evaluate: {other: {when: each, split: validation, set: {attention: ";
  const auto judges = [&](const std::string& attention, const std::string& other) {
    std::vector<std::string> names;
    for (const Part& judge :
         parts.resolve(kRest + "attention: " + attention + "\n" + judged + other + "}}}\n")
             .judges) {
      names.push_back(judge.name);
    }
    return names;
  };
  EXPECT_THAT(judges("standard", "{layers: {last: quest}}"), ElementsAre("quest"));
  EXPECT_THAT(judges("{use: standard, layers: {last: quest}}", "quest"), IsEmpty());
}

}  // namespace
}  // namespace attnlab::stack_of_attentions_test
