// Suites and sweeps of attentions that are several mechanisms: labels, runs, stored results.
#include "framework/base/numbers_version.h"
#include "framework/report/citations.h"
#include "framework/runs/run_records.h"
#include "framework/runs/stored_run.h"
#include "framework/suites/grid.h"
#include "framework/suites/json_schema.h"
#include "framework/suites/stored_cells.h"
#include "framework/suites/sweep.h"
#include "tests/unit/suites/made_suites.h"

namespace attnlab::stack_of_attentions_suite_test {
namespace {

using namespace testing;

class StackSuite : public SuiteTest {
 protected:
  StackSuite() {
    temp_.write("mixed.yaml", "extends: small.yaml\nattention: {layers: {last: standard}}\n");
  }
  Suite sweep(const std::vector<std::string>& words) const {
    return make_sweep({temp_ / "mixed.yaml", words, {5}, "", ""}, parts().catalogue(),
                      temp_ / "runs");
  }
  static std::vector<std::string> cells_of(const Suite& suite) {
    std::vector<std::string> out;
    for (const Cell& cell : suite.cells) {
      const Part& attention = cell.experiment.attention;
      out.push_back(cell.experiment.name + "/" + attention.label + ": " +
                    mechanisms_text(attention));
    }
    return out;
  }
};

TEST_F(StackSuite, HasTheAttentionsThatItNamesWhateverLayersTheExperimentHas) {
  const Suite suite = load(
      "schema: 1\nattentions: [quest, {use: quest, layers: {first: standard}}, {use: standard, as: "
      "mine, layers: {every_2: quest}}]\nexperiments: [mixed.yaml]\nseeds: [0]\n");
  EXPECT_THAT(suite.attentions, ElementsAre("quest", "quest+standard", "mine"));
  EXPECT_THAT(cells_of(suite),
              ElementsAre("mixed/quest: quest", "mixed/quest+standard: quest (first: standard)",
                          "mixed/mine: standard (every_2: quest)"));
  EXPECT_EQ(suite.cells[0].experiment.attention.options.at("eps").as_double(), 0.5)
      << "the experiment's options of the plugin stay";
  EXPECT_THAT(suite.cells[1].folder.path(), HasSubstr("/mixed/quest+standard/0-"));
}

TEST_F(StackSuite, DoesNotSetLayersOfAllAttentions) {
  EXPECT_THAT(refusal("schema: 1\nset: {attention: {layers: {last: standard}}}\nattentions: "
                      "[quest]\nexperiments: [small.yaml]\n"),
              says({"s.yaml:2:", "attention.layers:", "'attentions'"}));
}

TEST_F(StackSuite, HasNoRunOfAStackThatLacksWhatTheModelNeeds) {
  temp_.write("lm.yaml",
              "schema: 1\nmodel: lm\nattention: standard\ntask: sorting\ndataset: texts\n");
  const Suite suite = load(
      "schema: 1\nattentions: [standard, {use: standard, layers: {last: quest}}]\n"
      "experiments: [lm.yaml]\n");
  ASSERT_EQ(suite.absent.size(), 1U);
  EXPECT_EQ(suite.absent[0].attention, "standard+quest");
  EXPECT_THAT(suite.absent[0].gap.text(), mentions("'quest'", "attention.layers.last", "'causal'"));
}

TEST_F(StackSuite, SweepsVaryTheMechanismOfSomeLayersAsTheTablesAttentions) {
  EXPECT_EQ(chosen_part("attention.layers.0+2.use"), "attention");
  EXPECT_EQ(chosen_part("attention.layers.last.eps"), "");
  EXPECT_EQ(chosen_part("attention.layers"), "");
  EXPECT_THAT(cells_of(sweep({"attention.layers.last=standard,quest"})),
              ElementsAre("mixed/quest+standard: quest (last: standard)",
                          "mixed/quest+quest: quest (last: quest)"));
  EXPECT_THAT(cells_of(sweep({"attention.layers.every_4.use=standard,quest", "attention=standard",
                              "dim=8,16"})),
              ElementsAre("mixed,dim=8/standard+standard: standard (every_4: standard)",
                          "mixed,dim=16/standard+standard: standard (every_4: standard)",
                          "mixed,dim=8/standard+quest: standard (every_4: quest)",
                          "mixed,dim=16/standard+quest: standard (every_4: quest)"))
      << "the whole attention comes first";
  const Suite options =
      sweep({"attention.layers.last.eps=0.25,0.5", "attention.layers.last=quest"});
  EXPECT_THAT(options.experiments, ElementsAre("mixed,eps=0.25", "mixed,eps=0.5"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                sweep(
                    {"attention={use: quest, layers: {0: standard}},{use: quest, layers: {1: "
                     "standard}}"});
              }),
              mentions("'quest+standard'", "'{use: quest, ..., as: LABEL}'"));
}

TEST_F(StackSuite, SchemasTakeAnyAttentionInALayer) {
  const auto schema = nlohmann::json::parse(json_schema("attention", parts().catalogue()));
  for (const char* section : {"attention.quest", "attention.any"}) {
    const auto& layers = schema.at("$defs").at(section).at("properties").at("layers");
    EXPECT_EQ(layers.at("additionalProperties"), nlohmann::json({{"$ref", "#/$defs/attention"}}));
    EXPECT_THAT(layers.at("description").get<std::string>(), HasSubstr("every_4"));
  }
}

TEST_F(StackSuite, RunsAreCitedAndStoredWithEveryPlugin) {
  const Suite suite = load(
      "schema: 1\nattentions: [{use: standard, layers: {first: quest, last: {use: quest, eps: "
      "0.25}}}]\nexperiments: [small.yaml]\nseeds: [0]\n");
  const Cell& cell = suite.cells.at(0);
  const Identity identity = identity_of(cell.experiment, "d1");
  cell.folder.freeze(cell.experiment, cell.seed, identity);
  cell.folder.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  write_environment(cell.folder, {{"framework", {{"numbers", kNumbersVersion}}},
                                  {"attention", {{"hash", "a"}}},
                                  {"attention.layers.first", {{"hash", "b"}}}});
  const RunRecord record = read_run(cell.folder.path());
  EXPECT_EQ(record.attention, "standard+quest");
  EXPECT_EQ(record.environment.at("attention.plugin"), "a, b");
  const StoredRun stored = stored_of(cell.folder.path());
  EXPECT_EQ(stored.plugins.at("attention").id, "lab/standard");
  EXPECT_EQ(stored.plugins.at("attention.layers.last").id, "lab/quest");
  EXPECT_EQ(stored.plugins.size(), 6U);
  EXPECT_TRUE(stored.judges.empty());
  Cell again = cell;
  again.identity = identity;
  bool other_numbers = true;
  EXPECT_THAT(differences_to(stored, again, parts().catalogue(), other_numbers), IsEmpty());
  EXPECT_FALSE(other_numbers);
  std::vector<std::string> absent;
  std::vector<std::string> cited;
  for (const Citation& citation : citations_of({record}, parts().catalogue(), absent)) {
    cited.insert(cited.end(), citation.plugins.begin(), citation.plugins.end());
  }
  EXPECT_THAT(cited, ::testing::IsSupersetOf({"lab/quest", "lab/standard"}));
  EXPECT_THAT(absent, IsEmpty());
}

}  // namespace
}  // namespace attnlab::stack_of_attentions_suite_test
