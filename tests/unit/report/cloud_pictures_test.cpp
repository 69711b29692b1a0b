// Clouds as reports draw them: the camera, colours, order, what was kept of a run, hostile names,
// and files that are none.
#include "framework/report/cloud_pictures.h"

#include <numbers>
#include <regex>

#include "framework/base/base64.h"
#include "framework/document/markup.h"
#include "tests/support/compositions.h"

namespace attnlab::cloud_pictures_test {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::MatchesRegex;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kHostile = "</script><img src=x onerror=alert(1)>\"'&";

/// The eight corners of a cube, x fastest.
DrawnCloud cube() {
  DrawnCloud cloud;
  for (unsigned corner = 0; corner < 8; ++corner) {
    for (unsigned axis = 0; axis < 3; ++axis) {
      cloud.places.push_back(corner >> axis & 1U ? 65535 : 0);
    }
  }
  cloud.classes = {"chair", "table"};
  cloud.label = {0, 0, 0, 0, 1, 1, 1, 255};
  cloud.said = {0, 1, 0, 0, 1, 1, 0, 0};
  cloud.attention = {0, 127, 254, 255, 255, 255, 255, 255};
  cloud.most = 0.5;
  cloud.chosen = 2;
  return cloud;
}

TEST(CloudStill, LooksFromTheFrontAndFromAbove) {
  const double side = 1 / std::numbers::sqrt3;  // of the cube, in its radii, from the middle
  const std::vector<SeenPoint> front = projected(cube(), 0, 0);
  // Corner 0 is left, below and in front (y is away from the camera): nearer, and so larger.
  EXPECT_NEAR(front[0].depth, side, 1e-9);
  EXPECT_NEAR(front[0].x, -side * 3 / (3 - side), 1e-9);
  EXPECT_NEAR(front[0].y, -side * 3 / (3 - side), 1e-9);
  // Corner 7 is right, above and behind.
  EXPECT_NEAR(front[7].depth, -side, 1e-9);
  EXPECT_NEAR(front[7].x, side * 3 / (3 + side), 1e-9);
  EXPECT_NEAR(front[7].y, side * 3 / (3 + side), 1e-9);
  // From above, what is high is near; x goes on to the right and y upwards.
  const std::vector<SeenPoint> above = projected(cube(), 0, 90);
  EXPECT_NEAR(above[4].depth, side, 1e-9);
  EXPECT_LT(above[4].x, 0);
  EXPECT_LT(above[4].y, 0);
  EXPECT_GT(above[7].y, 0);
  // A quarter turn brings the camera to where x is large: y points to the right.
  const std::vector<SeenPoint> turned = projected(cube(), 90, 0);
  EXPECT_NEAR(turned[1].depth, side, 1e-9);
  EXPECT_LT(turned[1].x, 0);
  EXPECT_GT(turned[3].x, 0);
}

TEST(CloudStill, KeepsDistancesWhereverTheCameraStands) {
  for (const double turn : {-130.0, 17.0, 250.0}) {
    for (const double tilt : {-80.0, 5.0, 62.0}) {
      for (const SeenPoint& point : projected(cube(), turn, tilt)) {
        const double shrunk = 3 / (3 - point.depth);
        const double across = point.x / shrunk, above = point.y / shrunk;
        EXPECT_NEAR(across * across + above * above + point.depth * point.depth, 1, 1e-9);
      }
    }
  }
}

/// Colours and places of the points in the order in which they are drawn.
std::vector<std::pair<std::string, std::string>> drawn_of(const std::string& svg) {
  std::vector<std::pair<std::string, std::string>> drawn;
  static const std::regex kPath("<path stroke=\"(#[0-9a-f]{6})\"[^>]* d=\"([^\"]*)\"/>");
  static const std::regex kPoint("M([0-9.]+ [0-9.]+)h0");
  for (std::sregex_iterator path(svg.begin(), svg.end(), kPath), end; path != end; ++path) {
    const std::string points = (*path)[2];
    for (std::sregex_iterator point(points.begin(), points.end(), kPoint); point != end; ++point) {
      drawn.emplace_back((*path)[1], (*point)[1]);
    }
  }
  return drawn;
}

std::vector<std::string> colours_of(const std::string& svg) {
  std::vector<std::string> colours;
  for (const auto& [colour, place] : drawn_of(svg)) colours.push_back(colour);
  return colours;
}

TEST(CloudStill, DrawsBackToFrontInTheColoursOfTheirClasses) {
  StillOptions options;
  options.turn = options.tilt = 0;
  const std::string svg = cloud_svg(cube(), Colouring::label, options, "a cube");
  const std::string chair = class_colour(0), table = class_colour(1);
  // Behind are 2, 3, 6 and 7, then in front 0, 1, 4 and 5: equally far ones in their order.
  EXPECT_THAT(colours_of(svg),
              ElementsAre(chair, chair, table, kUncounted, chair, chair, table, table));
  EXPECT_EQ(svg, cloud_svg(cube(), Colouring::label, options, "a cube"));
  EXPECT_THAT(svg, AllOf(HasSubstr(">chair</text>"), HasSubstr(">table</text>"),
                         HasSubstr(">not counted</text>"), HasSubstr("aria-label=\"a cube\"")));
  EXPECT_THAT(colours_of(cloud_svg(cube(), Colouring::prediction, options, "")),
              ElementsAre(chair, chair, chair, chair, chair, table, table, table));
}

TEST(CloudStill, ShowsErrorsAndAttention) {
  StillOptions options;
  options.turn = options.tilt = 0;
  EXPECT_THAT(colours_of(cloud_svg(cube(), Colouring::error, options, "")),
              ElementsAre(kRight, kRight, kWrong, kUncounted, kRight, kWrong, kRight, kRight));
  const std::string svg = cloud_svg(cube(), Colouring::attention, options, "");
  const std::vector<std::string> colours = colours_of(svg);
  EXPECT_EQ(colours[0], ramp_colours().back()) << "point 2 gets most";
  EXPECT_EQ(colours[4], ramp_colours().front()) << "point 0 gets none";
  EXPECT_NE(colours[5], ramp_colours().back());
  EXPECT_EQ(colours[1], kUncounted) << "point 3 is outside the patch";
  EXPECT_THAT(svg, AllOf(HasSubstr("<circle"), HasSubstr(">0.5</text>")));
  const std::string ring = svg.substr(svg.find("<circle cx=\"") + 12);
  EXPECT_EQ(ring.substr(0, ring.find('"')),
            drawn_of(svg)[0].second.substr(0, drawn_of(svg)[0].second.find(' ')))
      << "the ring is around the chosen point";
}

TEST(CloudStill, LeavesOutHiddenClassesAndMoreThanItMay) {
  StillOptions options;
  options.hidden = {"table"};
  const std::string svg = cloud_svg(cube(), Colouring::label, options, "");
  EXPECT_EQ(drawn_of(svg).size(), 5U);
  EXPECT_THAT(svg, Not(HasSubstr("table")));
  options.hidden = {"chair", "table"};
  EXPECT_EQ(drawn_of(cloud_svg(cube(), Colouring::label, options, "")).size(), 1U);
  options = {};
  options.most = 3;
  EXPECT_EQ(drawn_of(cloud_svg(cube(), Colouring::error, options, "")).size(), 3U);
}

TEST(CloudStill, StaysInsideItsFrame) {
  for (const double turn : {0.0, 45.0, 200.0}) {
    StillOptions options;
    options.turn = turn;
    for (const auto& [colour, place] : drawn_of(cloud_svg(cube(), Colouring::label, options, ""))) {
      const double x = std::stod(place), y = std::stod(place.substr(place.find(' ')));
      EXPECT_TRUE(x >= 7 && x <= 393 && y >= 7 && y <= 293) << place;
    }
  }
  DrawnCloud one;
  one.places = {7, 7, 7};
  EXPECT_EQ(drawn_of(cloud_svg(one, Colouring::height, {}, "")).size(), 1U) << "no division by 0";
}

TEST(CloudStill, HasClassesOfTheirOwnColours) {
  std::set<std::string> colours;
  for (std::size_t c = 0; c < 60; ++c) {
    EXPECT_THAT(class_colour(c), MatchesRegex("#[0-9a-f]+"));
    colours.insert(class_colour(c));
  }
  EXPECT_EQ(colours.size(), 60U);
}

class CloudPictures : public ::testing::Test {
 protected:
  static std::string in_letters(const Bytes& bytes) {
    return base64_text(std::string(bytes.begin(), bytes.end()));
  }
  static json kept(const std::string& answer = "75.0 % of 4 points right") {
    return {{"index", 3},
            {"points", 9},
            {"shown", 2},
            {"point", 5},
            {"chosen", 1},
            {"low", {1, 2, 3}},
            {"side", 4.5},
            {"coord", in_letters({0, 0, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8})},
            {"classes", {"chair", kHostile}},
            {"label", in_letters({0, 1})},
            {"said", in_letters({0, 255})},
            {"attention", in_letters({254, 255})},
            {"most", 0.25},
            {"patch", 64},
            {"answer", answer}};
  }
  void add_run(const std::string& attention, std::int64_t seed, const json& cloud) {
    RunRecord run;
    run.experiment = "rooms";
    run.attention = attention;
    run.seed = seed;
    const std::string name = "run" + std::to_string(runs_.size());
    run.folder = temp_ / name;
    temp_.write(name + "/clouds.json", json{{"clouds", {cloud}}}.dump());
    runs_.push_back(std::move(run));
  }
  std::vector<CloudPicture> found() {
    notes_.clear();
    return cloud_pictures_of(runs_, notes_);
  }

