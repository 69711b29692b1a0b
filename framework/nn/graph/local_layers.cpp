// Layers of message passing: see the header.
#include "framework/nn/graph/local_layers.h"

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/glorot.h"

namespace attnlab {
namespace {

/// Of each node, the number of edges that lead to it: [N, 1].
Tensor degrees_of(const Segments& by_target, const Tensor& like) {
  const Tensor& offsets = by_target.offsets;
  return (offsets.slice(0, 1) - offsets.slice(0, 0, -1)).to(like.scalar_type()).unsqueeze(1);
}

std::shared_ptr<Linear> glorot_map(std::int64_t dim, bool bias) {
  auto map = std::make_shared<Linear>(dim, dim, bias);
  start_glorot(*map);
  return map;
}

}  // namespace

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

Gcn::Gcn(std::int64_t dim, bool mapped) {
  if (mapped) map_ = register_module("map", glorot_map(dim, /*bias=*/false));
  bias_ = register_parameter("bias", at::zeros({dim}));
}

GraphTokens Gcn::forward(const GraphTokens& tokens, const Edges& edges) {
  const Tensor factor = degrees_of(edges.by_target, tokens.nodes).clamp_min(1).rsqrt();
  const Tensor sent = (map_ == nullptr ? tokens.nodes : map_->forward(tokens.nodes)) * factor;
  return {routed_sum(sent, edges.by_source, edges.by_target) * factor + bias_, tokens.edges};
}

Gat::Gat(std::int64_t dim, std::int64_t heads, double dropout, bool mapped) : dropout_(dropout) {
  if (mapped) map_ = register_module("map", glorot_map(dim, /*bias=*/false));
  source_ = register_parameter("source", at::empty({heads, dim / heads}));
  target_ = register_parameter("target", at::empty({heads, dim / heads}));
  for (Tensor* const vectors : {&source_, &target_}) fill_glorot(*vectors, dim / heads, 1);
  bias_ = register_parameter("bias", at::zeros({dim}));
}

GraphTokens Gat::forward(const GraphTokens& tokens, const Edges& edges) {
  constexpr double kSlope = 0.2;
  const std::int64_t nodes = tokens.nodes.size(0), heads = source_.size(0);
  const Tensor z = (map_ == nullptr ? tokens.nodes : map_->forward(tokens.nodes))
                       .view({nodes, heads, source_.size(1)});
  const Tensor logits = gather_rows((z * source_).sum(-1), edges.by_source) +
                        gather_rows((z * target_).sum(-1), edges.by_target);
  Tensor weights = segment_softmax(at::leaky_relu(logits, kSlope), edges.by_target);
  if (is_training() && dropout_ > 0) weights = dropout(weights, dropout_);
  const Tensor messages = gather_rows(z, edges.by_source) * weights.unsqueeze(-1);
  return {segment_sum(messages, edges.by_target).flatten(1) + bias_, tokens.edges};
}

Sage::Sage(std::int64_t dim)
    : own_(register_module("own", glorot_map(dim, /*bias=*/true))),
      neighbours_(register_module("neighbours", glorot_map(dim, /*bias=*/false))) {}

GraphTokens Sage::forward(const GraphTokens& tokens, const Edges& edges) {
  const Tensor mean = routed_sum(tokens.nodes, edges.by_source, edges.by_target) /
                      degrees_of(edges.by_target, tokens.nodes).clamp_min(1);
  return {own_->forward(tokens.nodes) + neighbours_->forward(mean), tokens.edges};
}

}  // namespace attnlab
