// What must not deceive: directions that nobody stated, numbers that are none, runs that cannot be
// read, and runs that were not made alike.
#include <unistd.h>

#include <cmath>

#include "framework/comparison/comparison.h"
#include "tests/support/run_folders.h"
#include "tests/support/unprivileged.h"

namespace attnlab::comparable_test {
namespace {

using namespace testing;
using nlohmann::json;
namespace fs = std::filesystem;

class ComparableTest : public WithRunFolders {
 protected:
  /// A run that is done. @param environment  further members of environment.json
  RunFolder write_run(const std::string& experiment, const std::string& attention,
                      std::int64_t seed, const std::map<std::string, double>& metrics,
                      const json& environment = json::object(),
                      const std::vector<MetricInfo>& infos = kMadeMetrics) const {
    const RunFolder folder = frozen_run(experiment, attention, seed);
    folder.write_status({RunState::done, 1, 1, 1, 2, metrics, ""});
    write_environment(folder, environment, infos);
    return folder;
  }
  Comparison compare(const std::string& metric = "headline",
                     const std::string& better = "auto") const {
    CompareOptions options;
    options.metric = metric;
    options.better = better;
    return compare_runs(find_runs({temp_ / "runs"}), options, "standard");
  }
  std::string text(const std::string& metric = "headline") const {
    return comparison_text(compare(metric), TableStyle::text);
  }
  static const ComparisonRow& row(const Comparison& comparison, std::string_view attention) {
    for (const ComparisonRow& row : comparison.rows) {
      if (row.attention == attention) return row;
    }
    throw std::runtime_error("no row");
  }
};

// ---- metrics and directions

TEST_F(ComparableTest, ComparesByTheTasksHeadlineAndDirection) {
  const std::vector<MetricInfo> loss = {{"oddness", Better::lower, "nats"}};
  for (std::int64_t seed = 0; seed < 6; ++seed) {
    const double size = 1.0 + 0.1 * static_cast<double>(seed);
    write_run("small", "standard", seed, {{"oddness", size}}, json::object(), loss);
    write_run("small", "quest", seed, {{"oddness", 2 * size}}, json::object(), loss);
  }
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.metric, "oddness");
  EXPECT_FALSE(row(comparison, "quest").improves());
  EXPECT_THAT(text(),
              AllOf(StartsWith("Comparison of oddness (lower is better)"), HasSubstr("standard"),
                    HasSubstr("worse"), HasSubstr("difference (nats)")));
}

TEST_F(ComparableTest, TakesEachExperimentsOwnHeadline) {
  const std::vector<MetricInfo> words = {{"perplexity", Better::lower, ""}};
  for (std::int64_t seed = 0; seed < 2; ++seed) {
    const double step = 0.01 * static_cast<double>(seed);
    write_run("images", "standard", seed, {{"accuracy", 0.5 + step}});
    write_run("images", "quest", seed, {{"accuracy", 0.6 + step}});
    write_run("text", "standard", seed, {{"perplexity", 30 + step}}, json::object(), words);
    write_run("text", "quest", seed, {{"perplexity", 20 + step}}, json::object(), words);
  }
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.metric, "headline");
  EXPECT_THAT(comparison.ranking->test.mean_ranks, ElementsAre(2, 1)) << "quest is better in both";
  EXPECT_THAT(text(), AllOf(::testing::ContainsRegex("images +quest +2 of 2 +accuracy \\(%\\)"),
                            ::testing::ContainsRegex("text +quest +2 of 2 +perplexity "),
                            mentions("accuracy (higher is better) on images",
                                     "perplexity (lower is better) on text", "standard")));
  const json read = json::parse(comparison_json(comparison));
  EXPECT_EQ(read.at("metrics").at("text").at("better"), "lower");
  EXPECT_FALSE(read.contains("better"));
}

TEST_F(ComparableTest, GuessesNoDirectionOfRunsThatRecordedNone) {
  for (const char* attention : {"standard", "quest"}) {
    const RunFolder folder = frozen_run("small", attention, 0);
    folder.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}, {"nll", 1}}, ""});
  }
  EXPECT_THAT(message_of<ConfigError>([&] { compare(); }),
              AllOf(HasSubstr("not say by which metric"), HasSubstr("--metric"),
                    HasSubstr("accuracy, nll")));
  EXPECT_THAT(message_of<ConfigError>([&] { compare("accuracy"); }),
              mentions("whether more", "'accuracy' is better", "--better higher or --better lower",
                       "compare.better"));
  EXPECT_THAT(
      comparison_text(compare("accuracy", "higher"), TableStyle::text),
      AllOf(HasSubstr("accuracy (higher is better)"), HasSubstr(" 0.500 "), Not(HasSubstr("%)"))))
      << "and shows a plain number";
}

