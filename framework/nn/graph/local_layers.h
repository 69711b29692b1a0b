// Layers that pass messages along edges, as GraphGPS uses them beside global attention.
//
//   Gine       y_i = MLP(x_i + sum_{j -> i} relu(x_j + e_ji)),   MLP: linear, relu, linear
//   GatedGcn   g_ji  = D x_i + E x_j + C e_ji
//              m_i   = sum_j sigmoid(g_ji) B x_j / (sum_j sigmoid(g_ji) + 1e-6)
//              x'_i  = x_i + drop(relu(BN(A x_i + m_i)))
//              e'_ji = e_ji + drop(relu(BN(g_ji)))
//
// Linear maps start as PyTorch's do. Sources: Hu et al., ICLR 2020 (GINE, epsilon fixed at 0);
// Bresson and Laurent 2017 with the batch norms and residuals of GraphGPS's public code.
// Cost: O((N + E) C^2) for N nodes and E edges of C channels.
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

}  // namespace attnlab
