// Suites: the table says what the runs recorded; failures and interruptions leave the rest usable.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <sstream>

#include "framework/base/file_lock.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::suite_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SuiteCommand : public Workspace {
 protected:
  void write_suite(const std::string& attentions, const std::string& more = "") const {
    folder_.write("pair.yaml", "schema: 1\nattentions: " + attentions +
                                   "\nexperiments: [tiny.yaml]\nseeds: [0, 1]\n" + more);
  }
  /// A suite of one run that is asked about test images with so much noise.
  void write_asking(const std::string& noise) const {
    folder_.write("asked.yaml",
                  "schema: 1\nextends: tiny.yaml\nevaluate: {noisy: {set: {dataset: {noise: " +
                      noise + "}}}}\n");
    folder_.write("pair.yaml",
                  "schema: 1\nattentions: [standard]\nexperiments: [asked.yaml]\nseeds: [0]\n");
  }
  json table() const { return json::parse(file_text(at("runs/pair/table.json"))); }
  std::string markdown() const { return file_text(at("runs/pair/table.md")); }
  std::string folder_of(const std::string& attention, int seed) const {
    return run_folder("pair/tiny/" + attention, seed);
  }
};

/// "9.38 ± 2.21" of a metric in percent, from the two runs' own records.
std::string percent_text(double first, double second) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f ± %.2f", 50 * (first + second),
                100 * std::abs(first - second) / std::sqrt(2.0));
  return text;
}

