#include "framework/experiment/explain.h"

#include <regex>

#include "framework/experiment/keys.h"
#include "tests/support/made_parts.h"

namespace attnlab::explain_test {
namespace {

using namespace testing;

/// Composes files given as (name, text), the first of them, and explains with the keys of made-up
/// parts. Places are without the temporary folder's name.
class Explain : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }

  std::vector<Explanation> explained(const std::string& key,
                                     const std::vector<std::string>& overrides = {}) {
    const Composition composition = compose(folder_ / "main.yaml", overrides);
    return explain(composition, experiment_keys(composition.root, parts_.catalogue()), key);
  }
  std::string text(const std::string& key, const std::vector<std::string>& overrides = {}) {
    const std::string out = folder_.without(explanation_text(explained(key, overrides)));
    // The column of values is as wide as the longest place, whose length is not the test's.
    return std::regex_replace(out, std::regex("(\\S) {2,}"), "$1  ");
  }

  TempFolder folder_;
  MadeParts parts_;
};

TEST_F(Explain, ShowsEveryPlaceThatSetAValueOldestFirst) {
  write("main.yaml", "extends: [a.yaml, b.yaml]\ntrain: {epochs: 3}\n");
  write("a.yaml", "train: {epochs: 1}\n");
  write("b.yaml", "train:\n  epochs: 2\n");
  EXPECT_EQ(text("train.epochs", {"train.epochs=4"}),
            "train.epochs = 4\n"
            "  # int >= 1: passes over the training split\n"
            "  a.yaml:1:17  1\n"
            "  b.yaml:2:11  2\n"
            "  main.yaml:2:17  3\n"
            "  argument 'train.epochs=4'  4\n");
}

TEST_F(Explain, KnowsTheOptionsOfGroupsThatAFileNames) {
  write("main.yaml", "train: {optimizer: {groups: {head: {match: [x]}}}}\n");
  EXPECT_EQ(text("train.optimizer.groups.head.lr_scale"),
            "train.optimizer.groups.head.lr_scale = 1\n"
            "  # float >= 0: factor of the learning rate\n"
            "  default of train.optimizer.groups.head  1\n");
  EXPECT_THAT(text("train.optimizer.groups"),
              AllOf(HasSubstr("groups.head.match = [x]"), HasSubstr("groups.head.epochs = [0, -1]"),
                    Not(HasSubstr("groups.NAME"))));
}

TEST_F(Explain, KeepsTheLifeBeforeARemoval) {
  write("main.yaml", "extends: a.yaml\ntrain: {epochs-: }\n");
  write("a.yaml", "train: {epochs: 7}\n");
  EXPECT_EQ(text("train.epochs"),
            "train.epochs = 10\n"
            "  # int >= 1: passes over the training split\n"
            "  a.yaml:1:17  7\n"
            "  main.yaml:2:9  (removed)\n"
            "  default of train  10\n");
  EXPECT_THAT(text("train.epochs", {"train.epochs=2"}),
              HasSubstr("(removed)\n  argument 'train.epochs=2'  2\n"));
}

TEST_F(Explain, KeepsTheLifeOfAnOptionThatWentWithItsPlugin) {
  write("main.yaml", "extends: a.yaml\nattention: standard\n");
  write("a.yaml", "attention: {use: quest, eps: 0.5}\n");
  EXPECT_EQ(text("attention.eps"),
            "attention.eps is not there\n"
            "  a.yaml:1:30  0.5\n"
            "  main.yaml:2:12  (dropped: what it belonged to was replaced)\n");
  EXPECT_THAT(text("attention.use"), HasSubstr("  a.yaml:1:18  quest\n"
                                               "  main.yaml:2:12  standard\n"));
}

TEST_F(Explain, TellsAppendingAndRemovingFromReplacing) {
  write("main.yaml", "extends: a.yaml\nseeds+: [2]\n");
  write("a.yaml", "seeds: [0, 1]\n");
  EXPECT_EQ(text("seeds", {"seeds-=[0]", "seeds=[5]"}),
            "seeds = [5]\n"
            "  # list of int >= 0: one run for each\n"
            "  a.yaml:1:8  [0, 1]\n"
            "  main.yaml:2:9  [0, 1, 2]  (appended)\n"
            "  argument 'seeds-=[0]'  [1, 2]  (items removed)\n"
            "  argument 'seeds=[5]'  [5]\n");
}

TEST_F(Explain, FollowsReferencesToTheirValuesAndKeepsWhatStoodThereBefore) {
  write("main.yaml",
        "extends: a.yaml\ntrain: {batch_size: 64, eval_batch_size: \"${.batch_size}\"}\n");
  write("a.yaml", "train: {eval_batch_size: 5}\n");
  EXPECT_EQ(text("train.eval_batch_size"),
            "train.eval_batch_size = 64\n"
            "  # int >= 1: examples per batch in evaluation\n"
            "  a.yaml:1:26  5\n"
            "  main.yaml:2:42  ${.batch_size}\n"
            "    train.batch_size = 64\n"
            "      main.yaml:2:21  64\n");
}

