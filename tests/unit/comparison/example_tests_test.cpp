// Comparisons by example of made-up runs: which test is made, what it says, and what is refused.
#include <cmath>

#include "framework/comparison/comparison.h"
#include "tests/support/kept_predictions.h"
#include "tests/support/run_folders.h"

namespace attnlab::example_tests_test {
namespace {

using namespace testing;
using nlohmann::json;

/// 1 of the first `right` of 20 examples.
std::vector<double> right_of(std::size_t right) {
  std::vector<double> scores(20, 0.0);
  std::fill_n(scores.begin(), right, 1.0);
  return scores;
}

double mean_of(const std::vector<double>& scores) {
  double sum = 0;
  for (const double score : scores) sum += score / static_cast<double>(scores.size());
  return sum;
}

class ExampleTests : public WithRunFolders {
 protected:
  static MadePredictions made(const std::vector<double>& accuracy) {
    MadePredictions out;
    for (std::size_t i = 0; i < accuracy.size(); ++i) {
      out.examples.push_back(static_cast<std::int64_t>(i));
    }
    out.scores["accuracy"] = accuracy;
    return out;
  }
  /// A run that is done, with an evaluation that kept predictions.
  RunFolder write(const std::string& attention, std::int64_t seed, const MadePredictions& kept,
                  const std::string& entry = "answers", const std::string& set = "{}") const {
    RunStatus status;
    status.state = RunState::done;
    std::map<std::string, double> metrics;
    for (const auto& [name, scores] : kept.scores) metrics[name] = mean_of(scores);
    status.metrics = metrics;
    const RunFolder folder = write_run("small", attention, seed, status);
    EvaluationRecord record = evaluated(entry, metrics);
    record.set = set;
    record.weights = "last";
    keep(folder.path(), record, bytes_of(kept));
    return folder;
  }
  Comparison compare(const std::string& metric = "headline") const {
    CompareOptions options;
    options.pair = "example";
    options.metric = metric;
    return compare_runs(find_runs({root()}), options, "standard");
  }
  std::string refusal(const std::string& metric = "headline") const {
    return message_of<ConfigError>([&] { compare(metric); });
  }
};

TEST_F(ExampleTests, OfOneSeedAndOutcomesAreMcNemars) {
  std::vector<double> quest = right_of(16);
  quest[0] = 0;  // right alone: standard; 10 to 15: quest
  write("standard", 0, made(right_of(10)));
  write("quest", 0, made(quest));
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.by_example.size(), 1U);
  const ExampleTest& test = comparison.by_example[0];
  ASSERT_TRUE(test.mcnemar.has_value());
  EXPECT_EQ(test.mcnemar->attention, 6);
  EXPECT_EQ(test.mcnemar->baseline, 1);
  EXPECT_NEAR(test.p_value, 2 * (1 + 7) / 128.0, 1e-15);
  EXPECT_NEAR(test.difference.mean, 0.25, 1e-12);
  EXPECT_EQ(test.examples, 20);
  EXPECT_EQ(verdict_text(test), "not shown");
  const std::string text = comparison_text(comparison, TableStyle::text);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("of several seeds")),
                          mentions("The same examples", "alone right", "McNemar's exact test",
                                   "these trained models", "other examples", "another training")));
  EXPECT_THAT(text, HasSubstr("What is missing")) << "the test over seeds stands beside it";
  EXPECT_THAT(comparison_text(comparison, TableStyle::markdown), HasSubstr("| alone wrong |"));
  const json read = json::parse(comparison_json(comparison)).at("by_example").at(0);
  EXPECT_EQ(read.at("test"), "mcnemar");
  EXPECT_EQ(read.at("alone_right"), 6);
  EXPECT_EQ(read.at("examples"), 20);
}

TEST_F(ExampleTests, OfSeveralSeedsAreOfEachExamplesMean) {
  write("standard", 0, made(right_of(10)));
  write("standard", 1, made(right_of(12)));
  write("quest", 0, made(right_of(18)));
  write("quest", 1, made(right_of(20)));
  write("quest", 2, made(right_of(0)));  // without a pair
  const ExampleTest test = compare().by_example.at(0);
  EXPECT_FALSE(test.mcnemar.has_value());
  EXPECT_THAT(test.seeds, ::testing::ElementsAre(0, 1));
  EXPECT_NEAR(test.value, 0.95, 1e-12);
  EXPECT_NEAR(test.baseline, 0.55, 1e-12);
  std::vector<double> differences(20, 0.0);
  for (std::size_t i = 0; i < 20; ++i) {
    differences[i] = (i < 18 ? 0.5 : 0) + 0.5 - (i < 10 ? 0.5 : 0) - (i < 12 ? 0.5 : 0);
  }
  const BootstrapResult alone = paired_bootstrap(differences, std::vector<double>(20, 1.0), 0.95);
  EXPECT_EQ(test.difference.interval.low, alone.interval.low);
  EXPECT_EQ(test.p_value, alone.p_value);
  EXPECT_EQ(verdict_text(test), "better");
  EXPECT_THAT(comparison_text(compare(), TableStyle::text),
              mentions("Paired bootstrap over examples", "each example", "its mean"));
}

TEST_F(ExampleTests, OfScoresWeighExamplesAsTheMetricDoes) {
  MadePredictions standard = made(right_of(10)), quest = made(right_of(10));
  standard.terms = quest.terms = std::vector<double>(20, 2.0);
  standard.terms[19] = quest.terms[19] = 10;
  quest.scores["accuracy"][19] = 1;
  const auto weighted = [&](const MadePredictions& one, const std::string& attention) {
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      sum += one.terms[i] * one.scores.at("accuracy")[i];
      weight += one.terms[i];
    }
    const RunFolder folder = write(attention, 0, one);
    EvaluationRecord record = evaluated("answers", {{"accuracy", sum / weight}});
    record.weights = "last";
    keep(folder.path(), record, bytes_of(one));
  };
  weighted(standard, "standard");
  weighted(quest, "quest");
  const ExampleTest test = compare().by_example.at(0);
  EXPECT_FALSE(test.mcnemar.has_value()) << "its examples do not weigh alike";
  EXPECT_NEAR(test.difference.mean, 10.0 / 48, 1e-12);
}

