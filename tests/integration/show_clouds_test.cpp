// attnlab show of clouds of points, the report that draws them, and its viewer in a real browser.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

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
  EXPECT_THAT(page, HasSubstr("rooms, test cloud 0: 30000 points, 20000 of them shown"));
  const std::string places = a.at("coord").get<std::string>().substr(0, 400);
  EXPECT_EQ(page.find(places, page.find(places) + 1), std::string::npos) << "points stand once";
  const std::size_t section = page.find("<section id=\"clouds\"");
  const std::size_t length = page.find("</section>", section) - section;
  EXPECT_LT(length + a.dump().size() + b.at("said").dump().size(), 1000000U);
}

TEST_F(ShowClouds, StandOnTheReportsPageAndInFilesForPapers) {
  for (const char* attention : {"standard", "quest"}) must({"show", trained(attention)});
  const Ended ended = must({"report", "runs/rooms", "--baseline", "standard", "-o", "page.html",
                            "--stills", "stills", "--view=-20,45", "--hide", "ceiling"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, AllOf(HasSubstr("Clouds and the attention of one point"),
                          HasSubstr("rooms, test cloud 0: 600 points</h3>"),
                          HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cloud\""),
                          HasSubstr("gl.drawArrays(gl.POINTS")));
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
  const auto refusal = [&](const Words& words) {
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  const std::string run = trained();
  EXPECT_THAT(refusal({"show", run, "--point", "600"}),
              HasSubstr("--point: test cloud 0 has points 0 to 599"));
  EXPECT_THAT(refusal({"show", run, "--point=-2"}), HasSubstr("there is no point -2"));
  EXPECT_FALSE(std::filesystem::exists(run + "/clouds.json"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out"}),
              HasSubstr("no run here has clouds to draw; `attnlab show RUN_DIR`"));
  must({"show", run});
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--hide", "cieling"}),
              HasSubstr("there is no class 'cieling'; did you mean 'ceiling'?"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--view", "30"}),
              HasSubstr("'30' is not TURN,TILT"));
  EXPECT_THAT(refusal({"report", "runs", "--stills", "out", "--view", "30,100"}),
              HasSubstr("is not TURN,TILT"));
  EXPECT_THAT(refusal({"report", "runs", "--view", "30,30"}), HasSubstr("goes with --stills"));
  EXPECT_FALSE(exists("out"));
  must({"run", "tiny.yaml"});
  EXPECT_THAT(refusal({"show", run_folder("tiny/standard"), "--point", "1"}),
              HasSubstr("--point chooses a point of a cloud"));
  EXPECT_THAT(refusal({"show", run_folder("tiny/standard"), "--node", "1"}),
              HasSubstr("--node chooses a node of a graph; dataset '"));
}

// ---- in a browser

// Looks at the views, turns one, zooms, and colours them by each of the ways.
constexpr const char* kLook = R"(
const views = [...document.querySelectorAll('canvas.points')];
const pixels = (canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
const painted = (canvas) => pixels(canvas).reduce((sum, value, at) => sum + (at % 4 === 3 && value > 0 ? 1 : 0), 0);
const mark = (canvas) => pixels(canvas).reduce((sum, value, at) => (31 * sum + value) % 1000003, 7);
const seen = {webgl: Boolean(document.createElement('canvas').getContext('webgl')), views: views.length};
seen.requests = performance.getEntriesByType('resource').map((entry) => entry.name);
seen.stills = [...document.querySelectorAll('.stills')].map((one) => one.open);
seen.images = document.images.length;
seen.wide = document.documentElement.scrollWidth <= innerWidth;
if (views.length > 0) {
  const [canvas, other] = views, box = canvas.getBoundingClientRect();
  const pointer = (type, x, y, more = {}) => canvas.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, ...more}));
  const key = (name, more = {}) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, ...more}));
  const button = (text) => [...document.querySelectorAll('.viewer button')].find((one) => one.textContent === text);
  seen.painted = views.map(painted);
  const marks = [[mark(canvas), mark(other)]], look = () => marks.push([mark(canvas), mark(other)]);
  pointer('pointerdown', 100, 100); pointer('pointermove', 160, 120); pointer('pointerup', 160, 120); look();
  canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, cancelable: true})); look();
  key('ArrowLeft'); look();
  key('ArrowUp', {shiftKey: true}); look();
  seen.focused = document.activeElement === canvas;
  key('0'); look();
  seen.marks = marks;
  seen.words = [];
  for (let x = 0; x < box.width; x += 12) { pointer('pointermove', x, box.height / 2); seen.words.push(canvas.parentElement.querySelector('.told').textContent); }
  seen.ways = {};
  for (const name of ['Label', 'Prediction', 'Error', 'Attention']) {
    button(name).click();
    seen.ways[name] = [mark(canvas), button(name).getAttribute('aria-pressed'), document.querySelector('.legend').textContent, canvas.parentElement.querySelector('.scale').textContent];
  }
  button('Label').click();
  button('ceiling').click();
  seen.hidden = [painted(canvas), button('ceiling').getAttribute('aria-pressed')];
}
)";