  TempFolder temp_;
  std::vector<RunRecord> runs_;
  std::vector<std::string> notes_;
};

TEST_F(CloudPictures, AreReadAsTheyWereKept) {
  add_run("quest", 1, kept());
  const std::vector<CloudPicture> pictures = found();
  ASSERT_EQ(pictures.size(), 1U);
  const CloudPicture& one = pictures[0];
  EXPECT_EQ(one.origin.seed, 1);
  EXPECT_THAT(one.cloud.places, ElementsAre(0, 65535, 513, 1027, 1541, 2055));
  EXPECT_THAT(one.cloud.label, ElementsAre(0, 1));
  EXPECT_THAT(one.cloud.said, ElementsAre(0, 255));
  EXPECT_THAT(one.cloud.attention, ElementsAre(254, 255));
  EXPECT_EQ(one.cloud.chosen, 1U);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CloudPictures, StandSideBySideAndWriteTheirPointsOnce) {
  add_run("standard", 0, kept());
  add_run("quest", 0, kept("50.0 % of 4 points right"));
  const std::string html = cloud_pictures_html(found());
  EXPECT_THAT(html, mentions("test cloud 3", "9 points, 2 of them",
                             "quest, seed 0: 50.0 % of 4 points right.", "point 5", "64 tokens",
                             "0.25 at most", "0.016"));
  // The label once; prediction, error and attention of each.
  std::size_t pictures = 0;
  for (std::size_t at = html.find("<svg"); at != std::string::npos;
       at = html.find("<svg", at + 1)) {
    ++pictures;
  }
  EXPECT_EQ(pictures, 7U);
  EXPECT_EQ(cloud_pictures_html({}), "");
}

TEST_F(CloudPictures, OfOtherPointsBringTheirOwn) {
  add_run("standard", 0, kept());
  json other = kept();
  other["label"] = in_letters({1, 1});
  add_run("quest", 0, other);
  const std::string html = cloud_pictures_html(found());
  EXPECT_THAT(html, AllOf(HasSubstr(">label</figcaption>"), HasSubstr(", label</figcaption>")));
}

TEST_F(CloudPictures, ShowHostileNamesAsText) {
  add_run(kHostile, 0, kept(kHostile));
  runs_.back().experiment = kHostile;
  const std::string html = cloud_pictures_html(found());
  EXPECT_THAT(
      html, AllOf(HasSubstr("&lt;img src=x"), Not(HasSubstr("<img")), Not(HasSubstr("</script>"))));
  for (const CloudFile& file : cloud_files(found(), {})) {
    EXPECT_THAT(file.name, MatchesRegex("[A-Za-z0-9_.-]+\\.svg"));
    EXPECT_THAT(file.svg, Not(HasSubstr("<img")));
  }
}

TEST_F(CloudPictures, AreFilesForPapersWithNamesOfTheirOwn) {
  add_run("a b", 0, kept());
  add_run("a_b", 0, kept());
  add_run("../x", 0, kept());
  std::set<std::string> names;
  for (const CloudFile& file : cloud_files(found(), {})) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    EXPECT_THAT(file.name, StartsWith("rooms-cloud3-"));
    EXPECT_THAT(file.svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  }
  EXPECT_EQ(names.size(), 10U);
  EXPECT_EQ(names.count("rooms-cloud3-label.svg"), 1U);
  EXPECT_EQ(names.count("rooms-cloud3-a_b-error-2.svg"), 1U);
}

TEST_F(CloudPictures, OfCloudsWithOneClassAreColouredByHeight) {
  json cloud = kept("says lamp (90 %), is lamp");
  cloud["label"] = cloud["said"] = "";
  cloud["classes"] = json::array();
  add_run("quest", 0, cloud);
  EXPECT_THAT(cloud_pictures_html(found()),
              AllOf(HasSubstr("says lamp (90 %), is lamp"), HasSubstr("height</figcaption>"),
                    Not(HasSubstr("label</figcaption>"))));
}

TEST_F(CloudPictures, OfAnotherFormAreANote) {
  const std::vector<std::pair<std::string, json>> wrong = {
      {"coord", in_letters({0, 0, 0, 0, 0, 0})},
      {"coord", "?"},
      {"label", in_letters({0})},
      {"label", in_letters({0, 2})},
      {"said", in_letters({9, 0})},
      {"said", 7},
      {"attention", in_letters({1, 2, 3})},
      {"chosen", 2},
      {"shown", 0},
      {"most", nullptr},
      {"low", json{1, 2}},
      {"classes", "chair"}};
  for (const auto& [name, value] : wrong) {
    runs_.clear();
    json cloud = kept();
    cloud[name] = value;
    add_run("quest", 0, cloud);
    EXPECT_TRUE(found().empty()) << name << ": " << value;
    ASSERT_EQ(notes_.size(), 1U) << name << ": " << value;
    EXPECT_THAT(notes_[0], HasSubstr("clouds.json cannot be read"));
  }
}

}  // namespace
}  // namespace attnlab::cloud_pictures_test
