// attnlab show: graphs of a run with answers and attention, and the report that draws them.
#include <cstdio>
#include <filesystem>
#include <map>

#include "tests/integration/workspace.h"

namespace attnlab::testing::show_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

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
  /// Trains on twelve graphs of 200 nodes, each a path, and shows node 180 of the test graphs.
  /// @param file, lines  what is true of them: "graph_labels", a line a graph
  json shown_paths(const std::string& file, const std::string& lines,
                   const std::string& task) const {
    std::string edges, graphs;
    for (int node = 1; node <= 12 * 200; ++node) {
      graphs += std::to_string((node + 199) / 200) + "\n";
      if (node % 200 != 0) edges += std::to_string(node) + ", " + std::to_string(node + 1) + "\n";
    }
    folder_.write("PATHS_A.txt", edges);
    folder_.write("PATHS_graph_indicator.txt", graphs);
    folder_.write("PATHS_" + file + ".txt", lines);
    folder_.write("paths.yaml",
                  "schema: 1\nmodel: {use: graph_gps, dim: 8, depth: 1, heads: 2, mpnn: gine}\n"
                  "attention: {use: quest}\ntask: {use: " +
                      task +
                      "}\n"
                      "dataset: {use: tudataset, name: PATHS, root: ., folds: 3}\n"
                      "train: {epochs: 20, batch_size: 4, optimizer: {lr: 0.05}}\n");
    must({"run", "paths.yaml"});
    must({"show", run_folder("paths/quest"), "--node", "180"});
    return kept(run_folder("paths/quest"));
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
  EXPECT_THAT(page, HasSubstr("attention of one node"));
  EXPECT_THAT(page, HasSubstr("blocks, test graph 0: "));
  EXPECT_THAT(page, HasSubstr("node 0: says "));
  must({"show", run, "--examples", "1", "--node", "2"});
  const json chosen = kept(run).at(0);
  EXPECT_EQ(chosen.at("numbers").at(chosen.at("chosen").get<std::size_t>()), 2);
}

TEST_F(Show, NumbersTheNodesOfALargeGraphAsTheGraphDoes) {
  const json graphs =
      shown_paths("graph_labels", "7\n9\n7\n9\n7\n9\n7\n9\n7\n9\n7\n9\n", "graph_classification");
  ASSERT_EQ(graphs.size(), 4U);
  for (const json& graph : graphs) {
    EXPECT_EQ(graph.at("nodes"), 200);
    ASSERT_EQ(graph.at("shown"), 150);
    // Those nearest to node 180: up to the end of the path, and further on the other side.
    EXPECT_EQ(graph.at("numbers").front(), 50);
    EXPECT_EQ(graph.at("numbers").back(), 199);
    EXPECT_EQ(graph.at("numbers").at(graph.at("chosen").get<std::size_t>()), 180);
    EXPECT_THAT(graph.at("answer").get<std::string>(),
                MatchesRegex("says [79] \\([0-9]+ %\\), is [79]"));
  }
  must({"report", "runs/paths", "--baseline", "quest", "-o", "page.html"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, HasSubstr("<title>node 180 (chosen); attention "));
  EXPECT_THAT(page, HasSubstr("<title>node 199; attention "));
  EXPECT_THAT(page, Not(HasSubstr("<title>node 49; ")));
  EXPECT_THAT(page, HasSubstr("%), is "));
}

TEST_F(Show, SaysHowSureItIsOfEachLabel) {
  // Yes to the first question of every graph, no to the second; the third tells graphs apart.
  std::string lines;
  for (int graph = 0; graph < 12; ++graph) lines += graph % 2 == 0 ? "1, 0, 1\n" : "1, 0, 0\n";
  for (const json& graph : shown_paths("graph_attributes", lines, "graph_multilabel")) {
    const std::string answer = graph.at("answer");
    int first = 0, second = 0, third = 0;
    char truth[8] = "";
    ASSERT_EQ(std::sscanf(answer.c_str(),
                          "says target 0 %d %% (is yes), target 1 %d %% (is no), target 2 %d %% "
                          "(is %3[a-z])",
                          &first, &second, &third, truth),
              4)
        << answer;
    EXPECT_TRUE(first > 60 && first <= 100) << answer;
    EXPECT_TRUE(second < 40 && second >= 0) << answer;
    EXPECT_TRUE(third >= 0 && third <= 100) << answer;
  }
}

TEST_F(Show, SaysNumbersInTheirOwnUnits) {
  if (attnlab({"describe", "molecules"}).exit_code != 0) {
    GTEST_SKIP() << "the dataset `molecules` was left out of this build";
  }
  std::string table = "smiles,heat\n";
  for (int i = 1; i <= 20; ++i) {
    table += std::string(std::size_t(i), 'C') + "," + std::to_string(1000 + i) + "\n";
  }
  folder_.write("alkanes.csv", table);
  folder_.write(
      "alkanes.yaml",
      "schema: 1\nmodel: {use: graph_gps, dim: 8, depth: 1, heads: 2}\n"
      "attention: {use: quest}\ntask: {use: graph_regression}\n"
      "dataset: {use: molecules, name: table, root: ., file: alkanes.csv, targets: [heat], "
      "scale_targets: true}\ntrain: {epochs: 1, batch_size: 4}\n");
  must({"run", "alkanes.yaml"});
  must({"show", run_folder("alkanes/quest")});
  for (const json& graph : kept(run_folder("alkanes/quest"))) {
    double said = 0, truth = 0;
    const std::string answer = graph.at("answer");
    ASSERT_EQ(std::sscanf(answer.c_str(), "says heat %lf (is %lf)", &said, &truth), 2) << answer;
    EXPECT_TRUE(said > 900 && said < 1100) << answer;
    EXPECT_EQ(truth, 1000 + graph.at("nodes").get<double>()) << answer;
  }
}

TEST_F(Show, TakesModelsWithoutAttention) {
  const std::string run = trained(", global: false");
  must({"show", run});
  for (const json& graph : kept(run)) EXPECT_TRUE(graph.at("attention").empty());
}

TEST_F(Show, SaysWhatIsWrong) {
  const std::string run = trained();
  EXPECT_THAT(refusal({"show", run, "--node", "9999"}), mentions("test graph 0", "nodes 0 to "));
  EXPECT_THAT(refusal({"show", run, "--examples", "0"}), HasSubstr("0 is not 1 to 100"));
  EXPECT_THAT(refusal({"show", run, "--with", "any.yaml"}),
              mentions("--with", "evaluations of images", "dataset '"));
  EXPECT_FALSE(std::filesystem::exists(run + "/graphs.json"));
  must({"run", "tiny.yaml", "name=toy", "model={use: toy_transformer}",
        "task={use: sequence_classification}",
        "dataset={use: spurious_retrieval, train: 32, test: 8}"});
  EXPECT_THAT(refusal({"show", run_folder("toy/standard")}),
              mentions("no graphs", "no clouds", "no boxes", "no label maps", "no images"));
}

}  // namespace
}  // namespace attnlab::testing::show_test