class CloudViewer : public ShowClouds {
 protected:
  void SetUp() override {
    if (browser().empty()) {
      GTEST_SKIP() << "no chromium in PATH; scripts/setup.sh --with browser installs it";
    }
    for (const char* attention : {"standard", "quest"}) {
      must({"show", trained(attention), "--examples", "1"});
    }
    must({"report", "runs/rooms", "--baseline", "standard", "-o", "page.html"});
    folder_.write("look.html", watched(file_text(at("page.html")), kLook));
  }
};

TEST_F(CloudViewer, TurnsZoomsAndColours) {
  const json seen =
      seen_in_browser(folder_.path(), "look.html",
                      {"--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"});
  EXPECT_EQ(seen.at("problems"), json::array());
  EXPECT_EQ(seen.at("requests"), json::array());
  if (!seen.at("webgl")) GTEST_SKIP() << "this browser has no WebGL, not even in software";
  EXPECT_EQ(seen.at("views"), 2) << "one for each attention";
  EXPECT_EQ(seen.at("stills"), json({false}));
  for (const int painted : seen.at("painted")) EXPECT_GT(painted, 1000);
  const auto marks = seen.at("marks").get<std::vector<std::pair<int, int>>>();
  ASSERT_EQ(marks.size(), 6U);
  for (const auto& [one, other] : marks) EXPECT_EQ(one, other) << "both are seen from one place";
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_NE(marks[i].first, marks[i - 1].first) << "move " << i << " changed nothing";
  }
  EXPECT_EQ(marks[5].first, marks[0].first) << "0 goes back to the start";
  EXPECT_EQ(seen.at("focused"), true);
  const std::string words = seen.at("words").dump();
  EXPECT_THAT(words, AllOf(HasSubstr("says "), HasSubstr(" · is "), HasSubstr(" · at ")));
  std::set<int> pictures;
  for (const auto& [name, way] : seen.at("ways").items()) {
    pictures.insert(way.at(0).get<int>());
    EXPECT_EQ(way.at(1), "true") << name;
  }
  EXPECT_EQ(pictures.size(), 4U) << "each way of colouring is another picture";
  EXPECT_THAT(seen.at("ways").at("Label").at(2).get<std::string>(), HasSubstr("floor"));
  EXPECT_THAT(seen.at("ways").at("Error").at(2).get<std::string>(), HasSubstr("rightwrong"));
  EXPECT_THAT(seen.at("ways").at("Attention").at(3).get<std::string>(),
              HasSubstr("attention of point "));
  EXPECT_LT(seen.at("hidden").at(0).get<int>(), seen.at("painted").at(0).get<int>());
  EXPECT_EQ(seen.at("hidden").at(1), "false");
}

TEST_F(CloudViewer, LeavesStillPicturesWhereThereIsNoWebGl) {
  const json seen =
      seen_in_browser(folder_.path(), "look.html", {"--disable-gpu", "--disable-3d-apis"});
  EXPECT_EQ(seen.at("problems"), json::array());
  EXPECT_EQ(seen.at("webgl"), false);
  EXPECT_EQ(seen.at("views"), 0);
  EXPECT_EQ(seen.at("stills"), json({true}));
  EXPECT_EQ(seen.at("wide"), true) << "the page scrolls sideways";
}

}  // namespace
}  // namespace attnlab::testing::show_clouds_test
