// attnlab show of clouds of points, and the report that draws them.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "framework/base/base64.h"
#include "tests/integration/browser.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::show_clouds_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr std::uint8_t kNone = 255;

class ShowClouds : public Workspace {
 protected:
  std::string trained(const std::string& attention = "quest", const Words& changes = {}) const {
    folder_.write("rooms.yaml", R"(schema: 1
model: {use: point_transformer, encoder_depths: [1, 1], encoder_dims: [8, 8], encoder_heads: [1, 1], decoder_depths: [1], decoder_dims: [8], decoder_heads: [2], patch_size: 32}
attention: {use: standard}
task: {use: point_segmentation}
dataset: {use: synthetic_scenes, train: 4, validation: 2, test: 4, rays: 600, grid: 0.2}
train: {epochs: 1, batch_size: 2}
)");
    Words words = {"run", "rooms.yaml", "attention.use=" + attention};
    words.insert(words.end(), changes.begin(), changes.end());
    must(words);
    return run_folder("rooms/" + attention);
  }
  /// Clouds of two classes as text, and a run that tells them apart.
  std::string classifier() const {
    for (const char* part :
         {"train/ball/a.xyz", "train/rod/b.xyz", "test/ball/c.xyz", "test/rod/d.xyz"}) {
      std::string lines;
      for (int i = 0; i < 60; ++i) {
        const bool rod = std::string(part).find("rod") != std::string::npos;
        lines += std::to_string(rod ? 0 : i % 4) + " " + std::to_string(rod ? 0 : i / 4 % 4) + " " +
                 std::to_string(0.25 * (rod ? i : i / 16)) + "\n";
      }
      folder_.write(std::string("clouds/") + part, lines);
    }
    folder_.write("shapes.yaml", R"(schema: 1
model: {use: point_transformer, head: cloud, encoder_depths: [1, 1], encoder_dims: [8, 8], encoder_heads: [1, 1], patch_size: 16}
attention: {use: standard}
task: {use: point_classification}
dataset: {use: point_files, root: clouds, grid: 0.5}
train: {epochs: 1, batch_size: 2}
)");
    must({"run", "shapes.yaml"});
    return run_folder("shapes/standard");
  }
  static json kept(const std::string& run) {
    return json::parse(file_text(run + "/clouds.json")).at("clouds");
  }
  static std::vector<std::uint8_t> bytes(const json& cloud, const char* name) {
    const std::string text = base64_bytes(cloud.at(name).get<std::string>());
    return {text.begin(), text.end()};
  }
};

TEST_F(ShowClouds, KeepsPointsAnswersAndTheAttentionOfOnePoint) {
  const std::string run = trained();
  must({"show", run, "--examples", "2"});
  const json clouds = kept(run);
  ASSERT_EQ(clouds.size(), 2U);
  EXPECT_EQ(clouds[1].at("index"), 2) << "4 test clouds: 0 and 2";
  for (const json& cloud : clouds) {
    EXPECT_EQ(cloud.at("points"), 600);
    EXPECT_EQ(cloud.at("shown"), 600);
    EXPECT_EQ(cloud.at("classes").size(), 10U);
    EXPECT_EQ(bytes(cloud, "coord").size(), 3600U);
    const std::vector<std::uint8_t> label = bytes(cloud, "label"), said = bytes(cloud, "said");
    ASSERT_EQ(label.size(), 600U);
    ASSERT_EQ(said.size(), 600U);
    int right = 0;
    for (std::size_t i = 0; i < 600; ++i) right += label[i] == said[i] ? 1 : 0;
    char words[40];
    std::snprintf(words, sizeof words, "%.1f %% of 600 points right", right / 6.0);
    EXPECT_EQ(cloud.at("answer"), words);
    const std::vector<std::uint8_t> attention = bytes(cloud, "attention");
    EXPECT_NE(attention.at(cloud.at("chosen").get<std::size_t>()), kNone) << "it is in its patch";
    EXPECT_GT(std::count(attention.begin(), attention.end(), 254), 0) << "one gets most";
    EXPECT_GT(std::count(attention.begin(), attention.end(), kNone), 300);
    EXPECT_EQ(cloud.at("patch"), 32);
    EXPECT_GE(cloud.at("most").get<double>(), 1.0 / 32);
  }
  must({"show", run, "--examples", "1", "--point", "17"});
  EXPECT_EQ(kept(run)[0].at("chosen"), 17);
  EXPECT_EQ(kept(run)[0].at("point"), 17);
}

