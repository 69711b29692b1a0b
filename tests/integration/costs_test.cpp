// What runs cost, as the program tells: probe, match, event files.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::costs_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Costs : public Workspace {
 protected:
  json probe(Words more) const {
    Words words = {"probe", "tiny.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(must(words).out);
  }
};

TEST_F(Costs, OfAnExperimentAreProbedWithoutATrace) {
  const json built = probe({"--steps", "0"});
  EXPECT_EQ(built.at("step_seconds"), 0.0);
  EXPECT_GT(built.at("parameters"), 1000);
  EXPECT_EQ(built.at("flops"), 0);
  EXPECT_EQ(built.at("steps"), 8);
  EXPECT_FALSE(built.at("data").get<std::string>().empty());
  const json measured = probe({"--steps", "2"});
  EXPECT_GT(measured.at("step_seconds"), 0.0);
  EXPECT_GT(measured.at("flops"), measured.at("parameters"));
  EXPECT_GT(measured.at("evaluation_seconds"), 0.0);
  EXPECT_GT(measured.at("peak_memory"), 20'000'000);
  EXPECT_FALSE(exists("runs"));
  EXPECT_THAT(files_like(""), ElementsAre(at("tiny.yaml")));
}

TEST_F(Costs, OfAMissingDataSetAreKnownByTheExitCode) {
  const Ended ended =
      attnlab({"probe", "tiny.yaml", "dataset={use: cifar, root: nowhere}", "--steps", "0"});
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_THAT(ended.err, HasSubstr("nowhere"));
  EXPECT_EQ(ended.out, "");
}

TEST_F(Costs, AreRecordedWithARun) {
  must({"run", "tiny.yaml", "--progress", "none"});
  const std::string run = run_folder("tiny/standard");
  const json environment = json::parse(read_text(run + "/environment.json"));
  EXPECT_EQ(environment.at("flops"), probe({"--steps", "1"}).at("flops"));
  EXPECT_GT(status_of(run).at("metrics").at("peak_memory"), 20e6);
  EXPECT_EQ(std::distance(fs::directory_iterator(run + "/tensorboard"), {}), 1);
}

TEST_F(Costs, OfASuiteAreMatchedByAnOption) {
  folder_.write("s.yaml",
                "schema: 1\nattentions: [standard, indirect]\nexperiments: [tiny.yaml]\n"
                "match: {hold: parameters, by: model.mlp_ratio, within: 0.01}\nseeds: [0]\n"
                "set: {model: {mlp_ratio: 4}}\ncompare: {test: t}\n");
  must({"suite", "s.yaml", "--progress", "none"});
  const auto parameters = [&](const std::string& attention) {
    const std::string run = run_folder("s/tiny/" + attention);
    return json::parse(read_text(run + "/environment.json")).at("parameters").get<double>();
  };
  EXPECT_NEAR(parameters("indirect"), parameters("standard"), 0.01 * parameters("standard"));
  EXPECT_THAT(must({"config", "explain", run_folder("s/tiny/indirect"), "model.mlp_ratio"}).out,
              mentions("match of parameters", "standard"));
  const json compared = json::parse(must({"compare", "runs/s", "--json"}).out);
  EXPECT_EQ(compared.at("fair"), true);
  ASSERT_EQ(compared.at("matched").size(), 1U);
  EXPECT_EQ(compared.at("matched")[0].at("key"), "model.mlp_ratio");
  EXPECT_EQ(compared.at("matched")[0].at("values").size(), 2U);
}

TEST_F(Costs, ThatCannotBeMatchedAreRefusedBeforeAnythingIsWritten) {
  folder_.write("s.yaml",
                "schema: 1\nattentions: [standard, indirect]\nexperiments: [tiny.yaml]\n"
                "match: {hold: parameters, by: model.depth}\nseeds: [0]\n");
  EXPECT_THAT(refusal({"suite", "s.yaml", "--progress", "none"}),
              AllOf(HasSubstr("s.yaml:4:8: match: attention 'indirect'"),
                    HasSubstr("model.depth=1 gives"), HasSubstr("match.within")));
  EXPECT_FALSE(exists("runs"));
}

}  // namespace
}  // namespace attnlab::testing::costs_test
