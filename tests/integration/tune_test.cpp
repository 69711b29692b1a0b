// A suite with `tune:` through the program: tries come first, the best on the validation split
// runs.
#include <algorithm>
#include <csignal>

#include "tests/integration/workspace.h"

namespace attnlab::testing::tune_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Tuned : public Workspace {
 protected:
  void write_suite(const std::string& more = "", const std::string& validation = "32") const {
    folder_.write("tuned.yaml",
                  "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n"
                  "seeds: [0, 1]\ntune: {lr: [1.0e-5, 3.0e-2]}\n"
                  "set: {train: {protocol: sound}, dataset: {validation: " +
                      validation + "}}\n" + more);
  }
  json table() const { return json::parse(file_text(at("runs/tuned/table.json"))); }
  std::string markdown() const { return file_text(at("runs/tuned/table.md")); }
  std::string try_of(const std::string& rate, const std::string& attention) const {
    return run_folder("tuned/tries/tiny,lr=" + rate + "/" + attention, 1000);
  }
  /// The best accuracy of a run on the validation split.
  static double best_of(const std::string& run) {
    double best = 0;
    for (const json& line : metric_lines(run, "validation")) {
      best = std::max(best, line.at("accuracy").get<double>());
    }
    return best;
  }
};

TEST_F(Tuned, RunsTheSeedsOfEachAttentionWithItsBestTry) {
  write_suite("compare: {test: t}\n");
  EXPECT_THAT(must({"suite", "tuned.yaml", "-j", "2"}).out,
              mentions("tune: 4 tries", "come before"));
  const json tuned = table().at("tune");
  EXPECT_EQ(tuned.at("seed"), 1000);
  EXPECT_EQ(tuned.at("budget"), 2);
  ASSERT_EQ(tuned.at("attentions").size(), 2U);
  double seconds = 0;
  for (const json& one : tuned.at("attentions")) {
    const std::string attention = one.at("attention");
    const double low = best_of(try_of("1e-05", attention));
    const double high = best_of(try_of("0.03", attention));
    EXPECT_EQ(one.at("tries").at(0).at("score"), low);
    EXPECT_EQ(one.at("tries").at(1).at("score"), high);
    EXPECT_EQ(one.at("chosen"), high > low ? 1 : 0);
    const std::string rate = high > low ? "3.0e-2" : "1.0e-5";
    for (const int seed : {0, 1}) {
      const std::string run = run_folder("tuned/tiny/" + attention, seed);
      EXPECT_THAT(file_text(run + "/config.yaml"), HasSubstr("lr: " + rate + "\n"));
      EXPECT_THAT(file_text(run + "/origins.txt"), HasSubstr("tune of attention '" + attention));
    }
    for (const std::string& run : {try_of("1e-05", attention), try_of("0.03", attention)}) {
      seconds += status_of(run).at("seconds").get<double>();
    }
  }
  EXPECT_NEAR(tuned.at("seconds").get<double>(), seconds, 1e-9);
  EXPECT_THAT(markdown(), mentions("## Tries before the seeds", "lr=1e-05", "may lie beyond"));
  EXPECT_THAT(must({"compare", "runs/tuned"}).out,
              AllOf(HasSubstr("Tries before the seeds"), Not(HasSubstr("left out"))));
  EXPECT_THAT(must({"status", "runs/tuned"}).out, HasSubstr("runs/tuned: 8 done\n"));
  must({"report", "runs/tuned", "--output", "page.html"});
  EXPECT_THAT(file_text(at("page.html")), HasSubstr("Tries before the seeds"));

  // Again: no try and no seed is repeated, and the table is the same.
  const std::string before = file_text(try_of("0.03", "quest") + "/status.json"),
                    shown = markdown();
  EXPECT_THAT(must({"suite", "tuned.yaml", "-j", "2"}).out,
              AllOf(Not(HasSubstr("starts")), Not(HasSubstr("come before"))));
  EXPECT_EQ(file_text(try_of("0.03", "quest") + "/status.json"), before);
  EXPECT_EQ(table().at("tune"), tuned);

  // Other tries: those that stay are not repeated, and the others are told of.
  must({"suite", "tuned.yaml", "tune.lr=[1e-3,3e-2]"});
  EXPECT_EQ(file_text(try_of("0.03", "quest") + "/status.json"), before);
  EXPECT_THAT(markdown(), HasSubstr("2 earlier tries"));
}

TEST_F(Tuned, SaysInItsPlanThatValuesAreChosenByTries) {
  write_suite();
  const Ended dry = must({"suite", "tuned.yaml", "--dry-run"});
  EXPECT_THAT(dry.out, mentions("dry run of tuned: ", "8 runs: 8 to run", "tiny, tries",
                                "tiny/quest  chosen by 2 tries", "nothing was written"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Tuned, RefusesDataWithoutAValidationSplitBeforeAnythingRuns) {
  write_suite("", "0");
  EXPECT_THAT(refusal({"suite", "tuned.yaml"}),
              AllOf(HasSubstr("validation split"), HasSubstr("synthetic_images")));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Tuned, HasNoRunsOfAnAttentionWhoseTriesAllDiverged) {
  write_suite();
  must({"suite", "tuned.yaml", "set.train.diverged_above=0.01", "seeds=[0]"});
  EXPECT_THAT(markdown(), mentions("none of its 2 tries", "validation split"));
  EXPECT_EQ(table().at("runs").size(), 0U);
  EXPECT_EQ(table().at("complete"), true);
  EXPECT_EQ(table().at("tune").at("attentions").at(0).at("tries").at(0).at("state"), "diverged");
}

TEST_F(Tuned, GoesOnWithTriesThatWereInterrupted) {
  write_suite();
  const Words words = {"suite", "tuned.yaml", "seeds=[0]", "attentions=[quest]",
                       "set.train.epochs=40"};
  {
    Process suite(invocation(words));
    const auto second_try_trains = [&] {
      if (!suite.running()) return true;
      return files_like("metrics.jsonl").size() == 2 &&
             !metric_lines(try_of("0.03", "quest"), "train").empty();
    };
    ASSERT_TRUE(wait_for(second_try_trains));
    suite.send(SIGINT);
    const Ended ended = suite.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
    EXPECT_THAT(ended.out, mentions("go on", "attnlab suite tuned.yaml"));
    EXPECT_FALSE(exists("runs/tuned/tiny")) << "no seed begins before the tries have ended";
  }
  EXPECT_THAT(
      attnlab({"status", "runs/tuned"}).out,
      AllOf(HasSubstr("1 interrupted, 1 pending, 1 done"), HasSubstr("its value waits for")));
  const std::string first = file_text(try_of("1e-05", "quest") + "/status.json");
  EXPECT_THAT(must(words).out, HasSubstr("resumes at step"));
  EXPECT_EQ(file_text(try_of("1e-05", "quest") + "/status.json"), first);
  EXPECT_EQ(table().at("complete"), true);
}

}  // namespace
}  // namespace attnlab::testing::tune_test
