// What a model is made of and what its steps compute: describe --summary, run --profile.
#include <map>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::look_inside_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LookInside : public Workspace {
 protected:
  json profile() const {
    return json::parse(read_text(run_folder("tiny/standard") + "/profile.json")).at("traceEvents");
  }
};

TEST_F(LookInside, ASummaryCountsWhatAProbeCounts) {
  const json probe = json::parse(must({"probe", "tiny.yaml", "--steps", "1"}).out);
  const json summary = json::parse(must({"describe", "tiny.yaml", "--summary", "--json"}).out);
  std::int64_t parameters = 0, flops = 0;
  for (const json& module : summary.at("modules")) {
    parameters += module.at("parameters").get<std::int64_t>();
  }
  for (const json& product : summary.at("products")) {
    flops += product.at("flops").get<std::int64_t>();
  }
  EXPECT_EQ(parameters, probe.at("parameters").get<std::int64_t>());
  EXPECT_EQ(flops / summary.at("examples").get<std::int64_t>(), probe.at("flops"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(LookInside, ASummaryShowsModulesThatRepeatOnce) {
  const std::string text =
      must({"describe", "tiny.yaml", "model.depth=3", "attention=quest", "--summary"}).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("layer0-layer2 (x3)"), HasSubstr("model"), HasSubstr("MFLOPs")));
}

TEST_F(LookInside, ASummaryOfARunIsThatOfItsConfiguration) {
  must({"run", "tiny.yaml", "--progress", "none"});
  EXPECT_EQ(must({"describe", run_folder("tiny/standard"), "--summary"}).out,
            must({"describe", "tiny.yaml", "--summary"}).out);
}

TEST_F(LookInside, AProfileHasTheStepsTheirPartsAndTheirOperations) {
  must({"run", "tiny.yaml", "--profile", "--progress", "none"});
  std::map<std::string, int> times;
  bool sized = false;
  const json events = profile();
  for (const json& event : events) {
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("dur").get<double>(), 0);
    ++times[event.at("name")];
    sized |= event.contains("args") && event.at("args").contains("sizes");
  }
  for (const char* part : {"step", "forward", "backward", "update"}) {
    EXPECT_EQ(times[part], 5) << part;
  }
  EXPECT_GE(times["wait for the batch"], 4) << "between two steps";
  EXPECT_GT(times["attnlab::attention"], 0) << "our own kernels show by their names";
  EXPECT_TRUE(sized);
  // The parts lie within their step.
  const auto of = [&](const std::string& name) {
    for (const json& event : events) {
      if (event.at("name") == name) return event;
    }
    return json();
  };
  const json step = of("step"), forward = of("forward");
  EXPECT_GE(forward.at("ts"), step.at("ts"));
  EXPECT_LE(forward.at("ts").get<double>() + forward.at("dur").get<double>(),
            step.at("ts").get<double>() + step.at("dur").get<double>());
}

TEST_F(LookInside, AProfileChangesNoNumber) {
  must({"run", "tiny.yaml", "--progress", "none"});
  const json plain = timeless_metrics(run_folder("tiny/standard"));
  must({"run", "tiny.yaml", "--profile", "--progress", "none", "--out", "other"});
  const std::vector<std::string> status = files_like("status.json");
  ASSERT_EQ(status.size(), 2U);
  for (const std::string& file : status) {
    EXPECT_EQ(timeless_metrics(file.substr(0, file.rfind('/'))), plain);
  }
}

TEST_F(LookInside, AProfileOfTooFewStepsSaysSo) {
  EXPECT_THAT(must({"run", "tiny.yaml", "--profile", "train.steps=2"}).out,
              HasSubstr("no profile"));
  EXPECT_TRUE(files_like("profile.json").empty());
}

TEST_F(LookInside, AProfileIsOfOneRun) {
  EXPECT_THAT(refusal({"run", "tiny.yaml", "--profile", "--ensemble"}), HasSubstr("--ensemble"));
}

}  // namespace
}  // namespace attnlab::testing::look_inside_test
