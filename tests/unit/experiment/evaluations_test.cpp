#include "framework/experiment/evaluations.h"

#include <set>

#include "framework/experiment/identity.h"
#include "tests/support/made_parts.h"

namespace attnlab::evaluations_test {
namespace {

using namespace testing;

class EvaluationsTest : public ::testing::Test {
 protected:
  EvaluationsTest() {
    nlohmann::json task = made_manifest(Kind::task, "counting");
    task["takes"] = {"logits"};
    write_plugin(parts_.folder(), "plugins/counting.so", task);
    catalogue_ = catalogue_of(parts_.folder() / "plugins");
  }
  Experiment resolve(const std::string& more) const {
    Node composed = parse_yaml(kImages + more, "f.yaml");
    interpolate(composed);
    return resolve_experiment(composed, *catalogue_, "made");
  }
  std::vector<EvaluationEntry> entries(const std::string& more) const {
    return evaluations_of(resolve(more), *catalogue_);
  }
  std::string refusal(const std::string& more) const {
    return message_of<ConfigError>([&] { resolve(more); });
  }

  const MadeParts parts_;
  std::optional<Catalogue> catalogue_;
};

TEST_F(EvaluationsTest, AreTheRunsCompositionWithSomeValuesChanged) {
  const auto all = entries(
      "train: {average: {decay: 0.9}}\n"
      "evaluate:\n"
      "  clean: {}\n"
      "  fog: {set: {dataset: {root: fog}}, when: each, split: validation, weights: average}\n"
      "  count: {set: {task: {use: counting}, model: {dim: 8}}}\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "fog");
  EXPECT_TRUE(all[0].each() && all[0].average());
  EXPECT_EQ(all[0].options.split, "validation");
  EXPECT_EQ(all[0].experiment.dataset.options.at("root").text(), "fog");
  EXPECT_EQ(all[0].experiment.task.name, "sorting");
  EXPECT_FALSE(all[1].each() || all[1].average());
  EXPECT_EQ(all[1].experiment.task.name, "counting");
  EXPECT_EQ(all[1].experiment.task.options.find("smoothing"), nullptr)
      << "another plugin's options";
  EXPECT_EQ(all[1].experiment.model.options.at("dim").as_int(), 8);
}

TEST_F(EvaluationsTest, MergeAsCompositionsDo) {
  const auto all = entries(
      "evaluate:\n  more: {set: {model: {rates+: [0.25]}}}\n  fewer: {set: {model: {rates-: "
      "[0.5]}}}\n  named: {set: {attention: standard}}\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(to_flow(all[0].experiment.model.options.at("rates")), "[0.5, 0.25]");
  EXPECT_EQ(to_flow(all[1].experiment.model.options.at("rates")), "[]");
  EXPECT_EQ(all[2].experiment.attention.name, "standard");
}

TEST_F(EvaluationsTest, OverListsAreEveryCombination) {
  const auto all = entries(
      "evaluate: {c: {set: {model: {note: x}}, over: {dataset.root: [fog, snow], model.dim: [1, "
      "2]}}}\n");
  std::vector<std::string> names;
  for (const EvaluationEntry& entry : all) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.group, "c");
    EXPECT_EQ(entry.experiment.model.options.at("note").text(), "x");
  }
  EXPECT_THAT(names, ElementsAre("c/fog/1", "c/fog/2", "c/snow/1", "c/snow/2"));
  EXPECT_EQ(all[2].experiment.dataset.options.at("root").text(), "snow");
  EXPECT_EQ(to_flow(all[2].set), "{model: {note: x, dim: 1}, dataset: {root: snow}}");
}

TEST_F(EvaluationsTest, AreCheckedLikeExperimentsAllAtOnce) {
  EXPECT_THAT(
      refusal("evaluate:\n"
              "  fog: {set: {dataset: {rot: fog}}}\n"
              "  odd: {dataset: {root: fog}, wen: each}\n"
              "  two: {set: {train: {epochs: 2}, dataset: texts}}\n"
              "  'a/b': {weights: average}\n"
              "  late: {when: never, set: {model: {dim: 3}}}\n"
              "  same: {}\n"
              "  clean: {weights: average}\n"
              "  all: {over: {dataset.root: [a, a, b/c], model.dim: 3}}\n"
              "  far: {over: {model.dim: [0, -1]}}\n"),
      says_lines(
          {{"f.yaml:7:25:", "dataset:", "'rot'", "'pictures'", "'root'"},
           {"f.yaml:8:9:", "evaluate.odd:", "'dataset'", "{dataset: {...}", "write set:"},
           {"f.yaml:8:31:", "evaluate.odd:", "'wen'", "'when'"},
           {"f.yaml:9:15:", "evaluate.two.set:", "'train'", "model, attention, task, dataset"},
           {"f.yaml:10:3:", "evaluate:", "'a/b'", "slashes"},
           {"f.yaml:11:16:", "evaluate.late.when:", "'never'", "end, each"},
           {"f.yaml:12:3:", "evaluate.same:", "set: {...}", "over: {...}"},
           {"f.yaml:13:10:", "evaluate.clean:", "{}", "write clean:", "choose another name"},
           {"f.yaml:14:34:", "evaluate.all.over.dataset.root:", "dataset.root: a stands"},
           {"f.yaml:14:37:", "evaluate.all.over.dataset.root:", "dataset.root: b/c:", "slashes"},
           {"f.yaml:15:28:", "model.dim: 0"}}));
  EXPECT_THAT(refusal("evaluate: {mean: {weights: average}}\n"),
              says({"f.yaml:6:28:", "evaluate.mean.weights:", "set train.average.decay"}));
  EXPECT_THAT(refusal("evaluate: {other: {set: {dataset: texts}}}\n"),
              mentions("'vit'", "'image'", "nothing gives"));
}

TEST_F(EvaluationsTest, OverListsNoPythonFiles) {
  EXPECT_THAT(refusal("evaluate: {c: {over: {attention.use: [standard, mine.py]}}}\n"),
              mentions("evaluate.c.over.attention.use:", "mine.py", "set: {attention: mine.py}"));
}

TEST_F(EvaluationsTest, ThatAnAttentionDoesNotFitAreAFindingAboutIt) {
  const std::string message = message_of<IncompatibleError>(
      [&] { resolve("evaluate: {lm: {set: {model: {use: lm}, dataset: {use: texts}}}}\n"); });
  EXPECT_THAT(message, AllOf(HasSubstr("does not honour 'causal'"), HasSubstr("(evaluate.lm)")));
}

TEST_F(EvaluationsTest, AreNoPartOfATraining) {
  const std::string plain = resolve("").hash();
  EXPECT_EQ(resolve("evaluate: {clean: {}}\n").hash(), plain);
  EXPECT_EQ(resolve("evaluate: {fog: {set: {dataset: {root: fog}}}}\n").hash(), plain);
}

const std::string kJudged =
    "train: {protocol: sound, early_stop: {metric: fog/accuracy, patience: 2}}\n";

TEST_F(EvaluationsTest, AreOfItWhereTheyChooseTheEpoch) {
  const auto judged = [&](const std::string& root, const std::string& more = "") {
    return resolve(kJudged + "evaluate: {fog: {set: {dataset: {root: " + root +
                   "}}, when: each, split: validation}" + more + "}\n");
  };
  EXPECT_NE(judged("fog").hash(), judged("snow").hash());
  EXPECT_EQ(judged("fog").hash(), judged("fog", ", x: {set: {model: {dim: 1}}}").hash());
  const Experiment counted = resolve(
      kJudged + "evaluate: {fog: {set: {task: {use: counting}}, when: each, split: validation}}\n");
  ASSERT_EQ(counted.judges.size(), 1U);
  EXPECT_EQ(counted.judges[0].name, "counting");
}

TEST_F(EvaluationsTest, ThatChooseTheEpochMustBeThereInTime) {
  EXPECT_THAT(
      refusal(kJudged + "evaluate: {fog: {set: {dataset: {root: fog}}}}\n"),
      says_lines({{"f.yaml:6:47:", "train.early_stop.metric:", "give it when: each"},
                  {"f.yaml:6:47:", "train.early_stop.metric:", "give it split: validation"}}));
  EXPECT_THAT(refusal(kJudged + "evaluate: {fig: {set: {dataset: {root: fog}}}}\n"),
              says({"f.yaml:6:47:", "train.early_stop.metric:", "'fog'", "'fig'"}));
}

TEST_F(EvaluationsTest, AreFrozenWithTheRun) {
  const Experiment first = resolve(
      "evaluate: {c: {set: {model: {rates+: [1]}}, over: {dataset.root: [a, b]}}, clean: {}}\n");
  const Experiment again =
      resolve_experiment(parse_yaml(to_yaml(first.resolved), "g.yaml"), *catalogue_, "made");
  EXPECT_EQ(canonical_text(again.resolved), canonical_text(first.resolved));
  const auto entries = evaluations_of(again, *catalogue_);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(to_flow(entries[1].experiment.model.options.at("rates")), "[0.5, 1]");
}

TEST_F(EvaluationsTest, ComeFromAFileForARunThatIsThere) {
  const TempFolder temp;
  temp.write("base.yaml", "evaluate: {fog: {set: {dataset: {root: fog}}}}\n");
  const std::string path =
      temp.write("more.yaml", "extends: base.yaml\nevaluate: {fog: {set: {model: {dim: 2}}}}\n");
  const auto all = evaluations_of(
      with_evaluations(resolve("evaluate: {x: {set: {task: counting}}}\n"), path, *catalogue_),
      *catalogue_);
  ASSERT_EQ(all.size(), 1U) << "those of the file alone";
  EXPECT_EQ(all[0].experiment.dataset.options.at("root").text(), "fog");
  EXPECT_EQ(all[0].experiment.model.options.at("dim").as_int(), 2);
  const std::string wrong = temp.write("wrong.yaml", "schema: 1\ntrain: {epochs: 2}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { with_evaluations(resolve(""), wrong, *catalogue_); }),
              mentions("wrong.yaml:2:1:", "'train'", "'evaluate:'"));
}

TEST_F(EvaluationsTest, AreToldApartByAllThatTheyEvaluate) {
  const auto hash = [&](const std::string& entry, const std::string& weights = "w",
                        const std::string& data = "d") {
    const std::string more = "train: {average: {decay: 0.9}}\nevaluate: {e: " + entry + "}\n";
    return evaluation_hash(entries(more).at(0), weights, data);
  };
  const std::string fog = "{set: {dataset: {root: fog}}}";
  EXPECT_EQ(hash(fog), hash("{set: {dataset: {root: fog}}, when: each}"));
  std::set<std::string> hashes = {hash(fog),
                                  hash("{set: {dataset: {root: snow}}}"),
                                  hash("{set: {dataset: {root: fog}}, split: validation}"),
                                  hash("{set: {dataset: {root: fog}}, weights: average}"),
                                  hash("{set: {dataset: {root: fog}, attention: standard}}"),
                                  hash(fog, "v"),
                                  hash(fog, "w", "e")};
  EXPECT_EQ(hashes.size(), 7U);
  const std::string file = parts_.folder() / "plugins/quest.so";
  write_file(file, read_text(file) + '\0');
  EXPECT_TRUE(hashes.insert(hash(fog)).second) << "another plugin file";
  EXPECT_EQ(hash(fog).size(), 16U);
}

}  // namespace
}  // namespace attnlab::evaluations_test
