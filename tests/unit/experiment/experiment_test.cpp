#include "framework/experiment/experiment.h"

#include <set>

#include "framework/config/origins.h"
#include "framework/experiment/compositions.h"
#include "tests/support/made_parts.h"

namespace attnlab::experiment_test {
namespace {

using namespace testing;

class ExperimentTest : public WithMadeParts {
 protected:
  static Experiment resolve(const std::string& yaml) { return parts().resolve(yaml); }
  static std::string refusal(const std::string& yaml) {
    return message_of<ConfigError>([&] { resolve(yaml); });
  }
  static std::string hash(const std::string& yaml) { return resolve(yaml).hash(); }
};

TEST_F(ExperimentTest, ResolvesItsPartsAndFillsInEveryDefault) {
  const Experiment experiment = resolve(kImages + "train: {epochs: 3, optimizer: {lr: 0.1}}\n");
  EXPECT_EQ(experiment.name, "made");
  EXPECT_EQ(experiment.attention.id, "lab/quest");
  EXPECT_EQ(experiment.attention.path, parts().folder() / "plugins/quest.so");
  EXPECT_EQ(experiment.attention.options.at("eps").as_double(), 1e-12);
  EXPECT_EQ(experiment.attention.place.str(), "f.yaml:3:18");
  EXPECT_EQ(experiment.train.epochs, 3);
  EXPECT_EQ(experiment.train.optimizer.lr, 0.1);
  const TrainOptions defaults;
  EXPECT_EQ(experiment.train.batch_size, defaults.batch_size);
  EXPECT_THAT(experiment.seeds, ElementsAre(0));
  EXPECT_EQ(experiment.resolved.at("model").at("dim").text(), "64");
  EXPECT_EQ(experiment.resolved.at("train").at("schedule").at("shape").text(), "cosine");
}

TEST_F(ExperimentTest, TakesPlainNamesAndIdsForParts) {
  const Experiment experiment = resolve(
      "{schema: 1, model: vit, attention: lab/quest, task: sorting, dataset: {use: pictures}}");
  EXPECT_EQ(experiment.model.name, "vit");
  EXPECT_EQ(experiment.attention.name, "quest");
  EXPECT_EQ(experiment.attention.label, "quest") << "a label becomes a folder's name";
}

TEST_F(ExperimentTest, LabelsAnAttentionAsItIsAsked) {
  const Experiment experiment = resolve(kImages + "name: other\n");
  EXPECT_EQ(experiment.name, "other");
  EXPECT_EQ(experiment.attention.label, "quest");
  EXPECT_EQ(resolve("{schema: 1, model: vit, attention: {use: quest, as: mine}, task: sorting, "
                    "dataset: pictures}")
                .attention.label,
            "mine");
  EXPECT_THAT(refusal("{schema: 1, model: vit, attention: {use: quest, as: a/b}, task: sorting, "
                      "dataset: pictures}"),
              mentions("attention.as:", "slashes"));
}

TEST_F(ExperimentTest, ReportsTheProblemsOfAllPartsAtOnce) {
  EXPECT_THAT(refusal("schema: 1\nmodle: 1\nmodel: {use: vit, dmi: 2}\nattention: {use: qest}\n"
                      "task: {use: sorting, smoothing: 2}\ndataset: {use: pictures}\n"
                      "train: {epochs: 0, optimiser: {}}\nseeds: [0, -1, x]\nname: a/b\n"),
              says_lines({{"f.yaml:8:12:", "seeds: -1"},
                          {"f.yaml:8:16:", "seeds:", "found x"},
                          {"f.yaml:9:7:", "name:", "slashes"},
                          {"f.yaml:3:19:", "model:", "'dmi'", "'vit'", "'dim'"},
                          {"f.yaml:4:18:", "attention:", "'qest'", "'quest'"},
                          {"f.yaml:5:33:", "task.smoothing: 2", "[0, 1]"},
                          {"f.yaml:2:1:", "'modle'", "'model'"},
                          {"f.yaml:7:20:", "train:", "'optimiser'", "'optimizer'"},
                          {"f.yaml:7:17:", "train.epochs: 0"}}));
}

TEST_F(ExperimentTest, SaysOfAnUnknownKeyToWhichPartItMayBelong) {
  EXPECT_THAT(refusal(kImages + "smoothing: 0.5\n"),
              says_lines({{"f.yaml:6:1:", "'smoothing'", "'task.smoothing'"}}));
}

TEST_F(ExperimentTest, RefusesSeedsThatAreNoneOrStandTwice) {
  EXPECT_THAT(refusal(kImages + "seeds: [0, 3, 0]\n"), says_lines({{"f.yaml:6:15:", "seeds: 0"}}));
  EXPECT_THAT(refusal(kImages + "seeds: []\n"), says_lines({{"f.yaml:6:8:", "seeds:"}}));
  EXPECT_THAT(refusal(kImages + "seeds: 3\n"), says_lines({{"seeds", "found 3", "[3]"}}));
}

TEST_F(ExperimentTest, ReadsTrainingAndEvaluationsBesideAPartThatIsWrong) {
  EXPECT_THAT(message_of<ConfigError>([&] {
                parts().resolve(
                    "schema: 1\nmodel: {use: vit, dmi: 8}\nattention: quest\n"
                    "task: sorting\ndataset: pictures\n"
                    "train: {epochs: 2000000000}\n"
                    "evaluate: {fog: {sett: {dataset: {root: x}}}}\n");
              }),
              mentions("f.yaml:2:19: model: unknown key 'dmi'",
                       "f.yaml:6:17: train.epochs: 2000000000 is more than",
                       "f.yaml:7:18:", "evaluate.fog:", "'sett'"));
}

TEST_F(ExperimentTest, AsksForThePartsThatAreMissing) {
  const std::string message = refusal("{schema: 1, model: vit, attention: 5, task: {lr: 1}}");
  EXPECT_THAT(message, mentions("no 'dataset'", "dataset: {use: NAME}", "attnlab list dataset"));
  EXPECT_THAT(message, HasSubstr("task: expected {use: NAME, options...} (attnlab list task"));
  EXPECT_THAT(refusal("schema: 1\nmodel: ???\n"), HasSubstr("f.yaml:2:8: model: expected {use: "));
}

TEST_F(ExperimentTest, WantsTheSchemaItKnows) {
  EXPECT_THAT(refusal("{model: vit, attention: quest, task: sorting, dataset: pictures}"),
              mentions("f.yaml:1:1:", "schema:", "needs a value"));
  EXPECT_THAT(
      refusal("{schema: 2, model: vit, attention: quest, task: sorting, dataset: pictures}"),
      mentions("f.yaml:1:10:", "schema:", "2 is out of range", "[1, 1]"));
}

TEST_F(ExperimentTest, RefusesAModelOnDataThatItCannotTake) {
  EXPECT_THAT(refusal("schema: 1\nmodel: {use: vit}\nattention: quest\ntask: sorting\n"
                      "dataset: {use: texts}\n"),
              says({"f.yaml:2:14:", "'vit'", "'image'", "'texts'"}));
}

TEST_F(ExperimentTest, RefusesATaskWhoseInputNobodyGives) {
  const TempFolder folder;
  nlohmann::json encoder = made_manifest(Kind::model, "encoder");
  encoder["gives"] = {"embedding"};
  nlohmann::json boxes = made_manifest(Kind::task, "boxes");
  boxes["takes"] = {"boxes"};
  write_plugin(folder, "encoder.so", encoder);
  write_plugin(folder, "boxes.so", boxes);
  write_plugin(folder, "a.so", made_manifest(Kind::attention, "a"));
  write_plugin(folder, "d.so", made_manifest(Kind::dataset, "d"));
  const Node composed =
      parse_yaml("{schema: 1, model: encoder, attention: a, task: boxes, dataset: d}", "f.yaml");
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { resolve_experiment(composed, catalogue_of(folder.path()), "x"); }),
              says({"f.yaml:1:49:", "'boxes' takes 'boxes'", "nothing gives",
                    "'encoder' gives embedding", "'d' gives nothing"}));
}