TEST_F(SuiteCommand, AddsSeedsUntilDifferencesAreKnown) {
  write_suite("[standard, quest]", "compare: {test: t, metric: nll}\n");
  const auto until = [](const std::string& width, const std::string& most) -> Words {
    return {"suite", "pair.yaml", "--until-width", width, "--max-seeds", most};
  };
  const Ended all = attnlab(until("1e-9", "4"));
  EXPECT_EQ(all.exit_code, 3) << all.story();
  EXPECT_THAT(all.err, HasSubstr("--max-seeds"));
  EXPECT_THAT(all.out, AllOf(HasSubstr("3 seeds, look 2 of 3"), HasSubstr("4 seeds, look 3 of 3")));
  EXPECT_EQ(table().at("runs").size(), 8U);
  EXPECT_THAT(markdown(), HasSubstr("0.05 / 3"));
  const json comparison = json::parse(file_text(at("runs/pair/comparison.json")));
  EXPECT_DOUBLE_EQ(comparison.at("level").get<double>(), 0.05 / 3);
  EXPECT_THAT(must(until("1e9", "4")).out, HasSubstr("2 seeds, look 1 of 3"));
  EXPECT_EQ(table().at("runs").size(), 4U);
  for (const json& row : json::parse(file_text(at("runs/pair/comparison.json"))).at("rows")) {
    EXPECT_EQ(row.at("n"), 2) << "seeds of this look, although others are there";
  }
  const auto refusal = [&](Words words) {
    words.insert(words.begin(), {"suite", "pair.yaml"});
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  EXPECT_THAT(refusal({"--until-width", "1"}), HasSubstr("--max-seeds"));
  EXPECT_THAT(refusal({"--max-seeds", "9"}), HasSubstr("--until-width"));
  EXPECT_THAT(refusal({"--until-width", "0", "--max-seeds", "9"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({"--until-width", "1", "--max-seeds", "1"}), HasSubstr("from 2"));
  EXPECT_THAT(refusal({"--until-width", "1", "--max-seeds", "9", "--dry-run"}),
              HasSubstr("leave it out"));
  write_suite("[standard, quest]");
  EXPECT_THAT(refusal({"--until-width", "1", "--max-seeds", "9"}), HasSubstr("compare:"));
}

TEST_F(SuiteCommand, ComparesAttentionsOverSeeds) {
  write_suite("[standard, quest]", "baseline: quest\n");
  const Ended ended = must({"suite", "pair.yaml"});
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, HasSubstr(markdown()));
  const json table = this->table();
  EXPECT_EQ(table.at("complete"), true);
  EXPECT_EQ(table.at("runs").size(), 4U);
  ASSERT_EQ(table.at("rows").size(), 2U);
  for (const json& row : table.at("rows")) {
    const std::string attention = row.at("attention");
    const json first = status_of(folder_of(attention, 0)).at("metrics");
    const json second = status_of(folder_of(attention, 1)).at("metrics");
    for (const auto& [name, summary] : row.at("metrics").items()) {
      const double a = first.at(name), b = second.at(name);
      EXPECT_EQ(summary.at("n"), 2) << name;
      EXPECT_NEAR(summary.at("mean"), (a + b) / 2, 1e-12 * std::abs(a + b)) << name;
      EXPECT_NEAR(summary.at("sd"), std::abs(a - b) / std::sqrt(2.0), 1e-9 * std::abs(a + b))
          << name;
    }
    EXPECT_EQ(row.at("states"), json({{"done", 2}}));
    EXPECT_THAT(markdown(), HasSubstr(percent_text(first.at("accuracy"), second.at("accuracy"))));
  }
  EXPECT_THAT(markdown(), AllOf(HasSubstr("quest (baseline)"), HasSubstr("2 done"),
                                HasSubstr("attnlab suite pair.yaml")));

  // Again: nothing is run, the table is the same.
  const std::string before = file_text(folder_of("quest", 1) + "/status.json");
  const std::string shown = markdown();
  EXPECT_THAT(must({"suite", "pair.yaml"}).out,
              AllOf(HasSubstr("done before"), Not(HasSubstr("starts"))));
  EXPECT_EQ(file_text(folder_of("quest", 1) + "/status.json"), before);
  EXPECT_EQ(markdown(), shown);
}

TEST_F(SuiteCommand, RunsExactlyWhatARunByHandWouldBe) {
  write_suite("[quest]");
  must({"suite", "pair.yaml", "seeds=[1]"});
  must({"run", "tiny.yaml", "attention=quest", "seeds=[1]"});
  EXPECT_EQ(checkpoint_tensors(folder_of("quest", 1)),
            checkpoint_tensors(run_folder("tiny/quest", 1)));
}

// Its runs are forked from a process that has loaded LibTorch.
TEST_F(SuiteCommand, SeesRunsHoldAsMuchMemoryAsByThemselves) {
  write_suite("[standard]");
  must({"suite", "pair.yaml"});
  must({"run", "tiny.yaml"});
  const double alone = status_of(run_folder("tiny/standard")).at("metrics").at("peak_memory");
  for (const int seed : {0, 1}) {
    const double forked = status_of(folder_of("standard", seed)).at("metrics").at("peak_memory");
    EXPECT_NEAR(forked, alone, 0.05 * alone) << seed;
  }
}

TEST_F(SuiteCommand, GoesOnAfterCellsThatFailAndIsIncomplete) {
  write_suite("[factory_throws]");
  const Ended ended = attnlab({"suite", "pair.yaml"}, {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  EXPECT_EQ(ended.exit_code, 2) << "the experiment can be built with none of its attentions\n"
                                << ended.story();
  EXPECT_THAT(ended.err, mentions("cannot be built: ", "kernel table is empty"));
  EXPECT_FALSE(exists("runs"));

  write_suite("[factory_throws, constructor_throws, standard]", "baseline: standard\n");
  const Ended partial =
      attnlab({"suite", "pair.yaml", "seeds=[0]"}, {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  EXPECT_EQ(partial.exit_code, 3) << partial.story();
  const json table = this->table();
  EXPECT_EQ(table.at("complete"), false);
  ASSERT_EQ(table.at("runs").size(), 3U);
  EXPECT_EQ(table.at("runs").at(2).at("state"), "done");
  EXPECT_EQ(table.at("runs").at(0).at("state"), "failed");
  EXPECT_THAT(table.at("runs").at(0).at("reason").get<std::string>(),
              HasSubstr("the kernel table is empty"));
  EXPECT_THAT(
      table.at("runs").at(1).at("reason").get<std::string>(),
      AnyOf(StartsWith("killed by signal 6 (Aborted)"), HasSubstr("static object's constructor")))
      << "the C library and the compiler say whether such an exception can be caught";
  EXPECT_THAT(partial.out, HasSubstr("static object's constructor"));
  EXPECT_THAT(markdown(), AllOf(HasSubstr("1 done"), HasSubstr("1 failed")));
  EXPECT_FALSE(table.at("rows").at(1).contains("metrics")) << "an absence, not a zero";
}

TEST_F(SuiteCommand, CountsADivergenceAsAResult) {
  write_suite("[standard]", "set: {train: {diverged_above: 0.01}}\n");
  must({"suite", "pair.yaml"});
  EXPECT_THAT(markdown(), HasSubstr("2 diverged"));
  EXPECT_EQ(table().at("complete"), true);
  EXPECT_FALSE(table().at("rows").at(0).contains("metrics"));
}

TEST_F(SuiteCommand, GoesOnWhereItWasInterrupted) {
  write_suite("[standard, quest]", "set: {train: {epochs: 40}}\n");
  const Words words = {"suite", "pair.yaml", "seeds=[0]"};
  {
    Process suite(invocation(words));
    const auto second_run_trains = [&] {
      if (!suite.running()) return true;
      const auto logs = files_like("metrics.jsonl");
      return logs.size() == 2 && !metric_lines(folder_of("quest", 0), "train").empty();
    };
    ASSERT_TRUE(wait_for(second_run_trains));
    suite.send(SIGINT);
    const Ended ended = suite.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
    EXPECT_THAT(ended.out, mentions("go on", "attnlab suite pair.yaml 'seeds=[0]'"));
    EXPECT_FALSE(exists("runs/pair/table.md"));
  }
  EXPECT_EQ(status_of(folder_of("standard", 0)).at("state"), "done");
  EXPECT_EQ(status_of(folder_of("quest", 0)).at("state"), "interrupted");
  EXPECT_THAT(must(words).out, AllOf(HasSubstr("done before"), HasSubstr("resumes at step")));
  must({"run", "tiny.yaml", "attention=quest", "train.epochs=40"});
  EXPECT_EQ(checkpoint_tensors(folder_of("quest", 0)),
            checkpoint_tensors(run_folder("tiny/quest")));
}

TEST_F(SuiteCommand, NamesTheCommandThatEvaluatesWhatIsAskedNow) {
  write_asking("3");
  must({"suite", "pair.yaml"});
  write_asking("1");
  const Words words = {"suite", "pair.yaml", "--launcher", "slurm"};
  const Ended left = must(words);
  EXPECT_THAT(table().at("notes").dump(), HasSubstr("asked/standard/0: not evaluated: noisy"));
  EXPECT_THAT(file_text(at("runs/pair/suite.json")), HasSubstr("not evaluated: noisy"))
      << "what compare and report read";
  const std::string before = "left to evaluate: attnlab ";
  const std::size_t begin = left.out.find(before);
  ASSERT_NE(begin, std::string::npos) << left.story();
  std::istringstream line(
      left.out.substr(begin + before.size(), left.out.find('\n', begin) - begin - before.size()));
  Words command;
  for (std::string word; line >> word;) command.push_back(word);
  must(command);
  EXPECT_THAT(must(words).out, Not(HasSubstr("left to evaluate")));
  EXPECT_EQ(table().at("notes"), json::array());
}

TEST_F(SuiteCommand, SaysWhichEvaluationsCouldNotBegin) {
  write_asking("3");
  must({"suite", "pair.yaml"});
  write_asking("1");
  {
    const FileLock other(run_folder("pair/asked/standard") + "/lock");
    EXPECT_THAT(must({"suite", "pair.yaml"}).out,
                mentions("asked/standard/0: ", "some failed", "attnlab eval "));
    const auto note = mentions("asked/standard/0: not evaluated: noisy", "older result");
    EXPECT_THAT(markdown(), AllOf(note, HasSubstr("/evaluate.yaml noisy")));
    EXPECT_THAT(table().at("notes").dump(), note);
  }
  must({"suite", "pair.yaml"});
  EXPECT_EQ(table().at("notes"), json::array());
}

TEST_F(SuiteCommand, KeepsNoComparisonAndPageOfAnEarlierTable) {
  const std::string files[] = {"comparison.md", "comparison.json", "page.html", "page.md",
                               "page.json",     "page.tex",        "page.svg"};
  const std::string compare = "compare: {test: t}\n",
                    page = "page: {title: T, columns: [{domain: images, experiment: tiny}]}\n";
  write_suite("[standard, quest]", compare + page);
  must({"suite", "pair.yaml"});
  for (const std::string& file : files) EXPECT_TRUE(exists("runs/pair/" + file)) << file;
  write_suite("[standard, quest]");
  must({"suite", "pair.yaml"});
  for (const std::string& file : files) EXPECT_FALSE(exists("runs/pair/" + file)) << file;
  EXPECT_TRUE(exists("runs/pair/table.md"));
  must({"page", "runs/pair"});
  must({"suite", "pair.yaml"});
  EXPECT_TRUE(exists("runs/pair/page.html")) << "it is somebody's own";
}

TEST_F(SuiteCommand, FallsBackToOtherDataAndSaysSoLoudly) {
  folder_.write("real.yaml",
                "schema: 1\nextends: tiny.yaml\nmodel: {patch_size: 4}\n"
                "dataset: {use: idx_images, name: no-such-images}\n");
  folder_.write("pair.yaml", "schema: 1\nattentions: [standard]\nexperiments: [real.yaml]\n");
  const Ended refused = attnlab({"suite", "pair.yaml"});
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
  EXPECT_THAT(refused.err, mentions("data of 'no-such-images'", "looked in\n"));
  EXPECT_TRUE(files_like("config.yaml").empty());

  EXPECT_THAT(must({"suite", "pair.yaml",
                    "fallback={dataset: {use: synthetic_images, train: 32, test: 16}, "
                    "model: {patch_size: 7}, train: {epochs: 1}}"})
                  .err,
              mentions("*** WARNING: ", "data of this suite", "data of 'no-such-images'",
                       "nothing about the real data"));
  EXPECT_THAT(markdown(), mentions("**WARNING: ", "real data were missing"));
  EXPECT_EQ(table().at("notes").size(), 1U);
  EXPECT_EQ(table().at("rows").at(0).at("states"), json({{"done", 1}}));
}

TEST_F(SuiteCommand, ReportsEveryProblemOfItsCellsOnce) {
  write_suite("[standard, qest]", "baselin: standard\nset: {train: {epohcs: 1}}\n");
  const Ended ended = attnlab({"suite", "pair.yaml"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, mentions("pair.yaml:5:1: ", "'baselin'", "did you mean 'baseline'?\n"));
  EXPECT_THAT(ended.err,
              mentions("pair.yaml:2:24: attention: ", "'qest'", "did you mean 'quest'?"));
  const std::string epochs = "pair.yaml:6:15: train: unknown key 'epohcs'";
  const std::size_t first = ended.err.find(epochs);
  ASSERT_NE(first, std::string::npos) << ended.err;
  EXPECT_FALSE(exists("runs"));
}

}  // namespace
}  // namespace attnlab::testing::suite_test
