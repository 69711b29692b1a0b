#include "plugins/models/graph_gps/gps_layer.h"

#include <algorithm>
#include <cmath>

#include "framework/contracts/recompute.h"
#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/glorot.h"

namespace attnlab {
namespace {

/// As PyTorch's nn.MultiheadAttention: Xavier's rule for the packed projection, no biases.
void start_as_published(MultiHeadAttention& attention) {
  const at::NoGradGuard no_gradients;
  for (const auto& child : attention.named_children()) {
    auto* const linear = child.value()->as<Linear>();
    if (linear == nullptr) continue;
    start_uniform(*linear);
    linear->bias.zero_();
    if (child.key() == "qkv") start_glorot(*linear);
  }
}

/// Graphormer's layer.
TransformerLayerOptions transformer_options(const GraphGpsOptions& o,
                                            const MultiHeadOptions& heads) {
  TransformerLayerOptions layer;
  layer.attention = heads;
  layer.mlp = {.dim = o.dim,
               .hidden = std::max<std::int64_t>(1, std::llround(o.mlp_ratio * double(o.dim))),
               .dropout = o.dropout};
  return layer;
}

constexpr double kTransformerStd = 0.02;

}  // namespace

NodeSets::NodeSets(const Tensor& offsets, bool padded, const at::Device& device, const Tensor& bias,
                   const Tensor& pairs) {
  extras_.bias = bias;
  extras_.visible.pairs = pairs;
  if (!padded) {
    extras_.visible.query_offsets = extras_.visible.key_offsets = offsets;
    return;
  }
  const Tensor lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
  graphs_ = lengths.size(0);
  longest_ = graphs_ == 0 ? 0 : lengths.max().item<std::int64_t>();
  const Tensor valid = at::arange(longest_, at::kLong) < lengths.unsqueeze(1);
  place_ = valid.flatten().nonzero().squeeze(1).to(device);
  extras_.visible.key_valid = extras_.visible.query_valid = valid.to(device);
}

Tensor NodeSets::laid_out(const Tensor& nodes) const {
  if (!place_.defined()) return nodes.unsqueeze(0);
  return at::zeros({graphs_ * longest_, nodes.size(1)}, nodes.options())
      .index_copy(0, place_, nodes)
      .view({graphs_, longest_, nodes.size(1)});
}

Tensor NodeSets::nodes_of(const Tensor& laid_out) const {
  const Tensor rows = laid_out.flatten(0, 1);
  return place_.defined() ? rows.index_select(0, place_) : rows;
}

std::shared_ptr<LocalLayer> GpsLayer::local_of(const GraphGpsOptions& o, std::int64_t index) const {
  const bool mapped = !plain_ || (index > 0 && !last_);
  if (o.mpnn == "gine") return std::make_shared<Gine>(o.dim);
  if (o.mpnn == "gated_gcn") return std::make_shared<GatedGcn>(o.dim, o.dropout, !last_);
  if (o.mpnn == "gcn") return std::make_shared<Gcn>(o.dim, mapped);
  if (o.mpnn == "gat") {
    return std::make_shared<Gat>(o.dim, o.mpnn_heads, o.mpnn_dropout, mapped);
  }
  return o.mpnn == "sage" ? std::make_shared<Sage>(o.dim) : nullptr;
}

GpsLayer::GpsLayer(const GraphGpsOptions& o, std::int64_t index, const AttentionBuilder& attention)
    : dropout_(o.dropout),
      plain_(o.layer == "plain"),
      last_(index + 1 == o.depth),
      local_has_residual_(o.mpnn == "gated_gcn") {
  MultiHeadOptions heads;
  heads.dim = o.dim;
  heads.heads = o.heads;
  heads.attention_dropout = o.attention_dropout;
  heads.dropout = o.dropout;
  heads.layer = index;
  heads.layers = o.depth;
  if (o.of_transformers()) {
    transformer_ = register_module("transformer", std::make_shared<TransformerLayer>(
                                                      transformer_options(o, heads), attention));
    const double deviation = kTransformerStd / std::sqrt(double(o.depth));
    transformer_->start(deviation, 0, deviation);
    return;
  }
  const auto norm = [&](const char* name) {
    return plain_ ? nullptr : register_module(name, std::make_shared<BatchNorm>(o.dim));
  };
  local_ = local_of(o, index);
  if (local_ != nullptr) {
    register_module("local", local_);
    local_norm_ = norm("local_norm");
  }
  if (o.global) {
    attention_ =
        register_module("attention", std::make_shared<MultiHeadAttention>(heads, attention));
    start_as_published(*attention_);
    global_norm_ = norm("global_norm");
  }
  if (plain_) return;
  in_ = register_module("in", std::make_shared<Linear>(o.dim, 2 * o.dim));
  out_ = register_module("out", std::make_shared<Linear>(2 * o.dim, o.dim));
  start_uniform(*this);
  norm_ = norm("norm");
}

const Attention* GpsLayer::attention() const {
  if (transformer_ != nullptr) return &transformer_->attention();
  return attention_ == nullptr ? nullptr : &attention_->attention();
}

Tensor GpsLayer::drop(const Tensor& x) const {
  return is_training() && dropout_ > 0 ? dropout(x, dropout_) : x;
}

GraphTokens GpsLayer::forward(const GraphTokens& tokens, const std::shared_ptr<const Edges>& edges,
                              const NodeSets& sets, AttentionContext& context) {
  NodeSets rest = sets;
  std::vector<Tensor> inputs = {tokens.nodes, tokens.edges};
  rest.extras().take(inputs);
  const auto once = [this, edges, rest](const std::vector<Tensor>& in, AttentionContext& own) {
    NodeSets all = rest;
    all.extras() = rest.extras().with(in, 2);
    const GraphTokens passed = pass({in[0], in[1]}, edges.get(), all, own);
    return std::vector<Tensor>{passed.nodes, passed.edges};
  };
  const std::vector<Tensor> out = recomputed(*this, inputs, context, once);
  return {out[0], out[1]};
}

GraphTokens GpsLayer::pass(const GraphTokens& tokens, const Edges* edges, const NodeSets& sets,
                           AttentionContext& context) {
  const Tensor& h = tokens.nodes;
  GraphTokens result = tokens;
  if (transformer_ != nullptr) {
    const Residual all = transformer_->forward({sets.laid_out(h)}, context, sets.extras());
    result.nodes = sets.nodes_of(all.sum());
    return result;
  }
  Tensor z;
  if (local_ != nullptr) {
    result = local_->forward(tokens, *edges);
    z = plain_ ? result.nodes
               : local_norm_->forward(local_has_residual_ ? result.nodes : h + drop(result.nodes));
  }
  if (attention_ != nullptr) {
    const Tensor seen =
        sets.nodes_of(attention_->forward(sets.laid_out(h), context, sets.extras()));
    if (plain_) {
      z = z.defined() ? z + seen : seen;
    } else {
      z = global_norm_->forward(h + seen, {.residual = z});
    }
  }
  if (plain_) {
    result.nodes = last_ ? z : drop(z.relu());
    return result;
  }
  const Tensor hidden = drop(in_->forward(z).relu_());
  result.nodes = norm_->forward(z + drop(out_->forward(hidden)));
  return result;
}

}  // namespace attnlab