TEST_F(ComparableTest, SuggestsMetricsAndAsksWhereATaskStatesNoDirection) {
  const std::vector<MetricInfo> depth = {{"depth", Better::neither, ""}};
  write_run("small", "standard", 0, {{"depth", 1}}, json::object(), depth);
  EXPECT_THAT(message_of<ConfigError>([&] { compare("dept"); }),
              mentions("metric 'dept'", "'depth'"));
  EXPECT_THAT(message_of<ConfigError>([&] { compare("depth"); }), HasSubstr("--better"));
  EXPECT_NO_THROW(compare("depth", "lower"));
}

TEST_F(ComparableTest, WaitsWithTheMetricOfWhatHasNotBegun) {
  frozen_run("small", "standard", 0);
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.rows.at(0).gap.kind, Absence::pending);
  EXPECT_NO_THROW(comparison_text(comparison, TableStyle::text));
}

// ---- numbers that are none

TEST_F(ComparableTest, LeavesOutWhatIsNotFiniteAndMarksTheRun) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}, {"examples_per_second", 100}});
  write_run("small", "standard", 1, {{"accuracy", NAN}, {"examples_per_second", NAN}});
  const Comparison comparison = compare();
  const ComparisonRow& standard = row(comparison, "standard");
  EXPECT_EQ(standard.summary.count, 1);
  EXPECT_EQ(standard.summary.mean, 0.5);
  EXPECT_EQ(standard.costs.at("examples_per_second"), 100);
  EXPECT_EQ(standard.seeds.at(1).gap.kind, Absence::not_finite);
  EXPECT_THAT(comparison.notes, ::testing::Contains(mentions("small/standard/1:", "not finite",
                                                             "accuracy, examples_per_second")));
}

// ---- runs that cannot be read

TEST_F(ComparableTest, GoesOnWithoutRunsThatCannotBeRead) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}});
  const RunFolder status = write_run("small", "standard", 1, {{"accuracy", 0.6}});
  write_file(status.file("status.json"), "{");
  const RunFolder config = write_run("small", "quest", 0, {{"accuracy", 0.7}});
  write_file(config.file("config.yaml"), "model: [");
  const RunCollection found = find_runs({temp_ / "runs"});
  EXPECT_EQ(found.runs.size(), 1U);
  EXPECT_EQ(found.unreadable.size(), 2U);
  const Comparison comparison = compare();
  EXPECT_EQ(row(comparison, "standard").summary.count, 1);
  EXPECT_EQ(row(comparison, "standard").seeds.at(1).gap.kind, Absence::unreadable);
  EXPECT_EQ(row(comparison, "quest").gap.kind, Absence::unreadable);
  EXPECT_THAT(text(), mentions(status.path(), "left out", config.path(), "left out"));
}

TEST_F(ComparableTest, FailsWhereNothingCanBeRead) {
  const RunFolder folder = write_run("small", "standard", 0, {{"accuracy", 0.5}});
  write_file(folder.file("environment.json"), "{\"together\": \"many\"}");
  EXPECT_THAT(message_of<DataError>([&] { find_runs({temp_ / "runs"}); }),
              AllOf(StartsWith("no run can be read"), HasSubstr("environment.json: damaged")));
}

TEST_F(ComparableTest, LeavesOutRunsWhoseRecordsNoMemoryHolds) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}});
  const RunFolder folder = write_run("small", "quest", 0, {{"accuracy", 0.6}});
  for (const char* name : {"status.json", "environment.json", "config.yaml"}) {
    const std::string path = folder.file(name);
    const std::string before = fs::exists(path) ? read_text(path) : "";
    write_file(path, "{}");
    fs::resize_file(path, std::uintmax_t{100} << 30);  // a hole
    EXPECT_EQ(find_runs({temp_ / "runs"}).runs.size(), 1U) << name;
    EXPECT_THAT(text(), HasSubstr(path)) << name;
    before.empty() ? static_cast<void>(fs::remove(path)) : write_file(path, before);
  }
  EXPECT_EQ(find_runs({temp_ / "runs"}).runs.size(), 2U);
}