TEST_F(ExperimentTest, RefusesAnAttentionWithoutATraitThatTheModelNeeds) {
  const std::string tokens = "{schema: 1, model: lm, task: sorting, dataset: texts, attention: ";
  EXPECT_EQ(resolve(tokens + "standard}").attention.name, "standard");
  EXPECT_THAT(refusal(tokens + "quest}"),
              mentions("'quest'", "'causal'", "'lm'", "choose another attention"));
}

TEST_F(ExperimentTest, RefusesABatchThatDoesNotDivide) {
  EXPECT_THAT(refusal(kImages + "train: {batch_size: 10, accumulate: 3}\n"),
              says({"f.yaml:6:37:", "train.accumulate: 3", "train.batch_size 10"}));
}

TEST_F(ExperimentTest, RefusesToComputeLayersAgainOfAModelThatCannot) {
  EXPECT_THAT(refusal(kImages + "train: {recompute: layers}\n"),
              mentions("f.yaml:6:20:", "train.recompute:", "'vit'", "no layers"));
  EXPECT_EQ(hash(kImages + "train: {recompute: none}\n"), hash(kImages));
}

TEST_F(ExperimentTest, RefusesANameThatIsNoFoldersName) {
  EXPECT_THAT(refusal(kImages + "name: a/b\n"), mentions("name:", "slashes"));
  EXPECT_THAT(refusal(kImages + "name: [a]\n"), mentions("name:", "a string", "found [a]"));
}

