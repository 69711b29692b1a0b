#include "plugins/models/graph_gps/pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr double kBiasStd = 0.02;

Tensor tensor_of(const Numbers& numbers) {
  return at::tensor(numbers, at::TensorOptions().dtype(at::kLong));
}

/// Searches shortest paths from one node after the other.
class PathSearch {
 public:
  PathSearch(const Tensor& ends, std::int64_t nodes, std::int64_t most)
      : by_source_(segments_by(ends.select(1, 0), nodes, "edge")),
        targets_(segments_by(ends.select(1, 1), nodes, "edge").index),
        most_(most),
        distance_(static_cast<std::size_t>(nodes), -1),
        path_(static_cast<std::size_t>(nodes), 0) {}

  /// Of all nodes that can be reached, until `forget`.
  void from(std::int64_t start) {
    const auto* const order = by_source_.order.data_ptr<std::int64_t>();
    const auto* const begins = by_source_.offsets.data_ptr<std::int64_t>();
    const auto* const targets = targets_.data_ptr<std::int64_t>();
    reached_ = {start};
    distance_[std::size_t(start)] = 0;
    for (std::size_t r = 0; r < reached_.size(); ++r) {
      const std::int64_t node = reached_[r];
      for (std::int64_t k = begins[node]; k < begins[node + 1]; ++k) {
        const std::int64_t edge = order[k];
        const auto next = static_cast<std::size_t>(targets[edge]);
        if (distance_[next] >= 0) continue;
        distance_[next] = distance_[std::size_t(node)] + 1;
        path_[next] = longer(path_[std::size_t(node)], edge, distance_[next]);
        reached_.push_back(targets[edge]);
      }
    }
  }
  void forget() {
    for (const std::int64_t node : reached_) distance_[std::size_t(node)] = -1;
  }

  /// -1: there is no path.
  std::int64_t distance(std::int64_t node) const { return distance_[std::size_t(node)]; }
  /// The number of the path, or of its first `most` edges, among those of its length.
  std::int64_t path(std::int64_t node) const { return path_[std::size_t(node)]; }

  std::vector<NodePairs::Level> levels() const {
    std::vector<NodePairs::Level> all;
    for (const auto& [before, edge] : levels_) all.push_back({tensor_of(before), tensor_of(edge)});
    return all;
  }

 private:
  /// A path with one more edge. @param length  with it
  std::int64_t longer(std::int64_t path, std::int64_t edge, std::int64_t length) {
    if (length > most_) return path;
    if (static_cast<std::size_t>(length) > levels_.size()) levels_.emplace_back();
    auto& [before, edges] = levels_[static_cast<std::size_t>(length - 1)];
    before.push_back(length == 1 ? 0 : path);
    edges.push_back(edge);
    return static_cast<std::int64_t>(edges.size()) - 1;
  }

  Segments by_source_;
  Tensor targets_;
  std::int64_t most_;
  Numbers distance_, path_, reached_;
  std::vector<std::pair<Numbers, Numbers>> levels_;
};

/// The graphs of a batch as rows of a padded layout.
struct PaddedGraphs {
  const std::int64_t* begins;
  std::int64_t graphs, nodes, token, longest = 0;
  Tensor offsets;  ///< holds what `begins` points to

  PaddedGraphs(const Tensor& given, bool with_token)
      : graphs(given.size(0) - 1), token(with_token ? 1 : 0), offsets(given.contiguous()) {
    begins = offsets.data_ptr<std::int64_t>();
    nodes = begins[graphs];
    for (std::int64_t g = 0; g < graphs; ++g) longest = std::max(longest, nodes_of(g) + token);
  }

  std::int64_t nodes_of(std::int64_t graph) const { return begins[graph + 1] - begins[graph]; }
  /// @param i, j  numbers within the graph
  std::int64_t place(std::int64_t graph, std::int64_t i, std::int64_t j) const {
    return (graph * longest + i) * longest + j;
  }
};

}  // namespace

NodePairs::NodePairs(const Tensor& ends, const Tensor& offsets, bool token,
                     std::int64_t max_distance) {
  const PaddedGraphs layout(offsets, token);
  graphs = layout.graphs;
  longest = layout.longest;
  PathSearch search(ends, layout.nodes, max_distance);
  Numbers places, kinds, lengths, paths;
  const auto add = [&](std::int64_t at, std::int64_t what, std::int64_t length, std::int64_t path) {
    places.push_back(at);
    kinds.push_back(what);
    lengths.push_back(length);
    paths.push_back(path);
  };
  for (std::int64_t g = 0; g < graphs; ++g) {
    const std::int64_t n = layout.nodes_of(g), first = layout.begins[g];
    for (std::int64_t i = 0; i < n; ++i) {
      search.from(first + i);
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t d = search.distance(first + j);
        add(layout.place(g, i, j), d < 0 ? max_distance + 1 : std::min(d, max_distance),
            std::clamp<std::int64_t>(d, 0, max_distance), search.path(first + j));
      }
      search.forget();
    }
    if (!token) continue;
    for (std::int64_t i = 0; i <= n; ++i) {
      add(layout.place(g, n, i), max_distance + 2, 0, 0);
      if (i < n) add(layout.place(g, i, n), max_distance + 2, 0, 0);
    }
  }
  levels = search.levels();
  Numbers before = {0, 1};  // by length: paths that are shorter, and the row of zeros
  for (const Level& level : levels) before.push_back(before.back() + level.edge.size(0));
  for (std::size_t p = 0; p < paths.size(); ++p) {
    paths[p] = lengths[p] == 0 ? 0 : before[static_cast<std::size_t>(lengths[p])] + paths[p];
  }
  place = tensor_of(places);
  kind = tensor_of(kinds);
  path = tensor_of(paths);
}

