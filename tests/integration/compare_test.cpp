// attnlab compare: from run folders alone; a suite's `compare:` section.
#include <chrono>
#include <cmath>
#include <thread>

#include "framework/runs/run_folder.h"
#include "tests/integration/workspace.h"
#include "tests/support/made_runs.h"

namespace attnlab::testing::compare_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Folders of runs that were never trained: frozen by the framework, with a status of our own.
class CompareCommand : public Workspace {
 protected:
  CompareCommand() : catalogue_(Catalogue::of_this_program()) {}

  RunFolder made_run(const std::string& attention, std::int64_t seed, const RunStatus& status,
                     const std::vector<std::string>& changes = {},
                     const std::string& root = "runs") const {
    std::vector<std::string> overrides = {"attention=" + attention};
    overrides.insert(overrides.end(), changes.begin(), changes.end());
    const Experiment experiment = load_experiment(at("tiny.yaml"), overrides, catalogue_);
    const RunFolder folder = RunFolder::of(at(root), experiment, seed);
    folder.freeze(experiment, seed);
    folder.write_status(status);
    write_environment(folder);
    return folder;
  }

  static RunStatus done(double accuracy, double nll) {
    return {RunState::done, 8, 8, 2, 1.5, {{"accuracy", accuracy}, {"nll", nll}}, ""};
  }

  /// Seven seeds in which quest is better by 1 to 7 points.
  void make_seven(const std::vector<std::string>& changes = {}) const {
    for (int seed = 0; seed < 7; ++seed) {
      const double base = 0.5 + 0.003 * ((seed * 5) % 7);
      made_run("standard", seed, done(base, 1.0 - base), changes);
      made_run("quest", seed, done(base + 0.01 * (seed + 1), 1.0 - base - 0.01), changes);
    }
  }

  Catalogue catalogue_;
};

TEST_F(CompareCommand, TestsAttentionsByTheirRunFolders) {
  make_seven();
  const json shown = json::parse(must({"compare", "runs", "--json"}).out);
  EXPECT_EQ(shown.at("fair"), true);
  EXPECT_EQ(shown.at("runs"), 14);
  ASSERT_EQ(shown.at("rows").size(), 2U);
  const json& quest = shown.at("rows").at(1).at("against_baseline");
  EXPECT_NEAR(quest.at("difference"), 0.04, 1e-12);
  EXPECT_NEAR(quest.at("p"), std::ldexp(1, -6), 1e-15) << "2 of 2^7 signs";
  EXPECT_EQ(quest.at("verdict"), "better");
  const std::string text = must({"compare", "runs"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("+4.00"), HasSubstr("0.0156"), HasSubstr("better"),
                          HasSubstr("14 runs agree")));
  EXPECT_THAT(must({"compare", "runs", "--format", "md"}).out, HasSubstr("| tiny       | quest "));
}

TEST_F(CompareCommand, TakesTestMetricLevelAndBaseline) {
  make_seven();
  const json t = json::parse(must({"compare", "runs", "--json", "--test", "t"}).out);
  // Differences 1 to 7 points: mean 4, deviation sqrt(14 / 3); t = 4 / sqrt(14 / 21) = 4.898979.
  EXPECT_NEAR(t.at("rows").at(1).at("against_baseline").at("statistic"), 4.898979, 1e-6);
  const json nll = json::parse(
      must({"compare", "runs", "--json", "--metric", "nll", "--baseline", "quest"}).out);
  EXPECT_EQ(nll.at("better"), "lower");
  EXPECT_EQ(nll.at("rows").at(1).at("attention"), "standard");
  EXPECT_EQ(nll.at("rows").at(1).at("against_baseline").at("verdict"), "worse");
  const json strict = json::parse(must({"compare", "runs", "--json", "--level", "0.01"}).out);
  EXPECT_EQ(strict.at("rows").at(1).at("against_baseline").at("verdict"), "out of reach");
}

