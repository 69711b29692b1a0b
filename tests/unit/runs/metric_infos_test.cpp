// What runs record about their metrics, and how it is looked up and shown.
#include "framework/runs/metric_infos.h"
#include "framework/base/json.h"

#include "framework/costs/costs.h"
#include "framework/runs/metric_text.h"
#include "tests/support/compositions.h"

namespace attnlab::metric_infos_test {
namespace {

using namespace testing;
using nlohmann::json;

const MetricInfo kAccuracy{"accuracy", Better::higher, "share"};
const MetricInfo kNll{"nll", Better::lower, "nats"};

TEST(MetricInfos, ComeBackFromJsonAsTheyWere) {
  const std::vector<MetricInfo> infos = {kAccuracy,
                                         kNll,
                                         {"depth", Better::neither, ""},
                                         {"ap50_cat", Better::higher, "share", "cat"}};
  EXPECT_EQ(read_metric_infos(metric_infos_json(infos)), infos);
  EXPECT_EQ(metric_infos_json({kAccuracy}),
            json::parse(R"([{"name": "accuracy", "better": "higher", "unit": "share"}])"));
}

TEST(MetricInfos, RefuseAnotherForm) {
  for (const char* text :
       {"5", "[5]", R"([{"name": "a"}])", R"([{"name": "a", "better": "up", "unit": ""}])"}) {
    EXPECT_THAT(message_of<DataError>([&] { read_metric_infos(json::parse(text)); }),
                StartsWith("metrics: "))
        << text;
  }
}

TEST(MetricInfos, PutTheTasksOwnBeforeTheHosts) {
  json environment = json::object();
  const MetricInfo own{"train_loss", Better::neither, "own"};
  add_metrics({kNll, own}, "tokens", environment);
  const std::vector<MetricInfo> read = read_metric_infos(environment.at("metrics"));
  ASSERT_GE(read.size(), 4U);
  EXPECT_EQ(read[0], kNll) << "the headline";
  EXPECT_EQ(read[1], own);
  EXPECT_EQ(std::count_if(read.begin(), read.end(),
                          [](const MetricInfo& info) { return info.name == "train_loss"; }),
            1)
      << "what the task says counts";
  EXPECT_EQ(find_metric(read, "tokens_per_second")->better, Better::higher);
  EXPECT_EQ(find_metric(read, kPeakMemory)->unit, "bytes");
  EXPECT_EQ(environment.at("costs"),
            json({"parameters", "flops", "tokens_per_second", "peak_memory"}));
}

TEST(MetricInfos, OfAnEvaluationAreThoseOfTheMetricUnlessItHasItsOwn) {
  std::vector<MetricInfo> infos = {kAccuracy, {"outcome/correct", Better::higher, "share of runs"}};
  EXPECT_EQ(find_metric(infos, "fog/accuracy"),
            (MetricInfo{"fog/accuracy", Better::higher, "share"}));
  EXPECT_EQ(find_metric(infos, "c/fog/accuracy")->unit, "share");
  EXPECT_EQ(find_metric(infos, "fog/outcome/correct")->unit, "share of runs");
  EXPECT_EQ(find_metric(infos, "accuracy/"), std::nullopt);
  EXPECT_EQ(find_metric(infos, "top"), std::nullopt);
  infos.push_back({"fog/accuracy", Better::lower, ""});
  EXPECT_EQ(find_metric(infos, "fog/accuracy")->better, Better::lower);
}

TEST(MetricBook, TakesTheClassFromRunsThatNameIt) {
  const MetricInfo named{"ap50_cat", Better::higher, "share", "cat"};
  const MetricInfo older{"ap50_cat", Better::higher, "share"};
  MetricBook book;
  for (const MetricInfo& info : {older, named, older}) book.add("one", {info});
  book.add("two", {older});
  book.add("three", {named});
  EXPECT_EQ(book.find("one", "ap50_cat"), named);
  EXPECT_EQ(book.shared("ap50_cat"), named);
  book.add("four", {{"ap50_cat", Better::lower, "share", "cat"}});
  EXPECT_EQ(book.shared("ap50_cat").better, Better::neither);
}

TEST(MetricBook, KnowsNothingOfWhatRunsOfOneExperimentContradict) {
  MetricBook book;
  book.add("a", {kAccuracy, kNll});
  book.add("a", {});  // a run of an earlier attnlab
  EXPECT_EQ(book.headline("a"), kAccuracy);
  EXPECT_EQ(book.find("a", "nll"), kNll);
  book.add("a", {{"nll", Better::lower, "bits"}, kAccuracy});
  EXPECT_EQ(book.find("a", "nll"), std::nullopt);
  EXPECT_EQ(book.headline("a"), std::nullopt) << "two headlines";
  EXPECT_EQ(book.find("a", "accuracy"), kAccuracy);
  EXPECT_EQ(book.headline("b"), std::nullopt);
}

TEST(MetricBook, SharesAcrossExperimentsOnlyWhatAllSay) {
  MetricBook book;
  book.add("a", {kAccuracy, kNll});
  book.add("b", {{"accuracy", Better::higher, "percent"}, {"words", Better::lower, ""}});
  EXPECT_EQ(book.shared("nll"), kNll) << "b does not know it";
  EXPECT_EQ(book.shared("accuracy"), (MetricInfo{"accuracy", Better::neither, ""}));
  EXPECT_EQ(book.shared("unknown"), (MetricInfo{"unknown", Better::neither, ""}));
  EXPECT_THAT(book.in_order({"words", "a", "nll", "accuracy"}),
              ElementsAre("accuracy", "nll", "words", "a"))
      << "as recorded, then by name";
}

TEST(MetricText, IsWrittenInTheUnit) {
  EXPECT_EQ(metric_text(kAccuracy, 0.8734), "87.34 %");
  EXPECT_EQ(metric_text({"ap", Better::higher, "percent"}, 41.5), "41.50 %");
  EXPECT_EQ(metric_text(kNll, 0.123456), "0.1235 nats");
  EXPECT_EQ(metric_text({"speed", Better::higher, ""}, 1234.5), "1234");
  EXPECT_EQ(metric_text({"memory", Better::lower, "bytes"}, 412.3e6), "412 MB");
  EXPECT_EQ(memory_text(1.53e9), "1.53 GB");
  EXPECT_EQ(metric_text({"accuracy", Better::neither, ""}, 0.8734), "0.8734") << "nothing is known";
  EXPECT_EQ(metric_text(kAccuracy, INFINITY), "not finite");
  EXPECT_EQ(metrics_text({{"accuracy", 0.5}, {"a", 1}, {"nll", 2}}, {kNll, kAccuracy}),
            "nll 2 nats  accuracy 50.00 %  a 1");
}

}  // namespace
}  // namespace attnlab::metric_infos_test