// ---- trace

TEST_F(ExperimentTest, RecordsNothingUnlessItIsAskedTo) {
  for (const char* off : {"", "trace:\n", "trace: {every: 0, record: []}\n"}) {
    const Experiment experiment = resolve(kImages + off);
    EXPECT_EQ(experiment.trace.every, 0) << off;
    EXPECT_EQ(experiment.resolved.find("trace"), nullptr) << off;
    EXPECT_EQ(experiment.hash(), hash(kImages)) << off;
  }
}

TEST_F(ExperimentTest, RecordsEverythingEveryHundredStepsWhereNoMoreIsSaid) {
  const Experiment experiment = resolve(kImages + "trace: {}\n");
  EXPECT_EQ(experiment.trace.every, 100);
  EXPECT_THAT(experiment.trace.record,
              ElementsAre("logit_max", "query_norm", "key_norm", "entropy"));
  const Experiment some = resolve(kImages + "trace: {every: 7, record: [entropy]}\n");
  EXPECT_EQ(some.trace.every, 7);
  EXPECT_THAT(some.trace.record, ElementsAre("entropy"));
  EXPECT_EQ(to_flow(some.resolved.at("trace")), "{every: 7, record: [entropy]}");
}

TEST_F(ExperimentTest, NamesWhatATraceCannotRecord) {
  EXPECT_THAT(refusal(kImages + "trace: {evry: 3, every: -1, record: [entropy, logit_maxx]}\n"),
              says_lines({{"f.yaml:6:9:", "trace:", "'evry'", "'every'"},
                          {"f.yaml:6:25:", "trace.every: -1"},
                          {"f.yaml:6:47:", "trace.record:", "'logit_maxx'", "'logit_max'"}}));
  EXPECT_THAT(refusal(kImages + "trace: {record: []}\n"),
              says({"f.yaml:6:17:", "trace.record:", "set trace.every to 0"}));
}

TEST_F(ExperimentTest, RefusesToRecordKindsOfTokensThatTheDatasetDoesNotKnow) {
  EXPECT_THAT(refusal(kImages + "trace: {record: [entropy, key_norm_by_kind]}\n"),
              says({"f.yaml:6:17:", "trace.record:", "'key_norm_by_kind'", "'kind'", "'pictures'",
                    "leave it out"}));
  EXPECT_EQ(resolve(kImages + "trace: {every: 0, record: [key_norm_by_kind]}\n").trace.every, 0);
}

// ---- one part

TEST_F(ExperimentTest, MakesOnePartByItselfWithEveryDefault) {
  const Part part =
      part_of(Kind::model, "lab/vit", parse_yaml("{dim: 8}", "o"), parts().catalogue());
  EXPECT_EQ(part.name, "vit");
  EXPECT_EQ(part.id, "lab/vit");
  EXPECT_EQ(part.path, parts().folder() / "plugins/vit.so");
  EXPECT_EQ(to_flow(part.options), "{dim: 8, note: \"\", rates: [0.5]}");
  EXPECT_EQ(part_of(Kind::model, "vit", {}, parts().catalogue()).options.at("dim").text(), "64");
  EXPECT_THAT(message_of<ConfigError>([&] {
                part_of(Kind::model, "vit", parse_yaml("{dmi: 8, dim: 0}", "o"),
                        parts().catalogue());
              }),
              says_lines({{"o:1:2:", "model:", "'dmi'", "'vit'", "'dim'"},
                          {"o:1:15:", "model.dim:", "0 is out of range", ">= 1"}}));
  EXPECT_THROW(part_of(Kind::model, "vot", {}, parts().catalogue()), PluginError);
}

