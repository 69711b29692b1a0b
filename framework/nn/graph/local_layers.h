// Layers that pass messages along edges, as GraphGPS uses them beside global attention.
//
//   Gine       y_i = MLP(x_i + sum_{j -> i} relu(x_j + e_ji)),   MLP: linear, relu, linear
//   GatedGcn   g_ji  = D x_i + E x_j + C e_ji
//              m_i   = sum_j sigmoid(g_ji) B x_j / (sum_j sigmoid(g_ji) + 1e-6)
//              x'_i  = x_i + drop(relu(BN(A x_i + m_i)))
//              e'_ji = e_ji + drop(relu(BN(g_ji)))
//   Gcn        y_i = sum_{j -> i} W x_j / sqrt(d_j d_i) + b,   d_i: number of edges that lead to i
//   Gat        z   = W x in heads;   y_i = sum_{j -> i} drop(a_ji) z_j + b, head by head
//              a_ji = softmax over j of leaky(s z_j + t z_i),   leaky(x) = x > 0 ? x : 0.2 x
//   Sage       y_i = W x_i + b + U mean_{j -> i} x_j;   without edges the mean is 0
//
// Gcn and Gat want every node to have an edge to itself (`with_own_loops`): so a node that no other
// leads to sees itself alone. They and Sage know nothing of features of edges. Two edges between
// one pair count as two.
// Linear maps start as PyTorch's do, those of the last three by Glorot's rule; so do s and t, as
// maps of C / heads channels to 1. Sources: Hu et al., ICLR 2020 (GINE, epsilon fixed at 0);
// Bresson and Laurent 2017 with the batch norms and residuals of GraphGPS's public code; Kipf and
// Welling, ICLR 2017; Velickovic et al., ICLR 2018 (heads side by side in every layer, the mean of
// heads that ends the published network is not here); Hamilton et al., NeurIPS 2017 (the mean; rows
// keep their length, as in PyG, where the paper's algorithm divides by it).
// Cost: O((N + E) C^2) for N nodes and E edges of C channels; of the last three O(N C^2 + E C).
#pragma once

#include "framework/nn/graph/message_passing.h"
#include "framework/nn/modules/batch_norm.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

/// Nodes [N, C] and edges [E, C].
struct GraphTokens {
  Tensor nodes, edges;
};

/// A layer of message passing. All maps keep the number of channels.
class LocalLayer : public torch::nn::Module {
 public:
  virtual GraphTokens forward(const GraphTokens& tokens, const Edges& edges) = 0;
};

/// Without residual; edges stay as they are.
class Gine final : public LocalLayer {
 public:
  explicit Gine(std::int64_t dim);
  GraphTokens forward(const GraphTokens& tokens, const Edges& edges) override;

 private:
  std::shared_ptr<Linear> in_, out_;
};

/// With its own residual, dropout and batch norms.
class GatedGcn final : public LocalLayer {
 public:
  /// @param edges_go_on  false in the last layer, whose edges nobody reads: their norm is left out,
  ///                     and they come back undefined
  GatedGcn(std::int64_t dim, double dropout, bool edges_go_on);
  GraphTokens forward(const GraphTokens& tokens, const Edges& edges) override;

 private:
  Tensor finished(BatchNorm& norm, const Tensor& sums, const Tensor& residual) const;

  double dropout_;
  std::shared_ptr<Linear> of_nodes_;                  ///< A, D, B, E one after the other
  std::shared_ptr<Linear> of_edges_;                  ///< C
  std::shared_ptr<BatchNorm> node_norm_, edge_norm_;  ///< the second null in the last layer
};

/// Without residual and activation, as the next two.
class Gcn final : public LocalLayer {
 public:
  /// @param mapped  false: without W, for nodes that a map has just been applied to, or will be
  explicit Gcn(std::int64_t dim, bool mapped = true);
  GraphTokens forward(const GraphTokens& tokens, const Edges& edges) override;

 private:
  std::shared_ptr<Linear> map_;  ///< null: none
  Tensor bias_;                  ///< [C]
};

class Gat final : public LocalLayer {
 public:
  /// @param heads    they divide dim
  /// @param dropout  of the coefficients a, in training
  /// @param mapped   as of Gcn
  Gat(std::int64_t dim, std::int64_t heads, double dropout, bool mapped = true);
  GraphTokens forward(const GraphTokens& tokens, const Edges& edges) override;

 private:
  double dropout_;
  std::shared_ptr<Linear> map_;  ///< null: none
  Tensor source_, target_;       ///< s and t, [heads, C / heads]
  Tensor bias_;                  ///< [C]
};

class Sage final : public LocalLayer {
 public:
  explicit Sage(std::int64_t dim);
  GraphTokens forward(const GraphTokens& tokens, const Edges& edges) override;

 private:
  std::shared_ptr<Linear> own_, neighbours_;
};

}  // namespace attnlab
