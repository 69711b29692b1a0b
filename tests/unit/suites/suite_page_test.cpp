// The keys of a suite over many domains: page, claims, warning, missing plugins.
#include "framework/suites/suite_page.h"

#include "framework/suites/suite.h"
#include "tests/support/made_parts.h"

namespace attnlab::suite_page_test {
namespace {

using namespace testing;
using nlohmann::json;

class SuitePage : public WithMadeParts {
 protected:
  SuitePage() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: vit\nattention: quest\ntask: sorting\ndataset: pictures\n");
    temp_.write("strange.yaml", "extends: small.yaml\ndataset: molecules\n");
    temp_.write("attacked.yaml",
                "extends: small.yaml\nevaluate: {pgd: {set: {task: {use: an_attack}}}}\n");
  }
  Suite load(const std::string& more, const std::string& experiments = "[small.yaml]",
             const std::vector<std::string>& overrides = {}) const {
    return load_suite(temp_.write("s.yaml",
                                  "schema: 1\nattentions: [standard, quest]\n"
                                  "experiments: " +
                                      experiments + "\n" + more),
                      overrides, parts().catalogue(), temp_ / "runs");
  }
  std::string refusal(const std::string& more) const {
    return message_of<ConfigError>([&] { load(more); });
  }

  const TempFolder temp_;
};

TEST_F(SuitePage, HasColumnsInTheirOrderAndKeepsThemInTheSuitesRecord) {
  const Suite suite = load(
      "page:\n  title: All\n  columns:\n"
      "    - {domain: images, experiment: small, title: clean}\n"
      "    - {domain: images, experiment: small, metric: fog/accuracy, role: robustness}\n"
      "  claims:\n"
      "    - {attention: quest, experiment: small, says: worse, source: S, text: T}\n");
  ASSERT_TRUE(suite.page);
  const PageSpec read = read_page_json(json::parse(suite_record(suite, "c")).at("page"));
  ASSERT_EQ(read.columns.size(), 2U);
  EXPECT_EQ(read.title, "All");
  EXPECT_EQ(read.columns[0].name(), "images: clean");
  EXPECT_EQ(read.columns[0].metric, "headline");
  EXPECT_EQ(read.columns[1].name(), "images: fog/accuracy");
  EXPECT_EQ(read.columns[1].role, ColumnRole::robustness);
  ASSERT_EQ(read.claims.size(), 1U);
  EXPECT_FALSE(read.claims[0].better);
}

TEST_F(SuitePage, NamesEveryMistakeWithItsPlace) {
  const std::string said = refusal(
      "page:\n  columns:\n    - {experiment: small, rle: quality}\n"
      "    - {experiment: smal}\n    - {experiment: small, role: qualty, title: x}\n"
      "  claims: [{attention: quest}]\n");
  EXPECT_THAT(said, mentions("s.yaml:6:27: page.columns:", "'rle'", "'role'"));
  EXPECT_THAT(said, mentions("s.yaml:8:33: page.columns.role:", "'qualty'", "'quality'"));
  EXPECT_THAT(said, mentions("s.yaml:9:12: page.claims.says:", "needs a value"));
}

TEST_F(SuitePage, WantsItsExperimentsToBeTheSuites) {
  EXPECT_THAT(refusal("page: {columns: [{experiment: smal}]}\n"),
              mentions("page:", "'smal'", "'small'"));
}

TEST_F(SuitePage, NamesAMetricThatIsNearlyAnEvaluations) {
  const std::string evaluated = "set: {evaluate: {fog: {set: {dataset: {root: foggy}}}}}\n";
  EXPECT_THAT(
      refusal(evaluated + "page: {columns: [{experiment: small, metric: fgo/accuracy}]}\n"),
      mentions("page.columns:", "'fgo/accuracy'", "small has no evaluation 'fgo'", "'fog'"));
  EXPECT_EQ(load(evaluated + "page:\n  columns:\n    - {experiment: small, metric: fog/accuracy}\n"
                             "    - {experiment: small, metric: outcome/correct}\n")
                .page->columns.size(),
            2U);
}

TEST_F(SuitePage, LeavesOutWhatTheCommandLineLeavesOut) {
  temp_.write("other.yaml", "extends: small.yaml\n");
  const std::string page = "page: {columns: [{experiment: small}, {experiment: other}]}\n";
  const std::string both = "[small.yaml, other.yaml]";
  EXPECT_EQ(load(page, both).page->columns.size(), 2U);
  EXPECT_EQ(load(page, both, {"experiments=[other.yaml]"}).page->columns.size(), 1U);
}

TEST_F(SuitePage, LeavesOutWhatAFileLeavesOutThatExtendsIt) {
  temp_.write("other.yaml", "extends: small.yaml\n");
  load("page: {columns: [{experiment: small}, {experiment: other}]}\n", "[small.yaml, other.yaml]");
  const std::string fewer =
      temp_.write("fewer.yaml", "extends: s.yaml\nexperiments: [other.yaml]\n");
  const Suite suite = load_suite(fewer, {}, parts().catalogue(), temp_ / "runs");
  ASSERT_EQ(suite.page->columns.size(), 1U);
  EXPECT_EQ(suite.page->columns.front().experiment, "other");
}

TEST_F(SuitePage, TwoColumnsOfOneNameAreAMistake) {
  EXPECT_THAT(refusal("page: {columns: [{experiment: small}, {experiment: small}]}\n"),
              mentions("'small' stands twice", "title: TEXT"));
}

TEST_F(SuitePage, AWarningIsPartOfTheNotes) {
  EXPECT_THAT(load("warning: it proves nothing\n").notes,
              ElementsAre("WARNING: it proves nothing"));
}

TEST_F(SuitePage, StoredFoldersStandBesideTheSuite) {
  EXPECT_THAT(load("stored: [kept, ../there]\n").stored,
              ElementsAre(temp_ / "kept",
                          std::filesystem::path(temp_ / "../there").lexically_normal().string()));
}

TEST_F(SuitePage, AMissingPluginIsAnErrorUnlessTheSuiteSkipsIt) {
  const std::string both = "[small.yaml, strange.yaml, attacked.yaml]";
  EXPECT_THAT(message_of<ConfigError>([&] { load("", both); }),
              HasSubstr("there is no dataset 'molecules'"));
  const Suite suite = load("missing_plugins: skip\n", both);
  EXPECT_EQ(suite.cells.size(), 2U) << "the rest is whole";
  ASSERT_EQ(suite.absent.size(), 4U);
  EXPECT_EQ(suite.absent.front().experiment, "strange");
  EXPECT_EQ(suite.absent.front().gap.kind, Absence::no_plugin);
  EXPECT_THAT(suite.absent.front().gap.reason, HasSubstr("there is no dataset 'molecules'"));
  EXPECT_EQ(suite.absent.back().experiment, "attacked");
  EXPECT_THAT(suite.absent.back().gap.reason, HasSubstr("there is no task 'an_attack'"));
}

TEST_F(SuitePage, AnAttentionThatIsMissingIsAlwaysAnError) {
  EXPECT_THAT(message_of<ConfigError>([&] {
                load("missing_plugins: skip\n", "[small.yaml]", {"attentions=[standard, mine]"});
              }),
              HasSubstr("there is no attention 'mine'"));
}

TEST_F(SuitePage, WithoutAnyPluginThatIsNeededNothingIsLeft) {
  EXPECT_THAT(message_of<ConfigError>([&] { load("missing_plugins: skip\n", "[strange.yaml]"); }),
              mentions("strange:", "no dataset 'molecules'"));
}

}  // namespace
}  // namespace attnlab::suite_page_test