TEST_F(ShowClouds, ThinsLargeCloudsTheSameWayForEachAttention) {
  const Words large = {
      "dataset={use: synthetic_scenes, train: 2, test: 1, rays: 30000, grid: 0.3}"};
  const std::string standard = trained("standard", large), quest = trained("quest", large);
  for (const std::string& run : {standard, quest}) must({"show", run});
  const json a = kept(standard)[0], b = kept(quest)[0];
  EXPECT_EQ(a.at("points"), 30000);
  EXPECT_EQ(a.at("shown"), 20000);
  for (const char* name : {"coord", "label", "chosen"}) EXPECT_EQ(a.at(name), b.at(name)) << name;
  EXPECT_LT(std::filesystem::file_size(quest + "/clouds.json"), 400000U);
  must({"report", "runs/rooms", "--baseline", "standard", "-o", "page.html"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, mentions("rooms, test cloud 0: ", "30000 points", "20000 of them"));
  const std::size_t section = page.find("<section id=\"clouds\"");
  const std::size_t length = page.find("</section>", section) - section;
  EXPECT_LT(length + a.dump().size() + b.at("said").dump().size(), 1000000U);
}

TEST_F(ShowClouds, StandOnTheReportsPageAndInFilesForPapers) {
  for (const char* attention : {"standard", "quest"}) must({"show", trained(attention)});
  const Ended ended = must({"report", "runs/rooms", "--baseline", "standard", "-o", "page.html",
                            "--stills", "stills", "--view=-20,45", "--hide", "ceiling"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, mentions("attention of one point", "rooms, test cloud 0: 600 points</h3>",
                             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cloud\""));
  EXPECT_THAT(ended.out, HasSubstr("stills/rooms-cloud0-quest-attention.svg\n"));
  EXPECT_EQ(files_like(".svg").size(), 28U) << "of four clouds the label, and three an attention";
  const std::string still = file_text(at("stills/rooms-cloud0-label.svg"));
  EXPECT_THAT(still, AllOf(HasSubstr(">floor</text>"), Not(HasSubstr("ceiling"))));
  must({"report", "runs/rooms", "--baseline", "standard", "-o", "page.html", "--stills", "again",
        "--view=-20,45", "--hide", "ceiling"});
  EXPECT_EQ(file_text(at("again/rooms-cloud0-label.svg")), still) << "the same each time";
}

TEST_F(ShowClouds, TakesCloudsWithOneClass) {
  const std::string run = classifier();
  must({"show", run});
  const json clouds = kept(run);
  ASSERT_EQ(clouds.size(), 2U);
  for (const json& cloud : clouds) {
    EXPECT_THAT(cloud.at("answer").get<std::string>(),
                MatchesRegex("says (ball|rod) \\([0-9]+ %\\), is (ball|rod)"));
    EXPECT_EQ(cloud.at("label"), "");
    EXPECT_EQ(bytes(cloud, "attention").size(), cloud.at("shown"));
  }
  must({"report", "runs/shapes", "-o", "page.html"});
  EXPECT_THAT(file_text(at("page.html")),
              AllOf(HasSubstr("shapes, test cloud 1: "), HasSubstr("standard, seed 0: says ")));
}

TEST_F(ShowClouds, SaysWhatIsWrong) {
  const std::string run = trained();
  EXPECT_THAT(refusal({"show", run, "--point", "600"}),
              mentions("--point: ", "test cloud 0", "points 0 to 599"));
  EXPECT_THAT(refusal({"show", run, "--point=-2"}), HasSubstr("there is no point -2"));
  EXPECT_FALSE(std::filesystem::exists(run + "/clouds.json"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out"}),
              mentions("clouds to draw", "`attnlab show RUN_DIR`"));
  must({"show", run});
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--hide", "cieling"}),
              mentions("class 'cieling'", "did you mean 'ceiling'?"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--view", "30"}),
              HasSubstr("'30' is not TURN,TILT"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--view", "30,100"}),
              HasSubstr("is not TURN,TILT"));
  EXPECT_THAT(refusal({"report", "runs", "--view", "30,30"}), HasSubstr("goes with --stills"));
  EXPECT_FALSE(exists("out"));
  must({"run", "tiny.yaml"});
  EXPECT_THAT(refusal({"show", run_folder("tiny/standard"), "--point", "1"}),
              mentions("--point", "point of a cloud"));
  EXPECT_THAT(refusal({"show", run_folder("tiny/standard"), "--node", "1"}),
              mentions("--node", "node of a graph", "dataset '"));
}

}  // namespace
}  // namespace attnlab::testing::show_clouds_test
