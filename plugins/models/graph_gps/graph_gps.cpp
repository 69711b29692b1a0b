// GraphGPS: message passing along edges beside attention among all nodes of a graph.
//
//   h_i, e_m   encodings of nodes and edges (encoders.h), a node's with its place in the graph
//   h, e       = GpsLayer(h, e)                                   depth times (gps_layer.h)
//   graph:     logits      = MLP(mean or sum over the graph's nodes of h_i)
//   node:      logits@node = MLP(h_i)
//   link:      features@node = MLP(h_i), for tasks that multiply those of two nodes
//   MLP:       y' = relu(W y + b), with `head_l2norm` y' / |y'|; behind the last W neither
//
// GraphGym's MLP, which GraphGPS's heads `default`, `inductive_node` and `inductive_edge` are, has
// that norm whatever its configuration says; `san_graph` (ZINC; here `head_halves`) has not.
// Attention sees the graphs of a batch end to end where it honours that (`ragged`), else padded to
// the largest; a trace is always recorded of the padded form. Nodes have no coordinates: to an
// attention that reads places they stand at 0, 1, 2, ... in the order of the data, which means
// nothing in a graph. Batch norms run over all nodes (or edges) of a batch, never over padding; in
// evaluation a graph gives the same in every batch. As outputs there are as many numbers as
// `labels` has, else as there are classes.
// What attention may be told of pairs of nodes (`bias`, `attend`) is in pairs.h; graphs are padded
// then. With `layer: transformer`, `pool: token`, `degrees` and both biases it is Graphormer:
//
//   h_i = encoding + z-_{edges to i} + z+_{edges from i},   a token t behind each graph's nodes
//   h   = h + Attention(LN(h); b + c),   h = h + Mlp(LN(h))      depth times
//   logits = MLP(LN(h)[token])
//
// There the token's rows of b are one number a head, and dropout is of the input, too.
//
// The last layer's edge norm, which nothing reads, is left out (2 dim parameters fewer than
// published). Source: Rampášek et al., NeurIPS 2022, and their public code; QUEST, tables A10 and
// A11. Cost: O(depth (N dim^2 + E dim^2 + sum over graphs of n^2 dim)) for N nodes and E edges.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/glorot.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "plugins/models/graph_gps/encoders.h"
#include "plugins/models/graph_gps/gps_layer.h"
#include "plugins/models/graph_gps/pairs.h"

namespace attnlab {
namespace {

/// Linear maps with ReLU between them, and as asked rows of length 1 behind each ReLU.
/// Source of those: PyG's graphgym/models/layer.py, where MLP makes its hidden layers by a fresh
/// LayerConfig: no batch norm, no dropout, ReLU, then F.normalize(p=2, dim=1).
class HeadMlp : public torch::nn::Module {
 public:
  HeadMlp(const GraphGpsOptions& o, std::int64_t out) : l2norm_(o.head_l2norm) {
    std::int64_t width = o.dim;
    for (std::int64_t i = 0; i < o.head_layers; ++i) {
      const bool last = i + 1 == o.head_layers;
      const std::int64_t next = last ? out : o.head_halves ? width / 2 : width;
      if (next < 1) {
        throw OptionError(
            "head_layers",
            fmt::format("the head's width cannot be halved so often; it is {} at first", o.dim));
      }
      maps_.push_back(
          register_module(fmt::format("map{}", i), std::make_shared<Linear>(width, next)));
      width = next;
    }
    start_uniform(*this);
  }

  /// [R, dim] to [R, out], R graphs or nodes.
  Tensor forward(const Tensor& x) const {
    Tensor y = x;
    for (const auto& map : maps_) y = map->forward(map == maps_.front() ? y : hidden(y));
    return y;
  }

 private:
  Tensor hidden(const Tensor& y) const {
    const Tensor rectified = y.relu();
    if (!l2norm_) return rectified;
    return rectified / rectified.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12);
  }