// ---- hashes

TEST_F(ExperimentTest, HashDoesNotDependOnNameAndSeeds) {
  EXPECT_EQ(hash(kImages), hash(kImages + "name: other\nseeds: [3, 4]\n"));
  EXPECT_EQ(hash(kImages).size(), 16u);
}

TEST_F(ExperimentTest, HashDoesNotDependOnHowDefaultsAreGiven) {
  EXPECT_EQ(hash(kImages), hash(kImages + "train: {epochs: 10}\n"));
  EXPECT_EQ(hash(kImages), hash("dataset: pictures\ntask: sorting\nattention: quest\nmodel: vit\n"
                                "schema: 1\n"))
      << "nor on the order of keys";
}

TEST_F(ExperimentTest, HashIsThatOfVersionsWithoutAPrecisionWhereItIsTheDefault) {
  Experiment experiment = resolve(kImages);
  const std::string with = experiment.hash();
  ASSERT_NE(experiment.resolved.at("train").find("precision"), nullptr);
  experiment.resolved.find("train")->erase("precision");
  EXPECT_EQ(experiment.hash(), with);
  EXPECT_NE(hash(kImages + "train: {precision: bfloat16}\n"), with);
  ASSERT_NE(experiment.resolved.at("train").at("schedule").find("warmup_prefix"), nullptr);
  experiment.resolved.find("train")->find("schedule")->erase("warmup_prefix");
  EXPECT_EQ(experiment.hash(), with);
  EXPECT_NE(hash(kImages + "train: {schedule: {warmup_prefix: false}}\n"), with);
  ASSERT_NE(experiment.resolved.at("train").find("parts"), nullptr);
  experiment.resolved.find("train")->erase("parts");
  EXPECT_EQ(experiment.hash(), with);
  EXPECT_NE(hash(kImages + "train: {parts: 2}\n"), with);
  EXPECT_EQ(hash(kImages + "train: {parts: 2, processes: 2}\n"),
            hash(kImages + "train: {parts: 2}\n"))
      << "a run is the same on any number of processes";
  EXPECT_EQ(hash(kImages + "published: {parameters: 5.7e6}\n"), with)
      << "what a paper prints changes no run";
}

TEST_F(ExperimentTest, HashIsThatOfVersionsWithoutAWordOnDecay) {
  const std::string groups = "train: {optimizer: {groups: {a: {match: [x]}}}}\n";
  Experiment experiment = resolve(kImages + groups);
  const std::string with = experiment.hash();
  Node& optimizer = *experiment.resolved.find("train")->find("optimizer");
  ASSERT_NE(optimizer.find("decay"), nullptr);
  optimizer.erase("decay");
  Node& group = *optimizer.find("groups")->find("a");
  ASSERT_NE(group.find("decay"), nullptr);
  group.erase("decay");
  EXPECT_EQ(experiment.hash(), with);
  EXPECT_NE(hash(kImages + "train: {optimizer: {decay: all}}\n"), hash(kImages));
  EXPECT_NE(hash(kImages + "train: {optimizer: {groups: {a: {match: [x], decay: all}}}}\n"), with);
}