Tensor neighbours_see(const Tensor& ends, const Tensor& offsets, bool token) {
  const PaddedGraphs layout(offsets, token);
  const Tensor targets = segments_by(ends.select(1, 1), layout.nodes, "edge").index;
  const Tensor sources = segments_by(ends.select(1, 0), layout.nodes, "edge").index;
  const Tensor sees =
      at::zeros({layout.graphs, 1, layout.longest, layout.longest}, at::TensorOptions(at::kBool));
  bool* const out = sees.data_ptr<bool>();
  std::vector<std::int64_t> graph_of(static_cast<std::size_t>(layout.nodes));
  for (std::int64_t g = 0; g < layout.graphs; ++g) {
    const std::int64_t n = layout.nodes_of(g);
    for (std::int64_t i = 0; i < n; ++i) {
      graph_of[static_cast<std::size_t>(layout.begins[g] + i)] = g;
      out[layout.place(g, i, i)] = true;
      if (token) out[layout.place(g, i, n)] = out[layout.place(g, n, i)] = true;
    }
    if (token) out[layout.place(g, n, n)] = true;
  }
  const auto* const from = sources.data_ptr<std::int64_t>();
  const auto* const to = targets.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e < ends.size(0); ++e) {
    const std::int64_t g = graph_of[static_cast<std::size_t>(to[e])];
    if (graph_of[static_cast<std::size_t>(from[e])] != g) continue;
    out[layout.place(g, to[e] - layout.begins[g], from[e] - layout.begins[g])] = true;
  }
  return sees;
}

PairBias::PairBias(const GraphGpsOptions& o, const DatasetInfo& data) : heads_(o.heads) {
  const auto learned = [&](const char* name, at::IntArrayRef sizes) {
    return register_parameter(name, at::empty(sizes).normal_(0, kBiasStd));
  };
  if (o.biases("distance")) {
    distances_ = learned("distances", {o.max_distance + (o.pool == "token" ? 3 : 2), heads_});
  }
  if (!o.biases("edges")) return;
  edges_ = register_module("edges", edge_encoder(o, data, heads_));
  if (edges_->empty()) {
    throw OptionError("bias", fmt::format("edges: dataset '{}' says nothing of edges, or "
                                          "edge_features is false; leave edges out",
                                          data.name));
  }
  const at::NoGradGuard no_gradients;
  for (Tensor& map : edges_->parameters()) {
    if (map.dim() > 1) map.normal_(0, kBiasStd);
  }
  hops_ = learned("hops", {o.max_distance, heads_, heads_});
}

Tensor PairBias::along_paths(const Tensor& edges, const NodePairs& pairs) const {
  const auto rows = [&](const Tensor& x, const Tensor& index) {
    return gather_rows(x, segments_by(index.to(x.device()), x.size(0), "path"));
  };
  std::vector<Tensor> means = {at::zeros({1, heads_}, edges.options())};
  Tensor sums;
  for (std::size_t m = 0; m < pairs.levels.size(); ++m) {
    const NodePairs::Level& level = pairs.levels[m];
    const Tensor last = rows(at::matmul(edges, hops_[std::int64_t(m)]), level.edge);
    sums = m == 0 ? last : rows(sums, level.before) + last;
    means.push_back(sums / double(m + 1));
  }
  return at::cat(means);
}

Tensor PairBias::forward(const Batch& batch, const NodePairs& pairs, at::ScalarType dtype) const {
  Tensor all;
  const auto add = [&](const Tensor& table, const Tensor& index) {
    const Tensor more =
        gather_rows(table, segments_by(index.to(table.device()), table.size(0), "pair"));
    all = all.defined() ? all + more : more;
  };
  if (distances_.defined()) add(distances_, pairs.kind);
  if (edges_ != nullptr) add(along_paths(edges_->forward(batch, dtype), pairs), pairs.path);
  const std::int64_t length = pairs.longest;
  return at::zeros({pairs.graphs * length * length, heads_}, all.options())
      .index_copy(0, pairs.place.to(all.device()), all)
      .view({pairs.graphs, length, length, heads_})
      .permute({0, 3, 1, 2})
      .contiguous();
}

}  // namespace attnlab
