// attnlab show: graphs of a run with answers and attention, and the report that draws them.
#include <filesystem>
#include <map>

#include "tests/integration/workspace.h"

namespace attnlab::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Show : public Workspace {
 protected:
  std::string trained(const std::string& more = "") const {
    folder_.write("blocks.yaml",
                  "schema: 1\nmodel: {use: graph_gps, dim: 8, depth: 2, heads: 2, head: node, "
                  "mpnn: gine" +
                      more +
                      "}\nattention: {use: quest}\ntask: {use: node_classification}\n"
                      "dataset: {use: sbm, name: cluster, train: 8, validation: 2, test: 5}\n"
                      "train: {epochs: 1, batch_size: 4}\n");
    must({"run", "blocks.yaml"});
    return run_folder("blocks/quest");
  }
  static json kept(const std::string& run) {
    return json::parse(file_text(run + "/graphs.json")).at("graphs");
  }
};

TEST_F(Show, KeepsGraphsWithAnswersAndTheAttentionOfOneNode) {
  const std::string run = trained();
  must({"show", run, "--examples", "3"});
  const json graphs = kept(run);
  ASSERT_EQ(graphs.size(), 3U);
  for (const json& graph : graphs) {
    const std::size_t shown = graph.at("shown");
    EXPECT_LE(shown, 150U);
    EXPECT_EQ(graph.at("words").size(), shown);
    EXPECT_EQ(graph.at("wrong").size(), shown);
    ASSERT_EQ(graph.at("attention").size(), shown);
    double sum = 0;
    for (const double weight : graph.at("attention")) sum += weight;
    EXPECT_LE(sum, 1 + 1e-5);
    EXPECT_GE(sum, graph.at("nodes") == shown ? 1 - 1e-5 : 0.1);
    EXPECT_THAT(graph.at("answer").get<std::string>(), HasSubstr("nodes right"));
    std::map<std::size_t, int> degrees;
    for (const auto& [a, b] : graph.at("edges").get<std::vector<std::pair<int, int>>>()) {
      EXPECT_LT(a, b);
      ++degrees[std::size_t(a)], ++degrees[std::size_t(b)];
    }
    for (const auto& [node, degree] : degrees) {
      EXPECT_LE(degree, degrees[graph.at("chosen").get<std::size_t>()]);
    }
  }
  must({"report", "runs/blocks", "--baseline", "quest", "-o", "page.html"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, HasSubstr("Graphs and the attention of one node"));
  EXPECT_THAT(page, HasSubstr("blocks, test graph 0: "));
  EXPECT_THAT(page, HasSubstr("node 0: says "));
  must({"show", run, "--examples", "1", "--node", "2"});
  EXPECT_EQ(kept(run).at(0).at("chosen"), 2);
}

TEST_F(Show, TakesModelsWithoutAttention) {
  const std::string run = trained(", global: false");
  must({"show", run});
  for (const json& graph : kept(run)) EXPECT_TRUE(graph.at("attention").empty());
}

TEST_F(Show, SaysWhatIsWrong) {
  const auto refusal = [&](const Words& words) {
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  const std::string run = trained();
  EXPECT_THAT(refusal({"show", run, "--node", "9999"}), HasSubstr("test graph 0 has nodes 0 to "));
  EXPECT_THAT(refusal({"show", run, "--examples", "0"}), HasSubstr("0 is not 1 to 100"));
  EXPECT_FALSE(std::filesystem::exists(run + "/graphs.json"));
  must({"run", "tiny.yaml", "name=toy", "model={use: toy_transformer}",
        "task={use: sequence_classification}",
        "dataset={use: spurious_retrieval, train: 32, test: 8}"});
  EXPECT_THAT(
      refusal({"show", run_folder("toy/standard")}),
      HasSubstr(
          "has no graphs, no clouds of points, no boxes and no images of one size with classes"));
}

}  // namespace
}  // namespace attnlab::testing