TEST_F(ExampleTests, AreOfTheEvaluationThatTheMetricNames) {
  const std::string fog = R"({"dataset":{"corruption":"fog"}})";
  write("standard", 0, made(right_of(10)), "fog", fog);
  write("quest", 0, made(right_of(4)), "fog", fog);
  const ExampleTest test = compare("fog/accuracy").by_example.at(0);
  EXPECT_NEAR(test.difference.mean, -0.3, 1e-12);
  EXPECT_EQ(test.metric.name, "fog/accuracy");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("small/quest/0"), HasSubstr("changes nothing"),
                               HasSubstr("predictions: true"), HasSubstr("--metric")))
      << "the run itself kept none";
}

TEST_F(ExampleTests, AreCorrectedAmongThemselves) {
  write("standard", 0, made(right_of(5)));
  write("quest", 0, made(right_of(12)));
  const double alone = compare().by_example.at(0).adjusted_p;
  EXPECT_NEAR(alone, 2 / 128.0, 1e-15);
  write_run("other", "standard", 0, ended(RunState::failed));
  EXPECT_EQ(compare().by_example.size(), 1U) << "what is not done has no test";
}

TEST_F(ExampleTests, AreRefusedWithoutPredictions) {
  write("standard", 0, made(right_of(10)));
  const RunFolder quest = write("quest", 0, made(right_of(12)));
  EvaluationRecord plain = evaluated("answers", {{"accuracy", 0.6}});
  plain.weights = "last";
  write_evaluation(quest.path(), plain);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("small/quest/0"), HasSubstr("answers:")));
  EXPECT_THAT(refusal("answers/accuracy"),
              AllOf(HasSubstr("kept no predictions"), HasSubstr("predictions: true")));
  CompareOptions seeds;
  EXPECT_NO_THROW(compare_runs(find_runs({root()}), seeds, "standard"));
}

TEST_F(ExampleTests, AreRefusedWhereExamplesDiffer) {
  const MadePredictions standard = made(right_of(10));
  write("standard", 0, standard);
  const auto told = [&](const MadePredictions& quest) {
    write("quest", 0, quest);
    return refusal();
  };
  const auto both = AllOf(HasSubstr("small/standard/0"), HasSubstr("small/quest/0"),
                          HasSubstr("not asked the same examples"), HasSubstr("--again"));
  MadePredictions fewer = made(std::vector<double>(19, 1.0));
  EXPECT_THAT(told(fewer), AllOf(both, HasSubstr("they are 20 and 19")));
  MadePredictions order = standard;
  std::swap(order.examples[3], order.examples[4]);
  EXPECT_THAT(told(order), AllOf(both, HasSubstr("at place 3 they are 3 and 4")));
  MadePredictions data = standard;
  data.data = "others";
  EXPECT_THAT(told(data), AllOf(both, HasSubstr("data and others")));
  MadePredictions weights = standard;
  weights.terms = std::vector<double>(20, 2.0);
  EXPECT_THAT(told(weights), AllOf(both, HasSubstr("weigh differently")));
  write("quest", 0, standard);
  EXPECT_NO_THROW(compare());
}

TEST_F(ExampleTests, AreRefusedOfMetricsThatAreNoMeans) {
  const auto perplexity = [&](const std::string& attention, double of_all) {
    MadePredictions one = made(right_of(10));
    for (int i = 0; i < 20; ++i) one.scores["perplexity"].push_back(10 + i);
    const RunFolder folder = write(attention, 0, one);
    EvaluationRecord record =
        evaluated("answers", {{"accuracy", 0.5}, {"perplexity", of_all}}, "",
                  {{"accuracy", Better::higher, "share"}, {"perplexity", Better::lower, ""}});
    record.weights = "last";
    keep(folder.path(), record, bytes_of(one));
  };
  perplexity("standard", 17.25);
  perplexity("quest", 17.25);
  EXPECT_THAT(refusal("answers/perplexity"),
              mentions("perplexity", "17.25", "19.5", "of accuracy, perplexity"));
  perplexity("standard", 19.5);
  perplexity("quest", 19.5);
  EXPECT_NO_THROW(compare("answers/perplexity"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                MadePredictions lost = made(right_of(10));
                lost.scores["accuracy"][7] = std::nan("");
                write("quest", 0, lost);
                compare();
              }),
              AllOf(HasSubstr("small/quest/0"), HasSubstr("accuracy of example 7 is .nan")));
}

TEST_F(ExampleTests, OfAMeanOverEvaluationsAreThoseOfItsPoints) {
  for (const char* attention : {"standard", "quest"}) {
    const RunFolder folder = write(attention, 0, made(right_of(10)), "swap", "{}");
    EvaluationRecord mean = evaluated("swap", {{"accuracy", 0.5}});
    mean.set = R"({"over":["swap/1"]})";
    write_evaluation(folder.path(), mean);
    EvaluationRecord point = evaluated("swap/1", {{"accuracy", 0.5}});
    write_evaluation(folder.path(), point);
  }
  EXPECT_THAT(refusal("swap/accuracy"), AllOf(HasSubstr("mean over several evaluations"),
                                              HasSubstr("--metric swap/1/accuracy")));
}

}  // namespace
}  // namespace attnlab::example_tests_test
