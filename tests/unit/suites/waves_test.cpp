// The order of a suite's runs where some begin with others' parameters.
#include "framework/suites/dependency_levels.h"

#include "framework/config/origins.h"
#include "framework/suites/suite.h"
#include "tests/support/made_parts.h"

namespace attnlab::waves_test {
namespace {

using namespace testing;

/// A cell of an experiment that begins with another's run; with none where `source` is empty.
Cell cell(const std::string& name, const std::string& source) {
  Cell made{{}, 0, RunFolder(""), {}, CellAction::run, "", false};
  made.experiment.name = name;
  if (!source.empty()) made.experiment.init = InitOptions{.experiment = source};
  return made;
}

std::vector<std::vector<std::string>> names(const std::vector<Cell>& cells) {
  std::vector<std::vector<std::string>> all;
  for (const auto& wave : dependency_levels(cells)) {
    std::vector<std::string>& of_wave = all.emplace_back();
    for (const Cell* one : wave) of_wave.push_back(one->experiment.name);
  }
  return all;
}

TEST(Waves, PutWhatARunBeginsWithBeforeIt) {
  const std::vector<Cell> cells = {cell("third", "paper/second.yaml"), cell("second", "first"),
                                   cell("other", ""), cell("first", ""), cell("second", "first")};
  EXPECT_THAT(names(cells), ElementsAre(ElementsAre("other", "first"),
                                        ElementsAre("second", "second"), ElementsAre("third")));
}

TEST(Waves, AreOneWhereTheSourceIsNoCellOfTheSuite) {
  EXPECT_THAT(names({cell("second", "elsewhere"), cell("first", "")}),
              ElementsAre(ElementsAre("second", "first")));
  EXPECT_THAT(names({}), IsEmpty());
}

TEST(Waves, PutAPointOfAGridBehindTheSamePointOfItsSource) {
  const std::vector<Cell> cells = {cell("second,lr=1", "first"), cell("second,lr=2", "first"),
                                   cell("first,lr=2", "")};
  EXPECT_THAT(names(cells),
              ElementsAre(ElementsAre("second,lr=1", "first,lr=2"), ElementsAre("second,lr=2")));
}

TEST(Waves, RefuseExperimentsThatBeginWithEachOther) {
  EXPECT_THROW(dependency_levels({cell("a", "b"), cell("b", "a")}), ConfigError);
}

/// Suites of `first` and of `second`, which begins with its run.
class SourcesInASuite : public ::testing::Test {
 protected:
  SourcesInASuite() {
    first_ = folder_.write("first.yaml", kImages);
    folder_.write("second.yaml",
                  kImages + "train: {epochs: 3}\ninit: {experiment: " + first_ + "}\n");
  }
  Suite load(const std::string& rest, const std::string& attentions = "[standard, quest]") const {
    const std::string text = "schema: 1\nattentions: " + attentions + "\n" + rest;
    return load_suite(folder_.write("s.yaml", text), {}, parts_.catalogue(), folder_ / "runs");
  }
  /// What a cell of the suite begins with.
  static const Node& configuration(const Suite& suite, const std::string& name,
                                   const std::string& attention = "quest") {
    return cell_of(suite, name, attention).experiment.resolved.at("init").at("configuration");
  }
  static const Cell& cell_of(const Suite& suite, const std::string& name,
                             const std::string& attention = "quest") {
    const auto found = std::find_if(suite.cells.begin(), suite.cells.end(), [&](const Cell& one) {
      return one.experiment.name == name && one.experiment.attention.label == attention;
    });
    if (found == suite.cells.end()) throw Error("there is no cell of " + name);
    return *found;
  }
  static std::string trained(const Suite& suite, const std::string& name,
                             const std::string& attention = "quest") {
    return cell_of(suite, name, attention).experiment.hash_without_attention();
  }

  TempFolder folder_;
  MadeParts parts_;
  std::string first_;
};

TEST_F(SourcesInASuite, AreAsTheSuiteRunsThem) {
  const Suite suite =
      load("experiments: [second.yaml, first.yaml]\nset: {model: {dim: 16}, train: {epochs: 1}}\n");
  const std::string source = configuration(suite, "second").text();
  EXPECT_EQ(source, trained(suite, "first"));
  EXPECT_NE(source, load_experiment(first_, {}, parts_.catalogue()).hash_without_attention());
  const Cell cell = cell_of(suite, "second");
  EXPECT_EQ(cell.experiment.init->configuration, source);
  EXPECT_EQ(cell.folder.path(), RunFolder::of(suite.folder, cell.experiment, 0).path());
  EXPECT_EQ(parts_.resolve(to_yaml(cell.experiment.resolved)).hash(), cell.experiment.hash())
      << "a frozen run means the same";
}

TEST_F(SourcesInASuite, AreAsTheirFilesSayWhereTheSuiteDoesNotRunThem) {
  const std::string own = load_experiment(first_, {}, parts_.catalogue()).hash_without_attention();
  EXPECT_EQ(
      configuration(load("experiments: [second.yaml]\nset: {model: {dim: 16}}\n"), "second").text(),
      own);
  EXPECT_EQ(configuration(load("experiments: [first.yaml, second.yaml]\nset: {model: {dim: 16}}\n"
                               "skip: [{experiment: first, reason: trained elsewhere}]\n"),
                          "second")
                .text(),
            own);
}

TEST_F(SourcesInASuite, AreTheSamePointOfAGrid) {
  const Suite suite = load("experiments: [first.yaml, second.yaml]\ngrid: {dim: [16, 32]}\n");
  for (const std::string point : {",dim=16", ",dim=32"}) {
    EXPECT_EQ(configuration(suite, "second" + point).text(), trained(suite, "first" + point));
  }
}

TEST_F(SourcesInASuite, ReachThroughSeveral) {
  folder_.write("third.yaml", kImages + "init: {experiment: " + (folder_ / "second.yaml") + "}\n");
  const Suite suite =
      load("experiments: [third.yaml, second.yaml, first.yaml]\nset: {model: {dim: 16}}\n");
  EXPECT_EQ(configuration(suite, "third").text(), trained(suite, "second"));
  EXPECT_EQ(configuration(suite, "second").text(), trained(suite, "first"));
}

TEST_F(SourcesInASuite, BelongToTheAttentionWhereItsOwnOptionsChangeThem) {
  const Suite suite = load("experiments: [first.yaml, second.yaml]\n",
                           "[standard, {use: quest, set: {model: {dim: 8}}}]");
  EXPECT_EQ(configuration(suite, "second").text(), trained(suite, "first"));
  EXPECT_NE(configuration(suite, "second").text(),
            configuration(suite, "second", "standard").text());
  EXPECT_TRUE(is_of_attention(configuration(suite, "second").place().str()));
  EXPECT_FALSE(is_of_attention(configuration(suite, "second", "standard").place().str()));
}

}  // namespace
}  // namespace attnlab::waves_test