TEST_F(ComparableTest, NamesTheRecordOfASuiteThatIsDamaged) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}});
  temp_.write("runs/suite.json", "{");
  EXPECT_THAT(find_runs({temp_ / "runs"}).notes, ElementsAre(HasSubstr("suite.json: damaged")));
}

TEST_F(ComparableTest, NamesFoldersThatMayNotBeRead) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}});
  const RunFolder folder = write_run("small", "quest", 0, {{"accuracy", 0.5}});
  fs::permissions(folder.path(), fs::perms::none);
  RunCollection found;
  {
    const Unprivileged user(temp_.path());
    if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
    found = find_runs({temp_ / "runs"});
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_EQ(found.absent.at(0).gap.kind, Absence::unreadable);
}

// ---- runs that were not made alike

TEST_F(ComparableTest, MarksRunsTrainedTogetherAndGivesNoneTheMemoryOfAll) {
  const std::map<std::string, double> metrics = {{"accuracy", 0.5}, {"peak_memory", 4e9}};
  write_run("small", "standard", 0, metrics, {{"threads", 1}, {"together", 2}});
  write_run("small", "standard", 1, metrics, {{"threads", 1}, {"together", 2}});
  write_run("small", "quest", 0, metrics, {{"threads", 1}});
  const Comparison comparison = compare();
  EXPECT_EQ(row(comparison, "standard").costs.count("peak_memory"), 0U);
  EXPECT_EQ(row(comparison, "quest").costs.at("peak_memory"), 4e9);
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(AllOf(StartsWith("small/standard/0, small/standard/1:"),
                                        mentions("(2 runs)", "peak_memory"))));
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(mentions("small:", "together is 2 in standard")));
}

TEST_F(ComparableTest, ShowsWhatWasAcceptedAndWhoWentOnAlone) {
  const json accepted = {{"step", 8},
                         {"accepted", json::array({"the file of attention 'quest' changed"})}};
  const json alone = {{"step", 4}, {"together", 1}}, fewer = {{"step", 5}, {"together", 2}};
  write_run("small", "quest", 0, {{"accuracy", 0.5}}, {{"resumed", json::array({accepted})}});
  write_run("small", "standard", 0, {{"accuracy", 0.5}},
            {{"together", 3}, {"resumed", json::array({alone})}});
  write_run("small", "standard", 1, {{"accuracy", 0.5}},
            {{"together", 3}, {"resumed", json::array({fewer})}});
  const Comparison comparison = compare();
  const std::vector<Words> notes = {
      {"small/quest/0: ", "at step 8", "--accept-changes", "attention 'quest' changed"},
      {"small/standard/0: ", "one of 3", "alone from step 4"},
      {"small/standard/1: ", "one of 3", "fewer from step 5"}};
  for (const Words& note : notes) {
    EXPECT_THAT(comparison.notes, ::testing::Contains(says(note)));
    EXPECT_THAT(text(), has_line({note[0], note[1]}));
  }
}

TEST_F(ComparableTest, SaysWhereARunWentOnInOtherSurroundings) {
  const json elsewhere = {{"step", 6},
                          {"threads", 4},
                          {"machine", {{"cpu", "B"}}},
                          {"libtorch", {{"version", "2.6.0"}}},
                          {"together", 3}};
  write_run("small", "standard", 0, {{"accuracy", 0.5}, {"peak_memory", 4e9}},
            {{"threads", 16},
             {"machine", {{"cpu", "A"}}},
             {"libtorch", {{"version", "2.6.0"}}},
             {"resumed", json::array({elsewhere})}});
  const Comparison comparison = compare();
  const std::vector<Words> changes = {{"16 threads", "with 4 threads"},
                                      {"the processor A", "the processor B"}};
  for (Words change : changes) {
    change.insert(change.end(), {"small/standard/0: ", "at step 6", "last digits"});
    EXPECT_THAT(comparison.notes, ::testing::Contains(says(change)));
  }
  EXPECT_THAT(comparison.notes, Not(::testing::Contains(HasSubstr("LibTorch"))));
  // What the process of three used is not this run's.
  EXPECT_EQ(row(comparison, "standard").costs.count("peak_memory"), 0U);
}