TEST_F(ExperimentTest, HashDependsOnEveryOption) {
  // Each leaf of the resolved tree in turn gets another value. The number of processes, and where
  // they keep moments, changes no bit of a run.
  Experiment experiment = resolve(kImages + "trace: {}\n");
  std::set<std::string> hashes = {experiment.hash()};
  int leaves = 0;
  const auto change_each = [&](Node& node, const auto& self) -> void {
    for (auto& [key, value] : node.entries()) self(value, self);
    for (Node& item : node.items()) self(item, self);
    if (!node.is_scalar()) return;
    const Node before = node;
    node.set_text(node.text() + "7");
    ++leaves;
    const Node& train = *experiment.resolved.find("train");
    const bool counts = &node != train.find("processes") && &node != train.find("recompute") &&
                        &node != train.find("zero") && &node != train.find("deterministic");
    EXPECT_EQ(hashes.insert(experiment.hash()).second, counts) << to_flow(node);
    node = before;
  };
  for (const char* key : {"model", "attention", "task", "dataset", "train", "trace"}) {
    change_each(*experiment.resolved.find(key), change_each);
  }
  EXPECT_GT(leaves, 25);
}

// ---- printing and loading again

TEST_F(ExperimentTest, LoadsAgainFromItsResolvedConfiguration) {
  const TempFolder folder;
  const std::string path = folder.write(
      "x.yaml",
      "schema: 1\nmodel: {use: vit, note: \"a: $${b} #c\\n\\t'é\", rates: [.inf, 1e-3, 0.1]}\n"
      "attention: {use: quest, as: q}\ntask: sorting\ndataset: {use: pictures, root: '010'}\n"
      "train: {epochs: 3}\ntrace: {every: 9}\nseeds: [5, 7]\n");
  const Experiment first = load_experiment(path, {"train.optimizer.lr=0.5"}, parts().catalogue());
  EXPECT_EQ(first.model.options.at("note").text(), "a: ${b} #c\n\t'é");
  const Experiment again =
      load_experiment(folder.write("again.yaml", to_yaml(first.resolved)), {}, parts().catalogue());
  EXPECT_EQ(to_yaml(again.resolved), to_yaml(first.resolved));
  EXPECT_EQ(again.hash(), first.hash());
  EXPECT_EQ(again.name, "x");
  EXPECT_EQ(again.seeds, first.seeds);
  EXPECT_EQ(again.attention.label, "q");
  EXPECT_EQ(again.model.options.at("note").text(), first.model.options.at("note").text());
  EXPECT_EQ(again.train.optimizer.lr, 0.5);
  EXPECT_EQ(again.trace.every, 9);
}

TEST_F(ExperimentTest, TakesADatasetsRootFromBesideTheFileThatSaysSo) {
  const TempFolder folder;
  folder.write("lab/sets/pictures.bin", "");
  const std::string rest = "schema: 1\nmodel: vit\nattention: quest\ntask: sorting\n";
  folder.write("lab/base.yaml", rest + "dataset: {use: pictures, root: sets}\n");
  const std::string path = folder.write("x.yaml", "extends: lab/base.yaml\n");
  const auto root_of = [&](const std::string& file, const Words& overrides = {}) {
    const Experiment experiment = load_experiment(file, overrides, parts().catalogue());
    const std::string root = experiment.dataset.options.at("root").text();
    EXPECT_EQ(experiment.resolved.at("dataset").at("root").text(), root);
    return root;
  };
  EXPECT_EQ(root_of(path), folder / "lab/sets");
  EXPECT_THAT(origins_text(load_experiment(path, {}, parts().catalogue()).resolved),
              HasSubstr((folder / "lab/base.yaml") + ":5:32: sets\n"));
  EXPECT_EQ(root_of(path, {"dataset.root=sets"}), "sets") << "of the working folder";
  const auto other = [&](const std::string& root) {
    return folder.write("other.yaml", rest + "dataset: {use: pictures, root: " + root + "}\n");
  };
  EXPECT_EQ(root_of(other("sets")), "sets") << "nothing is there";
  {
    const InFolder lab(folder / "lab");
    EXPECT_EQ(root_of(path), "sets") << "the working folder's, too";
  }
  EXPECT_EQ(root_of(other("/lab/sets")), "/lab/sets");
  folder.write("lab/config.yaml", rest + "dataset: {use: pictures, root: sets}\n");
  EXPECT_EQ(root_of(folder / "lab/config.yaml"), folder / "lab/sets");
  folder.write("lab/identity.json", "{}");
  EXPECT_EQ(root_of(folder / "lab/config.yaml"), "sets") << "a run's frozen configuration";
}