TEST_F(CompareCommand, RefusesRunsThatDifferInMoreThanTheAttention) {
  made_run("standard", 0, done(0.5, 1));
  made_run("quest", 0, done(0.6, 1), {"train.epochs=3"});
  const Ended refused = attnlab({"compare", "runs"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, mentions("tiny: train.epochs", "2 in standard (seed 0)",
                                    "3 in quest (seed 0)", "--allow-differences"));
  EXPECT_THAT(must({"compare", "runs", "--allow-differences"}).out,
              AllOf(HasSubstr("NOT A FAIR COMPARISON"), HasSubstr("train.epochs is 2"),
                    HasSubstr("too few pairs")));
}

TEST_F(CompareCommand, SaysWhyNumbersAreMissing) {
  made_run("standard", 0, done(0.5, 1));
  made_run("standard", 1, done(0.5, 1));
  made_run("quest", 0, {RunState::diverged, 3, 8, 1, 1, {}, "the loss is nan at step 3"});
  made_run("quest", 1, {RunState::interrupted, 3, 8, 1, 1, {}, ""});
  EXPECT_THAT(must({"compare", "runs"}).out,
              mentions("tiny/quest seed 0: diverged: ", "loss is nan at step 3",
                       "tiny/quest seed 1: interrupted"));
}

TEST_F(CompareCommand, NamesWhatItCannotUse) {
  EXPECT_THAT(refusal({"compare", "nowhere"}), mentions("nowhere: ", "no such folder"));
  made_run("standard", 0, done(0.5, 1));
  EXPECT_THAT(refusal({"compare", "runs", "--test", "wilcoxson"}),
              HasSubstr("did you mean 'wilcoxon'?"));
  EXPECT_THAT(attnlab({"compare", "runs", "--format", "mb"}).err, HasSubstr("did you mean 'md'?"));
  EXPECT_THAT(attnlab({"compare", "runs", "--metric", "acuracy"}).err,
              HasSubstr("did you mean 'accuracy'?"));
}

TEST_F(CompareCommand, SaysWhatToDoWhereNoRunIsOfThePresentSuite) {
  made_run("standard", 0, done(0.5, 1));
  const json suite = {{"suite", "s"}, {"baseline", "standard"}, {"runs", json::array()}};
  folder_.write("runs/suite.json", suite.dump());
  for (const Words& words :
       {Words{"compare", "runs"}, Words{"power", "runs", "--difference", "1"}}) {
    const Ended refused = attnlab(words);
    EXPECT_EQ(refused.exit_code, 2) << words.front();
    EXPECT_THAT(refused.err, mentions("runs: ", "no run", "present suite", "run the suite"))
        << words.front();
  }
}

TEST_F(CompareCommand, NeedsNoLibTorch) {
  made_run("standard", 0, done(0.5, 1));
  const Ended ended = must({"compare", "runs"}, {{"LD_DEBUG", "files"}});
  EXPECT_THAT(ended.err, HasSubstr("libattnlab_core.so")) << "LD_DEBUG shows no files";
  EXPECT_THAT(ended.err, Not(HasSubstr("libtorch")));
}

TEST_F(CompareCommand, LikeItsSistersSaysTheSameWithAnIndexOfRuns) {
  for (int seed = 0; seed < 40; ++seed) {
    made_run("standard", seed, done(0.5 + 0.001 * (seed * 7 % 40), 0.5));
    made_run("quest", seed, done(0.6 + 0.001 * (seed * 3 % 40), 0.4));
  }
  // What was written in the last two seconds might be written again unseen, and is not kept.
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  const auto said = [&](const Environment& environment) {
    std::vector<std::string> all;
    for (const Words& words :
         {Words{"status", "runs"}, Words{"compare", "runs", "--test", "t"}, Words{"cite", "runs"},
          Words{"report", "runs", "--format", "csv", "--output", "-", "--test", "t"},
          Words{"page", "runs", "--test", "t"}}) {
      const Ended ended = must(words, environment);
      all.push_back(ended.out + ended.err);
    }
    all.push_back(file_text(at("runs/page.json")));
    return all;
  };
  const std::vector<std::string> without = said({{"ATTNLAB_RUN_INDEX", "off"}});
  EXPECT_EQ(said({{"XDG_CACHE_HOME", "/proc/no-such"}}), without);
  const Environment with = {{"XDG_CACHE_HOME", at("cache")}};
  EXPECT_EQ(said(with), without);
  ASSERT_EQ(files_like(".index").size(), 1U);
  EXPECT_EQ(said(with), without);
  made_run("quest", 0, done(0.9, 0.1));
  const std::vector<std::string> changed = said(with);
  EXPECT_NE(changed, without);
  EXPECT_EQ(changed, said({{"ATTNLAB_RUN_INDEX", "off"}}));
}

TEST_F(CompareCommand, FollowsARealSuite) {
  folder_.write("pair.yaml",
                "schema: 1\nbaseline: quest\nattentions: [standard, quest]\nexperiments: "
                "[tiny.yaml]\nseeds: [0, 1]\nset: {train: {epochs: 1}}\n"
                "compare: {test: t, correct: none, metric: nll}\n");
  const Ended suite = must({"suite", "pair.yaml"});
  EXPECT_THAT(suite.out, mentions("Comparison of nll", "with quest"));
  const json written = json::parse(file_text(at("runs/pair/comparison.json")));
  EXPECT_EQ(written.at("test"), "t");
  EXPECT_EQ(written.at("baseline"), "quest");
  EXPECT_EQ(written.at("fair"), true) << written.at("differences");
  for (const json& row : written.at("rows")) {
    const std::string attention = row.at("attention");
    const double a = status_of(run_folder("pair/tiny/" + attention, 0)).at("metrics").at("nll");
    const double b = status_of(run_folder("pair/tiny/" + attention, 1)).at("metrics").at("nll");
    EXPECT_NEAR(row.at("mean"), (a + b) / 2, 1e-12);
    EXPECT_GT(row.at("costs").at("parameters"), 1000);
    EXPECT_GT(row.at("costs").at("examples_per_second"), 0);
  }
  EXPECT_THAT(file_text(at("runs/pair/comparison.md")), HasSubstr("| tiny       | standard "));
  // By hand, the same: the section is recorded beside the runs.
  const json by_hand = json::parse(must({"compare", "runs/pair", "--json"}).out);
  EXPECT_EQ(by_hand, written);

  // Another configuration of the same suite: the runs before are stale, and are not mixed in.
  must({"suite", "pair.yaml", "set.train.epochs=2"});
  const json later = json::parse(must({"compare", "runs/pair", "--json"}).out);
  EXPECT_EQ(later.at("runs"), 4);
  ASSERT_EQ(later.at("notes").size(), 1U) << later.at("notes");
  EXPECT_THAT(later.at("notes")[0].get<std::string>(),
              mentions("runs/pair: ", "4 runs", "left out"));
}

TEST_F(CompareCommand, SaysBeforehandThatSeedsAreTooFew) {
  folder_.write(
      "pair.yaml",
      "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\nseeds: [0]\n"
      "set: {train: {epochs: 1}}\ncompare: {test: wilcoxon, pair: seed, correct: holm}\n");
  const Ended ended = must({"suite", "pair.yaml", "seeds=[0, 1]"});
  EXPECT_THAT(ended.out, HasSubstr("2 paired seeds"));
  EXPECT_LT(ended.out.find("below p = 0.5"), ended.out.find("starts")) << ended.story();
  folder_.write("bad.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\n"
                "compare: {test: wilcoxon, pare: seed}\n");
  const Ended bad = attnlab({"validate", "bad.yaml"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, mentions("bad.yaml:4:27: compare: ", "'pare'", "did you mean 'pair'?"));
}

}  // namespace
}  // namespace attnlab::testing::compare_test