TEST_F(ComparableTest, SaysWhenFrameworkRevisionsDiffer) {
  const auto of = [](const char* revision) {
    return json({{"framework", {{"version", "1"}, {"revision", revision}}}});
  };
  write_run("small", "standard", 0, {{"accuracy", 0.5}}, of("abc"));
  write_run("small", "quest", 0, {{"accuracy", 0.5}}, of("abc"));
  EXPECT_THAT(compare().notes, Not(::testing::Contains(HasSubstr("revision"))));
  write_run("small", "quest", 1, {{"accuracy", 0.5}}, of("def"));
  EXPECT_THAT(compare().notes,
              ::testing::Contains(mentions("2 framework revisions",
                                           "abc in small/quest/0, small/standard/0",
                                           "def in small/quest/1")));
}

// A suite that is under way can be compared.
TEST_F(ComparableTest, KnowsNoSurroundingsOfRunsThatHaveNotBegun) {
  write_run("small", "standard", 0, {{"accuracy", 0.5}},
            {{"model", {{"hash", "abc"}}}, {"data", {{"fingerprint", "def"}}}});
  frozen_run("small", "quest", 0);
  EXPECT_THAT(compare().differences, IsEmpty());
}

// ---- evaluations

TEST_F(ComparableTest, ComparesByTheMetricOfAnEvaluation) {
  for (const char* attention : {"standard", "quest"}) {
    for (std::int64_t seed = 0; seed < 2; ++seed) {
      const RunFolder folder = write_run("small", attention, seed, {{"accuracy", 0.5}});
      const bool quest = attention[0] == 'q';
      write_evaluation(folder.path(),
                       evaluated("fog", {{"accuracy", quest ? 0.25 : 0.125}, {"nll", 2}},
                                 quest && seed == 1 ? "no memory" : ""));
    }
  }
  const Comparison comparison = compare("fog/accuracy");
  EXPECT_EQ(row(comparison, "quest").summary.mean, 0.25);
  EXPECT_EQ(row(comparison, "quest").seeds.at(1).gap.text(), "failed: evaluation fog: no memory");
  EXPECT_THAT(text("fog/accuracy"), HasSubstr("fog/accuracy (%)"));
  EXPECT_THAT(text(), AllOf(HasSubstr("fog/accuracy (%)"), Not(HasSubstr("fog/nll"))))
      << "beside what is compared, the headline of each entry";
}

TEST_F(ComparableTest, WritesNoDeviationOfOneEvaluation) {
  const EvaluationRecord fog = evaluated("fog", {{"accuracy", 0.25}});
  const auto sd = [&] {
    const json read = json::parse(comparison_json(compare()));
    return read.at("rows").at(0).at("evaluations").at("fog/accuracy").at("sd");
  };
  write_evaluation(write_run("small", "standard", 0, {{"accuracy", 0.5}}).path(), fog);
  EXPECT_TRUE(sd().is_null());
  write_evaluation(write_run("small", "standard", 1, {{"accuracy", 0.5}}).path(), fog);
  EXPECT_EQ(sd(), 0.0) << "of two that agree";
}

TEST_F(ComparableTest, RefusesToCompareEvaluationsThatChangedDifferentThings) {
  for (const char* attention : {"standard", "quest"}) {
    const RunFolder folder = write_run("small", attention, 0, {{"accuracy", 0.5}});
    EvaluationRecord fog = evaluated("fog", {{"accuracy", 0.25}});
    fog.set = attention[0] == 'q' ? R"({"severity":1})" : R"({"severity":5})";
    write_evaluation(folder.path(), fog);
  }
  ASSERT_EQ(compare("fog/accuracy").differences.size(), 1U);
  EXPECT_EQ(compare("fog/accuracy").differences[0].key, "evaluation fog");
  EXPECT_THAT(compare().differences, IsEmpty()) << "what is compared was made alike";
  EXPECT_THAT(compare().notes, ::testing::Contains(HasSubstr("their values do not compare")));
}

TEST_F(ComparableTest, RefusesToCompareEvaluationsOfAveragedWeightsWithThoseOfTheLast) {
  const auto filed = [&](const char* attention, const char* weights) {
    const RunFolder folder = write_run("small", attention, 0, {{"accuracy", 0.5}});
    EvaluationRecord fog = evaluated("fog", {{"accuracy", 0.25}});
    fog.weights = weights;
    write_evaluation(folder.path(), fog);
  };
  filed("standard", "last");
  filed("quest", "average");
  const auto differences = compare("fog/accuracy").differences;
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_THAT(differences[0].text(), HasSubstr("test split by averaged weights"));
  filed("standard", "");
  EXPECT_THAT(compare("fog/accuracy").differences, IsEmpty())
      << "an earlier attnlab did not say of which it is";
}

