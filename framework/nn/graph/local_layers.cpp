// Layers of message passing: see the header.
#include "framework/nn/graph/local_layers.h"

#include "framework/nn/kernels/dropout.h"

namespace attnlab {

Gine::Gine(std::int64_t dim)
    : in_(register_module("in", std::make_shared<Linear>(dim, dim))),
      out_(register_module("out", std::make_shared<Linear>(dim, dim))) {
  start_uniform(*this);
}

GraphTokens Gine::forward(const GraphTokens& tokens, const Edges& edges) {
  const Tensor sums = tokens.nodes + gine_sum(tokens.nodes, tokens.edges, edges);
  return {out_->forward(in_->forward(sums).relu()), tokens.edges};
}

GatedGcn::GatedGcn(std::int64_t dim, double dropout, bool edges_go_on)
    : dropout_(dropout),
      of_nodes_(register_module("nodes", std::make_shared<Linear>(dim, 4 * dim))),
      of_edges_(register_module("edges", std::make_shared<Linear>(dim, dim))),
      node_norm_(register_module("node_norm", std::make_shared<BatchNorm>(dim))) {
  if (edges_go_on) edge_norm_ = register_module("edge_norm", std::make_shared<BatchNorm>(dim));
  start_uniform(*this);
}

GraphTokens GatedGcn::forward(const GraphTokens& tokens, const Edges& edges) {
  const GatedSums sums =
      gated_sums(of_nodes_->forward(tokens.nodes), of_edges_->forward(tokens.edges), edges);
  return {finished(*node_norm_, sums.nodes, tokens.nodes),
          edge_norm_ == nullptr ? Tensor() : finished(*edge_norm_, sums.edges, tokens.edges)};
}

Tensor GatedGcn::finished(BatchNorm& norm, const Tensor& sums, const Tensor& residual) const {
  if (!is_training() || dropout_ == 0) return norm.forward(sums, {true, residual});
  return residual + dropout(norm.forward(sums, {true, {}}), dropout_);
}

}  // namespace attnlab
