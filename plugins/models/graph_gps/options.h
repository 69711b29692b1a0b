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
      "gps: residuals, batch norms and an MLP in each layer; plain: the sum of messages and "
      "attention, ReLU between layers, as in published GCN, GAT and GraphSAGE; transformer: "
      "attention and an MLP with GELU, pre-norm and a final layer norm, as in Graphormer; needs "
      "mpnn: none");
    v("mpnn", mpnn, one_of("gine", "gated_gcn", "gcn", "gat", "sage", "none"),
      "message passing along edges; none: a pure transformer over each graph's nodes");
    v("mpnn_heads", mpnn_heads, at_least(1), "for gat: number of heads, a divisor of dim");
    v("mpnn_dropout", mpnn_dropout, range(0, 0.99), "for gat: dropout of the messages' weights");
    v("edge_features", edge_features,
      "use the dataset's edge features, which gcn, gat and sage cannot; false: ignore them");
    v("bias", bias, one_of("distance", "edges"),
      "what is added to the logits of two nodes (Graphormer): distance: a number for the length of "
      "a shortest path; edges: a mean over the features of its edges");
    v("max_distance", max_distance, range(1, 1000),
      "longer paths count as this length; for edges: only the first edges count");
    v("attend", attend, one_of("all", "neighbours"),
      "which nodes a node attends to: all nodes of its graph; or itself and the sources of its "
      "incoming edges");
    v("degrees", degrees,
      "a node's features include its in- and out-degree (Graphormer's centrality)");
    v("global", global, "attention among all nodes of a graph; false: only message passing");
    v("input_dropout", input_dropout, range(0, 0.99), "dropout of the numbers in x@node");
    v("dropout", dropout, range(0, 0.99),
      "after message passing, after attention and in the MLP; for layer transformer: of the input, "
      "after attention and after the MLP");
    v("mlp_ratio", mlp_ratio, range(0.01, 64),
      "for layer transformer: hidden channels of the MLP, divided by dim");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("encoding", encoding, one_of("none", "rwse", "laplacian"),
      "positional encoding of nodes: return probabilities of random walks, or the Laplacian's "
      "eigenvectors");
    v("encoding_dim", encoding_dim, at_least(1), "channels of the positional encoding; below dim");
    v("head", head, one_of("graph", "node", "link"),
      "what is predicted for: each graph, each node, or pairs of nodes (gives features to "
      "multiply)");
    v("pool", pool, one_of("mean", "sum", "token"),
      "for head graph: pooling of the nodes; token: a learned token beside them, needs mpnn: none");
    v("head_layers", head_layers, range(1, 10000), "linear maps of the head, with ReLU between");
    v("head_halves", head_halves,
      "each hidden layer of the head has half the width of the one before");
    v("head_l2norm", head_l2norm,
      "each hidden row of the head is scaled to length 1 after its ReLU, as in GraphGym's MLP");
  }
};

}  // namespace attnlab
