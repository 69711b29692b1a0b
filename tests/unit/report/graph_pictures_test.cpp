// Graphs as reports draw them: places, what was kept of a run, and files that are none.
#include "framework/report/graph_pictures.h"

#include <cmath>

#include "framework/report/graph_layout.h"
#include "tests/support/compositions.h"

namespace attnlab::graph_pictures_test {
namespace {

using namespace testing;
using Edges = std::vector<std::pair<std::size_t, std::size_t>>;

double distance(const DrawnPoint& a, const DrawnPoint& b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}

TEST(GraphLayout, PutsAPathOnALine) {
  const std::vector<DrawnPoint> points = graph_layout(6, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  EXPECT_NEAR(distance(points[0], points[5]), 1, 0.45);
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    EXPECT_NEAR(distance(points[i], points[i + 1]), distance(points[0], points[5]) / 5, 0.02) << i;
  }
}

TEST(GraphLayout, PutsARingOnACircle) {
  Edges ring;
  for (std::size_t i = 0; i < 12; ++i) ring.emplace_back(i, (i + 1) % 12);
  for (const DrawnPoint& point : graph_layout(12, ring)) {
    EXPECT_NEAR(distance(point, {0.5, 0.5}), 0.5, 0.05);
  }
}

TEST(GraphLayout, TakesWhatIsSmallOrInPiecesAndStaysInside) {
  EXPECT_TRUE(graph_layout(0, {}).empty());
  EXPECT_EQ(graph_layout(1, {}).at(0).x, 0.5);
  for (const Edges& edges : {Edges{}, Edges{{0, 1}}, Edges{{0, 1}, {2, 3}, {3, 4}, {4, 2}}}) {
    const std::vector<DrawnPoint> points = graph_layout(5, edges);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(points[i].x >= -1e-9 && points[i].x <= 1 + 1e-9) << points[i].x;
      EXPECT_TRUE(points[i].y >= -1e-9 && points[i].y <= 1 + 1e-9) << points[i].y;
      for (std::size_t j = 0; j < i; ++j) EXPECT_GT(distance(points[i], points[j]), 0.05) << i << j;
    }
  }
}

class GraphPictures : public ::testing::Test {
 protected:
  void add_run(const std::string& attention, std::int64_t seed, const std::string& graphs) {
    RunRecord run;
    run.experiment = "molecules";
    run.attention = attention;
    run.seed = seed;
    run.folder = temp_ / (attention + std::to_string(seed));
    const std::string file = attention + std::to_string(seed) + "/graphs.json";
    if (!graphs.empty()) temp_.write(file, R"({"graphs":[)" + graphs + "]}");
    runs_.push_back(std::move(run));
  }
  /// Three nodes of a larger graph on a path, whose second one is chosen.
  static std::string path(const std::string& attention, const std::string& more = "") {
    return R"({"index":7,"nodes":200,"shown":3,"numbers":[4,7,190],"chosen":1,"edges":[[0,1],[1,2]],"attention":)" +
           attention + R"(,"answer":"says <b> (90 %), is c","words":["C","N","O"],"wrong":[]})" +
           more;
  }
  std::vector<GraphPicture> found() {
    notes_.clear();
    return graph_pictures_of(runs_, notes_);
  }

  TempFolder temp_;
  std::vector<RunRecord> runs_;
  std::vector<std::string> notes_;
};

TEST_F(GraphPictures, AreThoseOfTheFirstSeedThatHasAny) {
  add_run("quest", 0, "");
  add_run("quest", 1, path("[0.2,0.5,0.3]"));
  add_run("quest", 2, path("[0.1,0.1,0.8]"));
  add_run("standard", 0, path("[]"));
  const std::vector<GraphPicture> pictures = found();
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].origin.seed, 1);
  EXPECT_THAT(pictures[0].attention_to, ElementsAre(0.2, 0.5, 0.3));
  EXPECT_EQ(pictures[1].origin.attention, "standard");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(GraphPictures, AreDrawnSideBySideWithTheDarkestWhereAttentionIs) {
  add_run("quest", 0, path("[0.2,0.5,0.3]"));
  add_run("standard", 0, path("[]"));
  const std::string html = graph_pictures_html(found());
  EXPECT_THAT(html, mentions("test graph 7", "200 nodes", "the 3 nearest"));
  EXPECT_THAT(html, mentions("says &lt;b&gt; (90 %), is c", "0.5"));
  EXPECT_THAT(html, HasSubstr("is c. No attention was recorded."));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  const std::string svg = graph_svg(found()[0]);
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.40\"><title>node 4: C; attention 0.2<"));
  EXPECT_THAT(svg, HasSubstr("class=\"chosen \" fill-opacity=\"1.00\"><title>node 7 (chosen): N"));
  EXPECT_THAT(svg, HasSubstr("<title>node 190: O"));
  EXPECT_EQ(graph_pictures_html({}), "");
}

TEST_F(GraphPictures, OfAnotherFormAreANote) {
  const std::string sound = path("[1,0,0]");
  for (const std::string& bad : {std::string("7"), sound.substr(0, sound.size() - 2), path("[1,0]"),
                                 path("[1,null,0]"), path("[1,0,0]", R"(,{"index":1})")}) {
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty()) << bad;
    ASSERT_EQ(notes_.size(), 1U) << bad;
    EXPECT_THAT(notes_[0], HasSubstr("graphs.json cannot be read"));
  }
  std::string beyond = sound;
  beyond.replace(beyond.find("[1,2]"), 5, "[1,3]");
  std::string unnumbered = sound;
  unnumbered.replace(unnumbered.find("[4,7,190]"), 9, "[4,7]");
  // No more edges than pairs of nodes, or the page grows with what a file repeats.
  std::string repeated = sound;
  repeated.replace(repeated.find("[1,2]"), 5, "[1,2],[0,2],[2,1]");
  for (const std::string& bad : {beyond, unnumbered, repeated, sound + "," + sound}) {
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty()) << bad;
  }
}

TEST_F(GraphPictures, AreNoMoreAndNoLargerThanShowWrites) {
  const auto with = [](const std::string& key, std::int64_t value, std::string graph) {
    const std::size_t at = graph.find(key) + key.size();
    return graph.replace(at, graph.find(',', at) - at, std::to_string(value));
  };
  std::string many;
  for (int i = 0; i < 100; ++i) many += (i > 0 ? "," : "") + with("\"index\":", i, path("[1,0,0]"));
  add_run("quest", 0, many);
  EXPECT_EQ(found().size(), 100U);
  const auto large = [&](std::size_t nodes) {
    std::string numbers = "0";
    for (std::size_t i = 1; i < nodes; ++i) numbers += "," + std::to_string(i);
    std::string graph = with("\"shown\":", std::int64_t(nodes), path("[]"));
    graph.replace(graph.find("[4,7,190]"), 9, "[" + numbers + "]");
    return graph.replace(graph.find(R"(["C","N","O"])"), 13, "[]");
  };
  runs_.clear();
  add_run("quest", 0, large(150));
  EXPECT_EQ(found().size(), 1U);
  for (const std::string& bad : {many + "," + with("\"index\":", 100, path("[]")), large(151)}) {
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty());
    EXPECT_EQ(notes_.size(), 1U);
  }
}

}  // namespace
}  // namespace attnlab::graph_pictures_test
