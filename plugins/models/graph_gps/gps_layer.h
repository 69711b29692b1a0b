// One layer of GraphGPS, and how the graphs of a batch lie for its attention.
//
//   local_i  = BN(h_i + drop(MPNN(h)_i))         GatedGCN has a residual of its own: BN(MPNN(h)_i)
//   global_i = BN(h_i + drop(Attention(h)_i))    among the nodes of one graph
//   z        = local + global
//   h'       = BN(z + drop(W_2 drop(relu(W_1 z))))
//
// With `layer: plain` nothing is normed and added but messages and attention:
//
//   h'       = drop(relu(MPNN(h) + drop(Attention(h))))     last layer: MPNN(h) +
//   drop(Attention(h))
//
// With `layer: transformer` it is that of transformer_layer.h, norms first.
//
// In a plain layer GCN and GAT have no linear map of their own in the first and the last layer: the
// encoder's and the head's are theirs, as P (X W) = (P X) W. So with two layers, no attention and a
// head of one map it is the published network, A relu(A X W_0) W_1 of GCN, with as many numbers.
#pragma once

#include "framework/nn/graph/local_layers.h"
#include "framework/nn/modules/transformer_layer.h"
#include "plugins/models/graph_gps/options.h"

namespace attnlab {

/// The nodes of a batch as sequences: end to end, or each graph padded to the largest.
class NodeSets {
 public:
  /// @param offsets  [B + 1] int64 on the CPU, where each graph's nodes begin
  /// @param padded   else end to end
  /// @param bias     [B, H, L, L] of padded graphs; undefined: none
  /// @param pairs    [B, 1, L, L] bool, who sees whom; undefined: all
  NodeSets(const Tensor& offsets, bool padded, const at::Device& device, const Tensor& bias = {},
           const Tensor& pairs = {});

  const AttentionExtras& extras() const { return extras_; }
  AttentionExtras& extras() { return extras_; }
  /// [N, C] to [1, N, C] or [B, L, C], and back.
  Tensor laid_out(const Tensor& nodes) const;
  Tensor nodes_of(const Tensor& laid_out) const;

 private:
  AttentionExtras extras_;
  std::int64_t graphs_ = 1, longest_ = 0;
  Tensor place_;  ///< [N] int64, each node's row of [B * L]; undefined: end to end
};

class GpsLayer : public torch::nn::Module {
 public:
  GpsLayer(const GraphGpsOptions& options, std::int64_t index, const AttentionBuilder& attention);

  /// Its inputs alone are kept where layers are computed again (recompute.h).
  /// @param edges  null without message passing; then tokens have no edges
  GraphTokens forward(const GraphTokens& tokens, const std::shared_ptr<const Edges>& edges,
                      const NodeSets& sets, AttentionContext& context);
  /// Null without attention.
  const Attention* attention() const;

 private:
  GraphTokens pass(const GraphTokens& tokens, const Edges* edges, const NodeSets& sets,
                   AttentionContext& context);
  Tensor drop(const Tensor& x) const;

  std::shared_ptr<LocalLayer> local_of(const GraphGpsOptions& o, std::int64_t index) const;
  double dropout_;
  bool plain_, last_, local_has_residual_;
  std::shared_ptr<LocalLayer> local_;                           ///< null: none
  std::shared_ptr<MultiHeadAttention> attention_;               ///< null: none
  std::shared_ptr<BatchNorm> local_norm_, global_norm_, norm_;  ///< null in a plain layer
  std::shared_ptr<Linear> in_, out_;                            ///< null in a plain layer
  std::shared_ptr<TransformerLayer> transformer_;               ///< then all others are null
};

}  // namespace attnlab