TEST_F(Explain, TellsOfAValueOnceHoweverOftenItIsReferredTo) {
  std::string text_of = "x0: 1\n";
  for (int i = 1; i < 8; ++i) {
    text_of += "x" + std::to_string(i) + ": \"";
    for (int k = 0; k < 8; ++k) text_of += "${x" + std::to_string(i - 1) + "}";
    text_of += "\"\n";
  }
  write("main.yaml", text_of);
  const std::string told = text("x3");
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 8) << told;  // two lines per key
}

TEST_F(Explain, ShowsTheReferenceThatAValueCameBelow) {
  write("main.yaml", "spare: {use: vit, dim: 8}\nmodel: ${spare}\n");
  EXPECT_EQ(text("model.dim"),
            "model.dim = 8\n"
            "  # int >= 1\n"
            "  main.yaml:2:8  model = ${spare}\n"
            "  main.yaml:1:24  8\n");
}

TEST_F(Explain, ExplainsEverythingBelowAMapWithWhatIsGoneAndWhatIsDefault) {
  write("main.yaml", "extends: a.yaml\nmodel: {dim-: }\n");
  write("a.yaml", "model: {use: vit, dim: 8, note: x}\n");
  std::vector<std::string> keys;
  for (const Explanation& one : explained("model")) keys.push_back(one.key);
  EXPECT_THAT(keys, ElementsAre("model.use", "model.note", "model.dim", "model.rates"));
}

TEST_F(Explain, WorksOnFilesWithErrorsAsFarAsTheyGo) {
  write("main.yaml", "extends: [gone.yaml, a.yaml]\ntrain: {epochs: ten, lst-: [1]}\n");
  write("a.yaml", "train: {epochs: 1}\n");
  EXPECT_THAT(text("train.epochs"), HasSubstr("main.yaml:2:17  ten"));
}

TEST_F(Explain, HasNoLineThatOthersWrote) {
  write("main.yaml", "\"a\\nforged\": 1\nb: 2\nc: \"${b}\\nforged\"\n");
  EXPECT_THAT(
      text("", {"train={epochs: 7,\nforged: 1}"}),
      AllOf(HasSubstr("a forged = 1\n"), HasSubstr("  \"${b}\\nforged\"\n"),
            HasSubstr("argument 'train={epochs: 7, forged: 1}'  7\n"), Not(HasSubstr("\nforged"))));
  write("main.yaml", "m: {x: 1}\n\"a\\nforged\": \"${m}\"\n");
  EXPECT_THAT(text("", {}), AllOf(HasSubstr("a forged.x = 1\n"), Not(HasSubstr("\nforged"))));
}

TEST_F(Explain, PutsValuesInOneColumn) {
  write("main.yaml", "train: {epochs: 3}\n");
  const std::string text = explanation_text(explained("train.epochs", {"train.epochs=40"}));
  const std::size_t first = text.find("main.yaml:1:17"), second = text.find("argument '");
  const auto column = [&](std::size_t from, const std::string& value) {
    return text.find(value, from) - text.rfind('\n', from);
  };
  EXPECT_EQ(column(first, " 3\n"), column(second, " 40\n"));
}

TEST_F(Explain, SuggestsKeys) {
  write("main.yaml", "train: {epochs: 1}\n");
  const auto refusal = [&](const std::string& key) {
    return message_of<ConfigError>([&] { text(key); });
  };
  EXPECT_THAT(refusal("train.epohcs"), says({"'train.epohcs'", "'train.epochs'"}));
  EXPECT_THAT(refusal("weight_decay"), says({"'weight_decay'", "'train.optimizer.weight_decay'"}));
}

TEST_F(Explain, SaysTheSameInJson) {
  write("main.yaml", "extends: a.yaml\nseeds+: [2]\n");
  write("a.yaml", "seeds: [0]\n");
  const auto json = nlohmann::json::parse(explanation_json(explained("seeds")));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0].at("key"), "seeds");
  EXPECT_EQ(json[0].at("value"), "[0, 2]");
  const auto& steps = json[0].at("steps");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].at("step"), "set");
  EXPECT_EQ(steps[0].at("file"), folder_ / "a.yaml");
  EXPECT_EQ(steps[0].at("line"), 1);
  EXPECT_EQ(steps[0].at("column"), 8);
  EXPECT_EQ(steps[1].at("step"), "append");
  EXPECT_EQ(steps[1].at("value"), "[0, 2]");
}

}  // namespace
}  // namespace attnlab::explain_test