TEST_F(ExperimentTest, TakesOptionsOfAPartThatIsGivenByItsPlainName) {
  const TempFolder folder;
  const std::string path = folder.write(
      "x.yaml", "{schema: 1, model: vit, attention: quest, task: sorting, dataset: pictures}");
  const Experiment experiment =
      load_experiment(path, {"attention.eps=0.5", "model.dim=8"}, parts().catalogue());
  EXPECT_EQ(experiment.attention.options.at("eps").as_double(), 0.5);
  EXPECT_EQ(experiment.model.options.at("dim").as_int(), 8);
}

TEST_F(ExperimentTest, ShowsWhereEveryValueComesFromAndWhatItWasBefore) {
  const TempFolder folder;
  folder.write("base.yaml", kImages + "train: {epochs: 3}\n");
  const std::string path = folder.write("x.yaml", "extends: base.yaml\nattention: standard\n");
  const Experiment experiment = load_experiment(path, {"train.epochs=9"}, parts().catalogue());
  const std::string origins = origins_text(experiment.resolved);
  EXPECT_THAT(origins, HasSubstr("argument 'train.epochs=9': train.epochs = 9\n    before, " +
                                 (folder / "base.yaml") + ":6:17: 3\n"));
  EXPECT_THAT(origins, HasSubstr("default of model 'vit': model.dim = 64\n"));
  EXPECT_THAT(origins, HasSubstr(folder / "x.yaml" +
                                 ":2:12: attention.use = standard\n"
                                 "    before, " +
                                 (folder / "base.yaml") + ":3:18: quest\n"));
}

TEST_F(ExperimentTest, TakesAnAttentionByTheNameOfItsComposition) {
  const TempFolder folder;
  folder.write("configs/attention/soft.yaml", "use: quest\neps: 0.5\n");
  folder.write("configs/attention/quest.yaml", "use: standard\n");
  const InFolder inside(folder.path());
  const std::string rest = "model: vit\ntask: sorting\ndataset: pictures\nschema: 1\nattention: ";
  const Experiment soft = resolve(rest + "soft\n");
  EXPECT_EQ(soft.attention.name, "quest");
  EXPECT_EQ(soft.attention.label, "soft");
  EXPECT_EQ(soft.attention.options.at("eps").text(), "0.5");
  const Experiment other = resolve(rest + "{use: soft, as: softer, eps: 0.25}\n");
  EXPECT_EQ(other.attention.label, "softer");
  EXPECT_EQ(other.attention.options.at("eps").text(), "0.25");
  EXPECT_EQ(resolve(rest + "quest\n").attention.name, "quest") << "a plugin's own name wins";
  EXPECT_THAT(refusal(rest + "sofd\n"), HasSubstr("'sofd'"));
}

// ---- finding files

TEST(FindComposition, TakesPathsAndNamesBelowConfigs) {
  const TempFolder folder;
  folder.write("configs/experiments/smoke/small.yaml", "");
  folder.write("mine.yaml", "");
  std::filesystem::create_directory(folder / "small");
  const InFolder inside(folder.path());
  EXPECT_EQ(find_composition("mine.yaml", "experiments"), "mine.yaml");
  EXPECT_EQ(find_composition("small", "experiments"), "configs/experiments/smoke/small.yaml")
      << "a folder of that name is not a composition";
}

TEST(FindComposition, SuggestsNearNamesAndRefusesAmbiguousOnes) {
  const TempFolder folder;
  folder.write("configs/suites/a/quick.yaml", "");
  folder.write("configs/suites/twice.yaml", "");
  folder.write("configs/suites/b/twice.yaml", "");
  const InFolder inside(folder.path());
  EXPECT_THAT(message_of<ConfigError>([] { find_composition("quikc", "suites"); }),
              AllOf(StartsWith("quikc:"), EndsWith("; did you mean 'quick'?"),
                    mentions("no composition", "suites of configs")));
  EXPECT_THAT(message_of<ConfigError>([] { find_composition("twice", "suites"); }),
              says({"twice:", "several files",
                    "configs/suites/b/twice.yaml, configs/suites/twice.yaml", "give the path"}));
  EXPECT_THAT(message_of<ConfigError>([] { find_composition("gone/x.yaml", "suites"); }),
              says({"gone/x.yaml:", "no such file"}));
}

}  // namespace
}  // namespace attnlab::experiment_test
