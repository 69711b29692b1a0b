// What makes a comparison of made-up runs fair, and what is said where it is not.
#include <string>

#include "tests/unit/comparison/made_comparison.h"

namespace attnlab::fairness_test {
namespace {

using namespace testing;

TEST_F(ComparisonTest, OfRunsThatDifferInTheAttentionAloneIsFair) {
  write_pair("small", {0.5, 0.6}, {0.7, 0.8});
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_EQ(comparison.runs, 4U);
  EXPECT_GT(comparison.values, 20U) << "every option of model, task, dataset and training";
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              mentions("frozen configurations", "4 runs agree"));
}

TEST_F(ComparisonTest, NamesEveryOtherValueInWhichRunsDiffer) {
  write_run("small", "standard", 0, done(0.5));
  write_run("small", "standard", 1, done(0.5));
  write_run("small", "quest", 0, done(0.5), "train: {epochs: 11, optimizer: {lr: 0.01}}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 2U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "train.epochs", "10 in standard (seeds 0, 1)", "11 in quest (seed 0)"}));
  EXPECT_THAT(comparison.differences[1].text(),
              says({"small:", "train.optimizer.lr", "0.001 in standard (seeds 0, 1)",
                    "0.01 in quest (seed 0)"}));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              AllOf(HasSubstr("NOT A FAIR COMPARISON"), HasSubstr("train.epochs is 10")));
}

TEST_F(ComparisonTest, TakesOneNumberWrittenTwoWaysForOne) {
  write_run("small", "standard", 0, done(0.5), "train: {optimizer: {lr: 1.0e-3}}");
  write_run("small", "quest", 0, done(0.5), "train: {optimizer: {lr: 0.001}}");
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparisonTest, DoesNotAskWhatChangesNoNumber) {
  write_run("small", "standard", 0, done(0.5), "published: {parameters: 5.7e6}");
  write_run("small", "quest", 0, done(0.5), "trace: {every: 10}\ntrain: {tensorboard: false}");
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparisonTest, WantsOneAttentionsOptionsEqualOverSeeds) {
  write_pair("small", {0.5}, {0.5});
  write_run("small", "quest", 1, done(0.5), "attention: {eps: 0.5}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "attention.eps", "0.5 in quest (seed 1)", "1e-12 in quest (seed 0)"}));
}

TEST_F(ComparisonTest, WantsALabelToBeOnePluginInAllExperiments) {
  for (const char* experiment : {"large", "small"}) write_pair(experiment, {0.5}, {0.5});
  EXPECT_THAT(compare().differences, IsEmpty());
  write_run("large", "standard", 0, done(0.5), "attention: {as: mine}");
  write_run("small", "quest", 0, done(0.5), "attention: {as: mine}");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(comparison.differences[0].text(),
              says({"label 'mine'", "attention.use", "quest in small", "standard in large"}));
}

TEST_F(ComparisonTest, SaysWhereALabelHasOtherOptionsInOtherExperiments) {
  for (const char* experiment : {"large", "small", "\"small,eps=0.25\""}) {
    write_run(experiment, "standard", 0, done(0.5));
  }
  write_run("large", "quest", 0, done(0.5));
  write_run("\"small,eps=0.25\"", "quest", 0, done(0.5), "attention: {eps: 0.25}");
  EXPECT_THAT(compare().notes, Not(::testing::Contains(HasSubstr("the label"))))
      << "the experiment's name says what it varies";
  write_run("small", "quest", 0, done(0.5), "attention: {eps: 0.5}");
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(mentions("label 'quest'", "other options", "attention.as",
                                           "eps is", " in large and 0.5 in small")));
}

TEST_F(ComparisonTest, ComparesDataAndPluginsAsTheyWere) {
  const auto environment = [](const RunFolder& folder, const std::string& data,
                              const std::string& model, int threads) {
    write_environment(folder, {{"data", {{"fingerprint", data}}},
                               {"model", {{"hash", model}}},
                               {"threads", threads},
                               {"parameters", 321}});
  };
  environment(write_run("small", "standard", 0, done(0.5)), "d1", "m1", 2);
  environment(write_run("small", "quest", 0, done(0.5)), "d2", "m1", 4);
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_THAT(
      comparison.differences[0].text(),
      says({"small:", "data.fingerprint", "d1 in standard (seed 0)", "d2 in quest (seed 0)"}));
  EXPECT_THAT(comparison.notes, ::testing::Contains(mentions("small:", "threads is 2 in standard")))
      << "another number of threads is said, yet refuses nothing";
  EXPECT_EQ(row(comparison, "small", "quest").costs.at("parameters"), 321);
  EXPECT_NEAR(row(comparison, "small", "quest").costs.at("examples_per_second"), 1000.5, 1e-9);
}

TEST_F(ComparisonTest, AllowsDataThatAreAFunctionOfTheSeed) {
  write_on_data("small", 0, "d0");
  write_on_data("small", 1, "d1");
  EXPECT_THAT(compare().differences, IsEmpty());
}

}  // namespace
}  // namespace attnlab::fairness_test
