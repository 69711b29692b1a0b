// What a composition may say of graph_gps.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "framework/plugin.h"

namespace attnlab {

struct GraphGpsOptions {
  std::int64_t dim = 64, depth = 5, heads = 4;
  std::string layer = "gps", mpnn = "gated_gcn";
  std::int64_t mpnn_heads = 8;
  double mpnn_dropout = 0;
  bool edge_features = true, global = true;
  std::vector<std::string> bias;
  std::int64_t max_distance = 20;
  std::string attend = "all";
  bool degrees = false;
  double input_dropout = 0, dropout = 0, attention_dropout = 0.5;
  std::string encoding = "none";
  std::int64_t encoding_dim = 16;
  std::string head = "graph", pool = "mean";
  std::int64_t head_layers = 1;
  bool head_halves = false, head_l2norm = false;
  double mlp_ratio = 1;

  bool biases(const char* what) const {
    return std::find(bias.begin(), bias.end(), what) != bias.end();
  }
  bool sees_neighbours() const { return attend == "neighbours"; }
  /// Whether attention is told of each pair of nodes.
  bool tells_pairs() const { return !bias.empty() || sees_neighbours(); }
  bool of_transformers() const { return layer == "transformer"; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dim", dim, range(1, 1 << 24), "channels of a node and of an edge");
    v("depth", depth, range(1, 10000), "number of layers");
    v("heads", heads, at_least(1), "attention heads, a divisor of dim");
    v("layer", layer, one_of("gps", "plain", "transformer"),
      "gps: residuals, batch norms and an MLP in each; plain: messages and attention are added up, "
      "ReLU between layers, as published GCN, GAT and GraphSAGE have it; transformer: attention "
      "and an MLP with GELU, layer norms first and once more at the end, as Graphormer has it, "
      "with mpnn: none");
    v("mpnn", mpnn, one_of("gine", "gated_gcn", "gcn", "gat", "sage", "none"),
      "message passing along edges; none: a pure transformer over each graph's nodes");
    v("mpnn_heads", mpnn_heads, at_least(1), "of gat: heads, a divisor of dim");
    v("mpnn_dropout", mpnn_dropout, range(0, 0.99), "of gat: of the weights of messages");
    v("edge_features", edge_features,
      "what the dataset says of edges is used, which gcn, gat and sage cannot; false: it is left "
      "out");
    v("bias", bias, one_of("distance", "edges"),
      "what is added to the logits of two nodes: a number for the length of a shortest path, and "
      "the mean of what its edges are like (Graphormer's)");
    v("max_distance", max_distance, range(1, 1000),
      "longer paths count as this one; of edges: the first ones alone");
    v("attend", attend, one_of("all", "neighbours"),
      "whom a node sees in attention: all nodes of its graph; itself and those that an edge leads "
      "from to it");
    v("degrees", degrees,
      "numbers of edges to and from a node are part of its features (Graphormer's centrality)");
    v("global", global, "attention among all nodes of a graph; false: message passing alone");
    v("input_dropout", input_dropout, range(0, 0.99), "of the numbers in x@node, in training");
    v("dropout", dropout, range(0, 0.99),
      "after message passing, attention, and in the MLP; of a transformer: of the input, after "
      "attention and MLP");
    v("mlp_ratio", mlp_ratio, range(0.01, 64),
      "of a transformer: hidden channels of the MLP over dim");
    v("attention_dropout", attention_dropout, range(0, 0.99), "of attention weights");
    v("encoding", encoding, one_of("none", "rwse", "laplacian"),
      "where a node stands in its graph: random walks' returns, or the Laplacian's eigenvectors");
    v("encoding_dim", encoding_dim, at_least(1), "channels of a node that encode that; below dim");
    v("head", head, one_of("graph", "node", "link"),
      "what is answered for: each graph, each node, or pairs of nodes (features to multiply)");
    v("pool", pool, one_of("mean", "sum", "token"),
      "head graph: over the graph's nodes; token: a learned one beside them, with mpnn: none");
    v("head_layers", head_layers, range(1, 10000), "linear maps of the head, with ReLU between");
    v("head_halves", head_halves, "each hidden width of the head is half the one before");
    v("head_l2norm", head_l2norm,
      "each hidden row of the head has length 1, behind its ReLU, as in GraphGym's MLP");
  }
};

}  // namespace attnlab