  bool l2norm_;
  std::vector<std::shared_ptr<Linear>> maps_;
};

class GraphGps final : public Model {
 public:
  GraphGps(const GraphGpsOptions& options, const ModelSetup& setup)
      : options_(checked(options)), wide_(output_width(setup.data)) {
    check_edge_features(setup.data);
    place_encoder_ = make_place_encoder(options_, setup.data);
    const std::int64_t place_dim = place_encoder_ == nullptr ? 0 : options_.encoding_dim;
    if (place_dim > 0) register_module("place", place_encoder_);
    nodes_ = register_module("nodes", std::make_shared<FeatureEncoder>(
                                          setup.data, node_categories(), "x@node",
                                          options_.dim - place_dim, options_.input_dropout));
    if (nodes_->empty()) {
      throw DataError(fmt::format(
          "graph_gps: dataset '{}' has none of atom@node, type@node and x@node", setup.data.name));
    }
    if (options_.degrees) {
      degrees_ = register_module("degrees", std::make_shared<DegreeEncoder>(options_.dim));
    }
    if (with_token()) {
      token_ = register_parameter("token", at::empty({1, options_.dim}).normal_(0, kStd));
    }
    if (!options_.bias.empty()) {
      pair_bias_ = register_module("pairs", std::make_shared<PairBias>(options_, setup.data));
    }
    if (reads_edges()) {
      edges_ = register_module("edges", edge_encoder(options_, setup.data, options_.dim));
      if (edges_->empty()) {
        edge_ = register_parameter("edge", at::empty({1, options_.dim}).normal_());
      }
    }
    for (std::int64_t i = 0; i < options_.depth; ++i) {
      layers_.push_back(
          register_module(layer_name(i), std::make_shared<GpsLayer>(options_, i, setup.attention)));
    }
    check_attention();
    if (options_.of_transformers()) {
      norm_ = register_module("norm", std::make_shared<LayerNorm>(options_.dim, 1e-5));
    }
    head_ = register_module("head", std::make_shared<HeadMlp>(options_, wide_));
    if (options_.layer == "plain") start_plain();
    if (options_.of_transformers()) start_small();
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const at::ScalarType dtype = head_->parameters().front().scalar_type();
    GraphTokens tokens = {nodes_->forward(batch, dtype), {}};
    if (place_encoder_ != nullptr) {
      tokens.nodes = at::cat({tokens.nodes, place_encoder_->forward(batch, dtype)}, 1);
    }
    const std::int64_t nodes = tokens.nodes.size(0);
    if (degrees_ != nullptr) {
      tokens.nodes = tokens.nodes + degrees_->forward(batch.fields.at(kEnds), nodes);
    }
    std::shared_ptr<const Edges> edges;
    if (options_.mpnn != "none") {
      const Tensor& ends = batch.fields.at(kEnds);
      edges = std::make_shared<Edges>(wants_loops() ? with_own_loops(ends, nodes) : ends, nodes);
    }
    if (reads_edges()) {
      tokens.edges =
          edges_->empty() ? edge_.expand({edges->count(), -1}) : edges_->forward(batch, dtype);
    }
    const Tensor offsets = with_tokens(batch.offsets.at("node"), tokens);
    if (options_.of_transformers() && is_training() && options_.dropout > 0) {
      tokens.nodes = dropout(tokens.nodes, options_.dropout);
    }
    const NodeSets sets = sets_of(batch, offsets, dtype, pass);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      tokens = layer->forward(tokens, edges, sets, context);
      ++context.layer;
    }
    if (norm_ != nullptr) tokens.nodes = norm_->forward(tokens.nodes);
    if (with_token()) {
      const Tensor last = (offsets.slice(0, 1) - 1).to(tokens.nodes.device());
      return {{output_name(), head_->forward(tokens.nodes.index_select(0, last))}};
    }
    if (options_.head != "graph") return {{output_name(), head_->forward(tokens.nodes)}};
    const Segments graphs = segments_of(offsets, tokens.nodes.device());
    return {{output_name(),
             head_->forward(options_.pool == "sum" ? segment_sum(tokens.nodes, graphs)
                                                   : segment_mean(tokens.nodes, graphs))}};
  }

  std::vector<FieldInfo> outputs() const override {
    std::vector<std::int64_t> shape = {wide_};
    if (options_.head != "graph") shape.insert(shape.begin(), -1);
    return {{.name = output_name(),
             .shape = shape,
             .dtype = head_->parameters().front().scalar_type()}};
  }

  std::int64_t depth(const std::string& name) const override {
    for (std::int64_t i = 0; i < options_.depth; ++i) {
      if (name.starts_with(fmt::format("{}.", layer_name(i)))) return i + 1;
    }
    return name.starts_with("head.") || name.starts_with("norm.") ? -1 : 0;
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return name != "token" && name != "pairs.distances" && Model::decays(name, parameter);
  }

 private:
  static constexpr double kStd = 0.02;
  static constexpr const char* kEnds = "edges@edge>node";

  bool with_token() const { return options_.pool == "token"; }