/// An evaluation's result. @param set  what it changes, JSON
EvaluationRecord result(const std::string& entry, const std::string& set) {
  EvaluationRecord out = evaluated(entry, {{"accuracy", 0.25}, {"outcome/correct", 1}});
  out.set = set;
  return out;
}

TEST_F(ComparableTest, RefusesToCompareMeansOfPointsThatChangedDifferentThings) {
  for (const char* attention : {"standard", "quest"}) {
    const RunFolder folder = write_run("small", attention, 0, {{"accuracy", 0.5}});
    const bool quest = attention[0] == 'q';
    write_evaluation(folder.path(),
                     result("swap/0.01", quest ? R"({"stride":1})" : R"({"stride":2})"));
    write_evaluation(folder.path(), result("swap/0.05", R"({"stride":1})"));
    write_evaluation(folder.path(), result("swap", R"({"over":["swap/0.01","swap/0.05"]})"));
  }
  for (const char* metric : {"swap/accuracy", "swap/outcome/correct", "swap/0.01/accuracy",
                             "swap/0.01/outcome/correct"}) {
    const Comparison comparison = compare(metric);
    ASSERT_EQ(comparison.differences.size(), 1U) << metric;
    EXPECT_EQ(comparison.differences[0].key, "evaluation swap/0.01") << metric;
  }
  EXPECT_THAT(compare("swap/0.05/accuracy").differences, IsEmpty()) << "it is of another point";
  EXPECT_THAT(compare().differences, IsEmpty());
}

TEST_F(ComparableTest, RefusesToCompareMeansOverDifferentPoints) {
  const RunFolder standard = write_run("small", "standard", 0, {{"accuracy", 0.5}}),
                  quest = write_run("small", "quest", 0, {{"accuracy", 0.5}});
  for (const RunFolder& folder : {standard, quest}) {
    write_evaluation(folder.path(), result("swap/0.01", R"({"stride":1})"));
    write_evaluation(folder.path(), result("swap", R"({"over":["swap/0.01"]})"));
  }
  EXPECT_THAT(compare("swap/accuracy").differences, IsEmpty());
  write_evaluation(quest.path(), result("swap", R"({"over":["swap/0.01","swap/0.05"]})"));
  ASSERT_EQ(compare("swap/accuracy").differences.size(), 1U);
  EXPECT_EQ(compare("swap/accuracy").differences[0].key, "evaluation swap");
  write_evaluation(quest.path(), result("swap", "{}"));
  EXPECT_THAT(compare("swap/accuracy").differences, IsEmpty())
      << "an earlier attnlab did not say of which points it is";
}

TEST_F(ComparableTest, CountsAndNamesEvaluationsThatFailed) {
  for (std::int64_t seed = 0; seed < 3; ++seed) {
    const RunFolder folder = write_run("small", "standard", seed, {{"accuracy", 0.5}});
    for (const char* entry : {"fog", "rain", "snow"}) {
      EvaluationRecord one = result(entry, "{}");
      one.done = seed < 2 || entry[0] == 's';
      if (!one.done) one.reason = "no memory";
      write_evaluation(folder.path(), one);
    }
  }
  EXPECT_THAT(text(), ::testing::ContainsRegex("3 of 3 .* 25.00 ± 0.00 \\(2 of 3\\)"));
  EXPECT_THAT(text(), Not(HasSubstr("(3 of 3)"))) << "those of snow are all there";
  EXPECT_THAT(compare().notes,
              ::testing::Contains(
                  mentions("small/standard/2:", "evaluation fog, rain: failed: no memory")));
}

TEST_F(ComparableTest, ReadsARunWhoseEvaluationIsDamaged) {
  const RunFolder folder = write_run("small", "standard", 0, {{"accuracy", 0.5}});
  fs::create_directories(folder.file("evaluations"));
  write_file(folder.file("evaluations/fog-1.json"), "{");
  const Comparison comparison = compare();
  EXPECT_EQ(row(comparison, "standard").summary.count, 1);
  EXPECT_THAT(comparison.notes, ::testing::Contains(HasSubstr("evaluations/fog-1.json: damaged")));
}

}  // namespace
}  // namespace attnlab::comparable_test
