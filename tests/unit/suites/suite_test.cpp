// Suites as they are read: cells, labels, changes, and all mistakes at once.
#include "framework/manifest/option_lookup.h"
#include "framework/suites/suite_keys.h"
#include "tests/unit/suites/made_suites.h"

namespace attnlab::suite_test {
namespace {

using namespace testing;

TEST_F(SuiteTest, TakesAnAttentionByTheNameOfItsComposition) {
  temp_.write("configs/attention/soft.yaml", "use: quest\nas: soft\neps: 0.25\n");
  const InFolder inside(temp_.path());
  const Suite suite = load(
      "schema: 1\nattentions: [standard, soft, {use: soft, as: other, eps: 0.125}]\n"
      "experiments: [small.yaml]\nseeds: [0]\n");
  EXPECT_THAT(suite.attentions, ElementsAre("standard", "soft", "other"));
  ASSERT_EQ(suite.cells.size(), 3U);
  const Part& soft = suite.cells[1].experiment.attention;
  EXPECT_EQ(soft.name + " " + soft.label + " " + soft.options.at("eps").text(), "quest soft 0.25");
  EXPECT_THAT(suite.cells[1].folder.path(), HasSubstr("/small/soft/0-"));
  EXPECT_EQ(suite.cells[2].experiment.attention.options.at("eps").text(), "0.125");
}

TEST_F(SuiteTest, HasACellForEachExperimentAttentionAndSeed) {
  const Suite suite =
      load("schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml, large.yaml]\n");
  EXPECT_EQ(suite.name, "s");
  EXPECT_EQ(suite.baseline, "standard") << "the first attention, unless another is named";
  EXPECT_THAT(suite.attentions, ElementsAre("standard", "quest"));
  EXPECT_THAT(suite.experiments, ElementsAre("small", "large"));
  std::vector<std::string> labels;
  for (const Cell& cell : suite.cells)
    labels.push_back(RunFolder::label(cell.experiment, cell.seed));
  EXPECT_THAT(labels, ElementsAre("small/standard/0", "small/standard/1", "small/quest/0",
                                  "small/quest/1", "large/standard/0", "large/standard/1",
                                  "large/quest/0", "large/quest/1"));
  EXPECT_THAT(suite.cells[0].folder.path(), StartsWith(temp_ / "runs/s/small/standard/0-"));
}

TEST_F(SuiteTest, NamesTheLineOfAFileOfWeightsThatIsNotThere) {
  temp_.write("begun.yaml", "extends: small.yaml\ninit: {from: lost.safetensors}\n");
  const std::string message =
      refusal("schema: 1\nattentions: [standard, quest]\nexperiments: [begun.yaml, small.yaml]\n");
  EXPECT_THAT(message, mentions("begun.yaml:2:14:", "init.from:", "'lost.safetensors'", "make it"));
  EXPECT_EQ(message.find("init.from"), message.rfind("init.from")) << "said once for all cells";
}

TEST_F(SuiteTest, KeepsTheExperimentsOptionsOfTheSamePluginOnly) {
  const Suite suite = load(kBoth);
  EXPECT_EQ(suite.cells[0].experiment.attention.options.find("eps"), nullptr);
  EXPECT_EQ(suite.cells[2].experiment.attention.options.at("eps").as_double(), 0.5);
}

TEST_F(SuiteTest, TellsVariantsOfOneAttentionApartByTheirLabels) {
  const Suite suite = load(
      "schema: 1\nattentions: [quest, {use: quest, as: quest-eps, eps: 0.25}, lab/standard]\n"
      "experiments: [small.yaml]\nseeds: [0]\n");
  EXPECT_THAT(suite.attentions, ElementsAre("quest", "quest-eps", "standard"));
  EXPECT_EQ(suite.cells[1].experiment.attention.label, "quest-eps");
  EXPECT_EQ(suite.cells[1].experiment.attention.options.at("eps").as_double(), 0.25);
  EXPECT_EQ(suite.cells[2].experiment.attention.label, "standard");
}

TEST_F(SuiteTest, UsesItsOwnLabelsWhateverTheExperimentCallsItsAttention) {
  temp_.write("named.yaml", "extends: small.yaml\nattention: {as: special}\n");
  const Suite suite = load("schema: 1\nattentions: [quest]\nexperiments: [named.yaml]\n");
  for (const Cell& cell : suite.cells) EXPECT_EQ(cell.experiment.attention.label, "quest");
}

TEST_F(SuiteTest, RefusesLabelsThatStandTwice) {
  EXPECT_THAT(refusal("schema: 1\nattentions: [quest, {use: quest, eps: 0.1}]\n"
                      "experiments: [small.yaml]\n"),
              says({"s.yaml:2:21:", "'quest'", "`as: LABEL`"}));
}

TEST_F(SuiteTest, RefusesABaselineThatIsNoneOfItsAttentions) {
  EXPECT_THAT(refusal("baseline: standart\n" + kBoth),
              says({"s.yaml:1:11:", "baseline:", "'standart'", "'standard'"}));
}

TEST_F(SuiteTest, RefusesAnExperimentThatStandsTwice) {
  temp_.write("other/small.yaml", "extends: ../small.yaml\nmodel: {dim: 9}\n");
  EXPECT_THAT(
      refusal("schema: 1\nattentions: [quest]\nexperiments: [small.yaml, other/small.yaml]\n"),
      says({"s.yaml:3:27:", "'small'", "`name:`"}));
}

TEST_F(SuiteTest, ReportsItsOwnProblemsAndThoseOfItsCellsOnce) {
  temp_.write("bad.yaml", "extends: small.yaml\nmodel: {dmi: 8}\n");
  EXPECT_THAT(
      refusal("schema: 1\nattention: x\nset: 5\nname: a/b\nattentions: [standard, quest, {use: "
              "qest}]\nexperiments: [bad.yaml]\n"),
      says_lines({{"s.yaml:2:1:", "'attention'", "'attentions'"},
                  {"s.yaml:3:6:", "set:", "map of options", "found 5"},
                  {"s.yaml:4:7:", "name:", "slashes"},
                  {"bad.yaml:2:9:", "model:", "'dmi'", "'vit'", "'dim'"},
                  {"s.yaml:5:37:", "attention:", "'qest'", "'quest'"}}));
}

TEST_F(SuiteTest, SaysAllMistakesInOneGo) {
  temp_.write("bad.yaml",
              "extends: small.yaml\nmodel: {dmi: 8}\n"
              "evaluate: {fog: {sett: {dataset: {root: x}}}}\n");
  temp_.write("half.yaml", "extends: [small.yaml, gone.yaml]\n");
  const std::string refused = refusal(
      "schema: 1\n"
      "attentions: [standard, {us: quest}, {use: qest}]\n"
      "experiments: [smal.yaml, bad.yaml, half.yaml]\n"
      "set: {train: {epochs: none}, seeds-: [7], model: {dim: '${.dmi}'}}\n"
      "page: {titel: x, columns: [{domain: d, experiment: smal}]}\n"
      "skip: [{experiment: smal, seeds: [5]}]\n"
      "relative: {to: smal}\n");
  const std::vector<Words> mistakes = {
      {"s.yaml:2:24: attentions:", "{use: NAME, as: LABEL, ...}", "found {us: quest}"},
      {"s.yaml:2:43: attention:", "'qest'", "'quest'"},
      {"s.yaml:3:15: experiments:", "smal.yaml:", "no such file"},
      {"half.yaml:1:23:", "gone.yaml:", "No such file"},
      {"bad.yaml:2:9: model:", "'dmi'", "'vit'", "'dim'"},
      {"bad.yaml:3:18: evaluate.fog:", "unknown key 'sett'"},
      {"s.yaml:4:23: train.epochs:", "an integer", "found none"},
      {"s.yaml:4:39:", "'seeds'", "no item 7"},
      {"s.yaml:5:8: page:", "unknown key 'titel'"},
      {"s.yaml:6:8: skip.reason:", "needs a value"}};
  for (const Words& mistake : mistakes) {
    EXPECT_THAT(refused, has_line(mistake)) << mistake.front();
  }
  EXPECT_THAT(refused, Not(HasSubstr("not one of the suite's"))) << "which are not all known";
}

TEST_F(SuiteTest, SaysWhatIsWrongBesideWhatComposingFinds) {
  EXPECT_THAT(refusal(kBoth + "seeds: ${sedes}\nset-: [x]\nwarnin: x\n"),
              mentions("s.yaml:4:8: ${sedes}", "s.yaml:5:1: 'set-' removes",
                       "s.yaml:6:1:", "unknown key 'warnin'"));
}

TEST_F(SuiteTest, NeedsAttentionsAndExperiments) {
  EXPECT_THAT(refusal("schema: 1\nexperiments: [small.yaml]\n"),
              says({"s.yaml:1:1:", "attentions:", "(list)",
                    find_option(schema_of<SuiteKeys>(), "attentions")->help}));
  EXPECT_THAT(refusal("schema: 1\nattentions: [quest]\nexperiments: []\n"),
              says({"s.yaml:3:14:", "experiments:", "(list of string)", "`configs/experiments`"}));
  EXPECT_THAT(
      refusal("schema: 1\nattentions: [[quest]]\nexperiments: [small.yaml]\n"),
      AllOf(StartsWith("s.yaml:2:14: attentions:"), HasSubstr("{use: NAME, as: LABEL, ...}")));
  EXPECT_THAT(
      refusal("schema: 1\nattentions: [quest]\nexperiments: [gone.yaml]\n"),
      AllOf(StartsWith("s.yaml:3:15: experiments:"), mentions("gone.yaml:", "no such file")));
}

TEST_F(SuiteTest, ChangesEveryExperimentBySetAndSeeds) {
  const Suite suite = load(kBoth + "set: {train: {epochs: 2}, model: {dim: 4}}\nseeds: [7]\n");
  ASSERT_EQ(suite.cells.size(), 2u);
  EXPECT_EQ(suite.cells[0].seed, 7);
  EXPECT_EQ(suite.cells[0].experiment.train.epochs, 2);
  EXPECT_EQ(suite.cells[1].experiment.model.options.at("dim").as_int(), 4);
}

TEST_F(SuiteTest, TakesOverridesOfTheSuite) {
  const Suite suite =
      load(kBoth, false, {"set.train.epochs=5", "seeds=[9]", "attentions-=[quest]"});
  ASSERT_EQ(suite.cells.size(), 1u);
  EXPECT_EQ(suite.cells[0].experiment.train.epochs, 5);
}

TEST_F(SuiteTest, ReplacesDataByTheFallbackOnlyWhenAskedTo) {
  const std::string yaml = kBoth + "fallback: {dataset: {root: made-up}}\n";
  EXPECT_EQ(load(yaml).cells[0].experiment.dataset.options.at("root").text(), "real");
  const Suite fallen = load(yaml, true);
  EXPECT_EQ(fallen.cells[0].experiment.dataset.options.at("root").text(), "made-up");
  EXPECT_EQ(to_flow(fallen.fallback), "{dataset: {root: made-up}}");
  EXPECT_NE(fallen.cells[0].folder.path(), load(yaml).cells[0].folder.path())
      << "made-up data must not pass for real data";
}

TEST_F(SuiteTest, DoesNotReadReferencesTwice) {
  const Suite suite = load(kBoth + "set: {dataset: {root: '$${HOME}/x'}}\n");
  EXPECT_EQ(suite.cells[0].experiment.dataset.options.at("root").text(), "${HOME}/x");
}

}  // namespace
}  // namespace attnlab::suite_test