  /// @param tokens  whose nodes get each graph's token behind them, where there is one
  /// @returns where each graph's tokens begin.
  Tensor with_tokens(const Tensor& offsets, GraphTokens& tokens) const {
    if (!with_token()) return offsets;
    const Tensor& h = tokens.nodes;
    const std::int64_t graphs = offsets.size(0) - 1;
    const Tensor graph = at::arange(graphs, at::kLong).repeat_interleave(offsets.diff());
    const Tensor rows = at::arange(h.size(0), at::kLong) + graph;
    const Tensor begins = offsets + at::arange(graphs + 1, at::kLong);
    tokens.nodes =
        at::zeros({h.size(0) + graphs, h.size(1)}, h.options())
            .index_copy(0, rows.to(h.device()), h)
            .index_copy(0, (begins.slice(0, 1) - 1).to(h.device()), token_.expand({graphs, -1}));
    return begins;
  }

  /// @param offsets  with each graph's token
  NodeSets sets_of(const Batch& batch, const Tensor& offsets, at::ScalarType dtype,
                   const ForwardPass& pass) const {
    const at::Device device = head_->parameters().front().device();
    if (!options_.tells_pairs()) {
      return {offsets, padded_ || pass.trace != nullptr, device};
    }
    const Tensor ends = batch.fields.at(kEnds).to(at::kCPU);
    const Tensor& of_nodes = batch.offsets.at("node");
    Tensor bias, sees;
    if (pair_bias_ != nullptr) {
      const NodePairs pairs(ends, of_nodes, with_token(), options_.max_distance);
      bias = pair_bias_->forward(batch, pairs, dtype);
    }
    if (options_.sees_neighbours()) {
      sees = neighbours_see(ends, of_nodes, with_token()).to(device);
    }
    return {offsets, /*padded=*/true, device, bias, sees};
  }

  static std::string layer_name(std::int64_t i) { return fmt::format("layer{}", i); }
  static std::vector<std::string> node_categories() { return {"atom@node", "type@node"}; }

  static const GraphGpsOptions& checked(const GraphGpsOptions& o) {
    if (o.global) check_heads(o.dim, o.heads);
    if (!o.global && o.mpnn == "none") {
      throw OptionError("global",
                        "without message passing and without attention nodes know "
                        "nothing of each other; leave one of them in");
    }
    if (!o.global && o.tells_pairs()) {
      throw OptionError(o.bias.empty() ? "attend" : "bias",
                        "is of attention, and global is false; leave one of them out");
    }
    const bool messages = o.mpnn != "none";
    if (o.of_transformers() && messages) {
      throw OptionError("layer", "transformer: passes no messages; set mpnn: none, or layer: gps");
    }
    if (o.pool == "token" && (messages || o.head != "graph")) {
      throw OptionError("pool",
                        "token: answers for a graph, and no edge leads to it; set head: graph and "
                        "mpnn: none, or pool: mean");
    }
    if (o.mpnn == "gat") check_heads(o.dim, o.mpnn_heads, "mpnn_heads");
    return o;
  }

  /// Whether messages know what edges are like.
  bool reads_edges() const { return options_.mpnn == "gine" || options_.mpnn == "gated_gcn"; }
  bool wants_loops() const { return options_.mpnn == "gcn" || options_.mpnn == "gat"; }

  /// As Graphormer: tables and maps of the input and the head normal, biases 0.
  void start_small() {
    const at::NoGradGuard no_gradients;
    const auto start = [](const torch::nn::Module& module, double deviation) {
      for (Tensor& parameter : module.parameters()) {
        if (parameter.dim() > 1) {
          parameter.normal_(0, deviation);
        } else {
          parameter.zero_();
        }
      }
    };
    start(*nodes_, kStd);
    start(*head_, kStd / std::sqrt(double(options_.depth)));
  }

  /// As the published networks, whose maps those of the encoder and the head are.
  void start_plain() {
    for (const std::vector<std::shared_ptr<torch::nn::Module>>& maps :
         {nodes_->children(), head_->children()}) {
      for (const auto& child : maps) {
        if (auto* const linear = child->as<Linear>()) start_glorot(*linear);
      }
    }
  }

  /// What a dataset says of edges is used, or left out where the composition says so.
  void check_edge_features(const DatasetInfo& data) const {
    if (options_.mpnn == "none" || reads_edges() || !options_.edge_features) return;
    const bool plain = std::none_of(data.fields.begin(), data.fields.end(), [](const auto& field) {
      return field.name == "e@edge" || field.name == "bond@edge" || field.name == "edge_type@edge";
    });
    if (plain) return;
    throw OptionError("mpnn", fmt::format("{} cannot use what dataset '{}' says of edges; take "
                                          "gated_gcn or gine, or leave it out by "
                                          "edge_features: false",
                                          options_.mpnn, data.name));
  }

