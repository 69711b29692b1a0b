// Small models of graph_gps, graphs with every kind of field, and the whole model by loops.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/naive_graphs.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

constexpr std::int64_t kWalks = 3, kVectors = 4;

/// Graphs with every kind of field.
inline DatasetInfo graphs() {
  DatasetInfo data;
  data.name = "graphs";
  data.classes = 3;
  data.fields = {{"x@node", {-1, 3}},
                 {"edges@edge>node", {-1, 2}, at::kLong},
                 {"e@edge", {-1, 2}},
                 {"rwse@node", {-1, kWalks}},
                 {"lap_vectors@node", {-1, kVectors}},
                 {"lap_values@node", {-1, kVectors}},
                 {"lap_valid@node", {-1, kVectors}, at::kBool},
                 {"class", {}, at::kLong, {}, 3}};
  return data;
}

inline NamedTensors graph_of(std::int64_t nodes, std::int64_t edges) {
  return {{"x@node", at::randn({nodes, 3}, at::kDouble)},
          {"edges@edge>node", at::randint(nodes, {edges, 2}, at::kLong)},
          {"e@edge", at::randn({edges, 2}, at::kDouble)},
          {"rwse@node", at::rand({nodes, kWalks}, at::kDouble)},
          {"lap_vectors@node", at::randn({nodes, kVectors}, at::kDouble)},
          {"lap_values@node", at::rand({nodes, kVectors}, at::kDouble)},
          {"lap_valid@node", at::rand({nodes, kVectors}).gt(0.3)},
          {"class", at::randint(3, {}, at::kLong)}};
}

/// Of 5, 1 and 8 nodes; the one of a single node has no edges.
inline std::vector<NamedTensors> examples() {
  return {graph_of(5, 9), graph_of(1, 0), graph_of(8, 20)};
}

inline Batch batch_of(const std::vector<NamedTensors>& graphs_of_batch,
                      const DatasetInfo& data = graphs()) {
  return collated(graphs_of_batch, data.fields);
}

inline const std::string kSmall =
    "dim: 8, heads: 2, depth: 2, attention_dropout: 0, encoding_dim: 2";

/// In double precision, its tensors none of them at their starts.
inline std::shared_ptr<Model> moved(std::shared_ptr<Model> model) {
  model->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  for (Tensor& buffer : model->buffers()) buffer.uniform_(0.5, 1.5);
  return model;
}

inline std::shared_ptr<Model> gps(const std::string& options,
                                  const std::string& attention = "standard",
                                  const DatasetInfo& data = graphs()) {
  return moved(make_model("graph_gps", data, options, attention));
}

/// The same with an attention of the test's own.
inline std::shared_ptr<Model> gps_with(const AttentionBuilder& attention) {
  const Part part = make_part(Kind::model, "graph_gps", "{" + kSmall + "}");
  return moved(registry().model(part, {graphs(), attention}));
}

inline Tensor answer(Model& model, const Batch& batch, ForwardPass pass = {}) {
  return model.forward(batch, pass).begin()->second;
}

class GraphGps : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(11); }
};

/// The sum of the encodings of those fields that the model has parts for; no rows: it has none.
inline Rows features_by_loops(const NaiveGraphs& naive, const Batch& batch, const std::string& part,
                              const std::vector<std::string>& fields) {
  Rows all;
  for (const std::string& field : fields) {
    const std::string name = part + "." + std::string(parse_field_name(field).base);
    Rows more;
    if (naive.has(name + ".table")) more = naive.looked_up(batch.fields.at(field), name);
    if (naive.has(name + ".weight")) more = naive.linear(rows_of(batch.fields.at(field)), name);
    if (!more.empty()) all = all.empty() ? more : sum(all, more);
  }
  return all;
}

/// Nodes behind the last layer, by loops. @param places  the encoding of each node's place; may
/// have no channels
inline Rows nodes_by_loops(const NaiveGraphs& naive, const Batch& batch, const Rows& places) {
  Rows h = features_by_loops(naive, batch, "nodes", {"atom@node", "type@node", "x@node"});
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i].insert(h[i].end(), places[i].begin(), places[i].end());
  }
  Rows e = features_by_loops(naive, batch, "edges", {"bond@edge", "edge_type@edge", "e@edge"});
  std::vector<std::size_t> offsets;
  const Tensor& begins = batch.offsets.at("node");
  for (std::int64_t g = 0; g < begins.size(0); ++g) {
    offsets.push_back(static_cast<std::size_t>(begins[g].item<std::int64_t>()));
  }
  const auto edges = edges_of(batch.fields.at("edges@edge>node"));
  for (const char* layer : {"layer0", "layer1"}) {
    h = naive.gps_layer(h, e, edges, offsets, 2, layer);
  }
  return h;
}

/// The sum or mean over the nodes of each graph.
inline Rows pooled_by_loops(const Rows& h, const Batch& batch, bool mean) {
  const Tensor& begins = batch.offsets.at("node");
  Rows pooled;
  for (std::int64_t g = 0; g + 1 < begins.size(0); ++g) {
    const auto first = begins[g].item<std::int64_t>(), last = begins[g + 1].item<std::int64_t>();
    pooled.emplace_back(h[0].size(), 0);
    for (std::int64_t i = first; i < last; ++i) {
      for (std::size_t c = 0; c < h[0].size(); ++c) {
        pooled.back()[c] += h[static_cast<std::size_t>(i)][c] / (mean ? double(last - first) : 1);
      }
    }
  }
  return pooled;
}

/// The head's linear maps with ReLU between them, as many as the model has.
/// @param l2norm  behind each ReLU rows of length 1
inline Tensor head_by_loops(const NaiveGraphs& naive, const Rows& rows, bool l2norm = false) {
  Rows y = naive.linear(rows, "head.map0");
  for (int i = 1; naive.has("head.map" + std::to_string(i) + ".weight"); ++i) {
    y = rectified(y);
    y = naive.linear(l2norm ? of_length_one(y) : y, "head.map" + std::to_string(i));
  }
  return tensor_of(y);
}

/// The whole model with a head for graphs, by loops.
inline Tensor by_loops(const NaiveGraphs& naive, const Batch& batch, const Rows& places,
                       bool mean) {
  return head_by_loops(naive, pooled_by_loops(nodes_by_loops(naive, batch, places), batch, mean));
}

inline Rows no_places(const Batch& batch) {
  return Rows(static_cast<std::size_t>(rows_of(batch, "node")));
}

}  // namespace attnlab::testing