  std::string output_name() const {
    if (options_.head == "graph") return "logits";
    return options_.head == "node" ? "logits@node" : "features@node";
  }

  /// How many numbers the head gives for each graph or node.
  std::int64_t output_width(const DatasetInfo& data) const {
    if (options_.head == "link") return options_.dim;
    for (const FieldInfo& field : data.fields) {
      if (options_.head == "graph" && field.name == "labels" && field.shape.size() == 1) {
        return field.shape[0];
      }
    }
    if (data.classes > 0) return data.classes;
    throw DataError(
        fmt::format("graph_gps: dataset '{}' has neither labels [T] nor classes", data.name));
  }

  /// Graphs must be kept apart; known before anything runs.
  void check_attention() {
    if (layers_.front()->attention() == nullptr) return;
    const auto traits = [](const auto& layer) { return layer->attention()->traits(); };
    for (const auto& layer : layers_) {
      const AttentionTraits has = traits(layer);
      const auto need = [&](bool asked, bool honours, const char* option, const char* trait) {
        if (!asked || honours) return;
        throw TraitError(
            fmt::format("graph_gps with {} needs an attention that honours '{}', which {} does "
                        "not; choose another attention, or leave {} out",
                        option, trait, layer->attention()->name(), option));
      };
      need(!options_.bias.empty(), has.bias, "bias", "bias");
      need(options_.sees_neighbours(), has.pair_mask, "attend: neighbours", "pair_mask");
      need(options_.tells_pairs(), has.padding, "bias or attend: neighbours", "padding");
    }
    padded_ = !std::all_of(layers_.begin(), layers_.end(),
                           [&](const auto& layer) { return traits(layer).ragged; });
    for (const auto& layer : layers_) {
      if (!padded_ || traits(layer).padding) continue;
      throw TraitError(
          fmt::format("{} honours neither 'ragged' nor 'padding', so it cannot keep "
                      "the graphs of a batch apart; choose another attention",
                      layer->attention()->name()));
    }
  }

  GraphGpsOptions options_;
  std::int64_t wide_;
  bool padded_ = false;
  std::shared_ptr<FeatureEncoder> nodes_, edges_;
  std::shared_ptr<PlaceEncoder> place_encoder_;
  std::shared_ptr<DegreeEncoder> degrees_;  ///< null: none
  std::shared_ptr<PairBias> pair_bias_;     ///< null: none
  std::shared_ptr<LayerNorm> norm_;         ///< at the end, of transformers; else null
  Tensor token_;                            ///< [1, dim], of every graph; undefined: none
  Tensor edge_;  ///< [1, dim], of every edge; undefined where edges have features
  std::vector<std::shared_ptr<GpsLayer>> layers_;
  std::shared_ptr<HeadMlp> head_;
};

}  // namespace

ATTNLAB_PLUGIN(
    model, GraphGps, GraphGpsOptions,
    {.id = "attnlab/graph_gps",
     .version = "1.0.0",
     .summary = "graph transformer: message passing plus attention among all nodes",
     .citation = "Rampasek et al., Recipe for a general, powerful, scalable graph "
                 "transformer, NeurIPS 2022, arXiv:2205.12454; biases: Ying et al., Graphormer, "
                 "NeurIPS 2021, arXiv:2106.05234",
     .licence = "Apache-2.0",
     .takes = {"atom@node?", "type@node?", "x@node?", "edges@edge>node if mpnn=gine",
               "edges@edge>node if mpnn=gated_gcn", "edges@edge>node if mpnn=gcn",
               "edges@edge>node if mpnn=gat", "edges@edge>node if mpnn=sage",
               "edges@edge>node if bias=distance", "edges@edge>node if bias=edges",
               "edges@edge>node if attend=neighbours", "edges@edge>node if degrees=true",
               "bond@edge?", "edge_type@edge?", "e@edge?", "rwse@node if encoding=rwse",
               "lap_vectors@node if encoding=laplacian", "lap_values@node if encoding=laplacian",
               "lap_valid@node if encoding=laplacian"},
     .gives = {"logits if head=graph", "logits@node if head=node", "features@node if head=link"},
     .needs = {"bias if bias=distance", "bias if bias=edges", "pair_mask if attend=neighbours"},
     .stacks = {"depth if global=true"},
     .recompute = true})

}  // namespace attnlab
