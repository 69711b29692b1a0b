// Graph layers by their definitions: loops over nodes, edges and numbers in double precision.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/contracts/model.h"
#include "tests/support/naive_attention.h"

namespace attnlab::testing {

using Rows = std::vector<Row>;

inline Rows rows_of(const Tensor& x) {
  Rows rows;
  for (std::int64_t i = 0; i < x.size(0); ++i) rows.push_back(row(x[i]));
  return rows;
}

inline Tensor tensor_of(const Rows& rows) {
  std::vector<Tensor> all;
  for (const Row& one : rows) all.push_back(at::tensor(one, at::kDouble));
  return at::stack(all);
}

inline Row sum(const Row& a, const Row& b) {
  Row c = a;
  for (std::size_t k = 0; k < c.size(); ++k) c[k] += b[k];
  return c;
}

inline Rows sum(const Rows& a, const Rows& b) {
  Rows c;
  for (std::size_t i = 0; i < a.size(); ++i) c.push_back(sum(a[i], b[i]));
  return c;
}

inline Rows rectified(Rows x) {
  for (Row& one : x) {
    for (double& number : one) number = number > 0 ? number : 0;
  }
  return x;
}

/// Each row over its length; of zeros it stays.
inline Rows of_length_one(Rows x) {
  for (Row& one : x) one = over_norm(std::move(one), 1e-12);
  return x;
}

/// An edge from a node to another.
struct NaiveEdge {
  std::size_t source, target;
};

inline std::vector<NaiveEdge> edges_of(const Tensor& ends) {
  std::vector<NaiveEdge> edges;
  for (std::int64_t m = 0; m < ends.size(0); ++m) {
    edges.push_back({static_cast<std::size_t>(ends[m][0].item<std::int64_t>()),
                     static_cast<std::size_t>(ends[m][1].item<std::int64_t>())});
  }
  return edges;
}

/// Of each node, the nodes that send to it: the others by its edges, and itself once.
inline std::vector<std::vector<std::size_t>> senders_of(const std::vector<NaiveEdge>& edges,
                                                        std::size_t nodes) {
  std::vector<std::vector<std::size_t>> senders(nodes);
  for (const auto& [source, target] : edges) {
    if (source != target) senders[target].push_back(source);
  }
  for (std::size_t i = 0; i < nodes; ++i) senders[i].push_back(i);
  return senders;
}

/// A model's tensors by name, and the layers that are made of them.
class NaiveGraphs {
 public:
  /// What dropout makes of rows, in the order in which the layers ask for it; by default nothing.
  std::function<Rows(const Rows&)> drop = [](const Rows& x) { return x; };

  /// @param training  batch norms by the batch's statistics
  NaiveGraphs(const torch::nn::Module& model, bool training) : training_(training) {
    for (const auto& item : model.named_parameters()) tensors_[item.key()] = item.value();
    for (const auto& item : model.named_buffers()) tensors_[item.key()] = item.value();
  }

  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  /// Whether a part has any tensor.
  bool has_part(const std::string& name) const {
    const auto first = tensors_.lower_bound(name + ".");
    return first != tensors_.end() && first->first.rfind(name + ".", 0) == 0;
  }

  /// Of a table for several columns: the sum of the rows that a row of values names.
  Rows looked_up(const Tensor& values, const std::string& name) const {
    const Rows table = rows_of(tensors_.at(name + ".table").detach());
    Rows out;
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      out.emplace_back(table[0].size(), 0);
      const Tensor columns = values[i].view({-1});
      for (std::int64_t c = 0; c < columns.numel(); ++c) {
        out.back() = sum(out.back(), table[static_cast<std::size_t>(columns[c].item<long>())]);
      }
    }
    return out;
  }

  /// By a matrix without biases; x where there is none.
  Rows product(const Rows& x, const std::string& name) const {
    if (!has(name + ".weight")) return x;
    const Rows weight = rows_of(tensors_.at(name + ".weight").detach());
    Rows y;
    for (const Row& one : x) {
      y.emplace_back();
      for (const Row& row : weight) y.back().push_back(dot(row, one));
    }
    return y;
  }

  Rows linear(const Rows& x, const std::string& name) const {
    return linear_part(x, name, 0, tensors_.at(name + ".weight").size(0));
  }

  /// By rows [first, first + count) of the matrix.
  Rows linear_part(const Rows& x, const std::string& name, std::int64_t first,
                   std::int64_t count) const {
    const Rows weight =
        rows_of(tensors_.at(name + ".weight").detach().slice(0, first, first + count));
    const Row bias = row(tensors_.at(name + ".bias").detach().slice(0, first, first + count));
    Rows y;
    for (const Row& one : x) {
      Row out = bias;
      for (std::size_t k = 0; k < out.size(); ++k) out[k] += dot(weight[k], one);
      y.push_back(out);
    }
    return y;
  }

  Rows batch_norm(const Rows& x, const std::string& name) const {
    const Row weight = value(name + ".weight"), bias = value(name + ".bias");
    Row mean = value(name + ".running_mean"), variance = value(name + ".running_variance");
    const auto count = static_cast<double>(x.size());
    for (std::size_t c = 0; training_ && c < mean.size(); ++c) {
      mean[c] = variance[c] = 0;
      for (const Row& one : x) mean[c] += one[c] / count;
      for (const Row& one : x) variance[c] += (one[c] - mean[c]) * (one[c] - mean[c]) / count;
    }
    Rows y = x;
    for (Row& one : y) {
      for (std::size_t c = 0; c < one.size(); ++c) {
        one[c] = (one[c] - mean[c]) / std::sqrt(variance[c] + 1e-5) * weight[c] + bias[c];
      }
    }
    return y;
  }

  Rows gine(const Rows& x, const Rows& e, const std::vector<NaiveEdge>& edges,
            const std::string& name) const {
    Rows sums = x;
    for (std::size_t m = 0; m < edges.size(); ++m) {
      for (std::size_t c = 0; c < sums[0].size(); ++c) {
        sums[edges[m].target][c] += std::max(0.0, x[edges[m].source][c] + e[m][c]);
      }
    }
    return linear(rectified(linear(sums, name + ".in")), name + ".out");
  }

  /// @param e  what it becomes; as it is where the layer has no norm of edges
  Rows gated_gcn(const Rows& x, Rows& e, const std::vector<NaiveEdge>& edges,
                 const std::string& name) const {
    const auto dim = static_cast<std::int64_t>(x[0].size());
    const auto part = [&](std::int64_t k) { return linear_part(x, name + ".nodes", k * dim, dim); };
    const Rows a = part(0), d = part(1), b = part(2), s = part(3), c = linear(e, name + ".edges");
    Rows g, weighted(x.size(), Row(x[0].size(), 0)), gates = weighted, out;
    for (std::size_t m = 0; m < edges.size(); ++m) {
      const auto [source, target] = edges[m];
      g.push_back(sum(sum(d[target], s[source]), c[m]));
      for (std::size_t k = 0; k < g[m].size(); ++k) {
        const double gate = 1 / (1 + std::exp(-g[m][k]));
        weighted[target][k] += gate * b[source][k];
        gates[target][k] += gate;
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      out.push_back(a[i]);
      for (std::size_t k = 0; k < out[i].size(); ++k) {
        out[i][k] += weighted[i][k] / (gates[i][k] + 1e-6);
      }
    }
    const Rows y = sum(x, drop(rectified(batch_norm(out, name + ".node_norm"))));
    if (has(name + ".edge_norm.weight")) {
      e = sum(e, drop(rectified(batch_norm(g, name + ".edge_norm"))));
    }
    return y;
  }

  Rows gcn(const Rows& x, const std::vector<NaiveEdge>& edges, const std::string& name) const {
    const auto senders = senders_of(edges, x.size());
    const Rows sent = product(x, name + ".map");
    Rows y(x.size(), value(name + ".bias"));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (const std::size_t j : senders[i]) {
        const double degrees = double(senders[i].size()) * double(senders[j].size());
        for (std::size_t c = 0; c < y[i].size(); ++c) y[i][c] += sent[j][c] / std::sqrt(degrees);
      }
    }
    return y;
  }

  Rows gat(const Rows& x, const std::vector<NaiveEdge>& edges, const std::string& name) const {
    const auto senders = senders_of(edges, x.size());
    const Rows z = product(x, name + ".map");
    const Rows s = rows_of(tensors_.at(name + ".source").detach());
    const Rows t = rows_of(tensors_.at(name + ".target").detach());
    Rows y(x.size(), value(name + ".bias"));
    const std::size_t width = s[0].size();
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t h = 0; h < s.size(); ++h) {
        Row weights;
        double all = 0;
        for (const std::size_t j : senders[i]) {
          double logit = 0;
          for (std::size_t c = 0; c < width; ++c) {
            logit += s[h][c] * z[j][h * width + c] + t[h][c] * z[i][h * width + c];
          }
          weights.push_back(std::exp(logit > 0 ? logit : 0.2 * logit));
          all += weights.back();
        }
        for (std::size_t k = 0; k < weights.size(); ++k) {
          for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
            y[i][c] += weights[k] / all * z[senders[i][k]][c];
          }
        }
      }
    }
    return y;
  }

  Rows sage(const Rows& x, const std::vector<NaiveEdge>& edges, const std::string& name) const {
    Rows means(x.size(), Row(x[0].size(), 0));
    for (std::size_t i = 0; i < x.size(); ++i) {
      double count = 0;
      for (const auto& [source, target] : edges) {
        if (target != i) continue;
        means[i] = sum(means[i], x[source]);
        ++count;
      }
      for (double& number : means[i]) number /= count > 0 ? count : 1;
    }
    return sum(linear(x, name + ".own"), product(means, name + ".neighbours"));
  }

  /// Standard attention among the nodes of each graph. @param offsets  where each begins
  Rows attention(const Rows& x, const std::vector<std::size_t>& offsets, std::size_t heads,
                 const std::string& name) const {
    const auto dim = static_cast<std::int64_t>(x[0].size());
    const Rows q = linear_part(x, name + ".qkv", 0, dim);
    const Rows k = linear_part(x, name + ".qkv", dim, dim);
    const Rows v = linear_part(x, name + ".qkv", 2 * dim, dim);
    const std::size_t width = x[0].size() / heads;
    Rows merged(x.size(), Row(x[0].size(), 0));
    for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t i = offsets[g]; i < offsets[g + 1]; ++i) {
          Row weights;
          double all = 0;
          for (std::size_t j = offsets[g]; j < offsets[g + 1]; ++j) {
            double logit = 0;
            for (std::size_t c = h * width; c < (h + 1) * width; ++c) logit += q[i][c] * k[j][c];
            weights.push_back(std::exp(logit / std::sqrt(double(width))));
            all += weights.back();
          }
          for (std::size_t j = offsets[g]; j < offsets[g + 1]; ++j) {
            for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
              merged[i][c] += weights[j - offsets[g]] / all * v[j][c];
            }
          }
        }
      }
    }
    return linear(merged, name + ".output");
  }

  /// What a layer's message passing gives, of whichever kind it is.
  Rows messages(const Rows& h, Rows& e, const std::vector<NaiveEdge>& edges,
                const std::string& name) const {
    if (has(name + ".in.weight")) return gine(h, e, edges, name);
    if (has(name + ".nodes.weight")) return gated_gcn(h, e, edges, name);
    if (has(name + ".source")) return gat(h, edges, name);
    return has(name + ".own.weight") ? sage(h, edges, name) : gcn(h, edges, name);
  }

  /// One layer of GraphGPS, of whatever parts it has; a plain one where it has no norms.
  Rows gps_layer(const Rows& h, Rows& e, const std::vector<NaiveEdge>& edges,
                 const std::vector<std::size_t>& offsets, std::size_t heads,
                 const std::string& name) const {
    const bool plain = !has(name + ".norm.weight");
    Rows z(h.size(), Row(h[0].size(), 0));
    if (has_part(name + ".local")) {
      const bool has_residual = has(name + ".local.nodes.weight");
      const Rows local = messages(h, e, edges, name + ".local");
      if (plain) {
        z = local;
      } else {
        z = sum(z, batch_norm(has_residual ? local : sum(h, drop(local)), name + ".local_norm"));
      }
    }
    if (has(name + ".attention.qkv.weight")) {
      const Rows seen = drop(attention(h, offsets, heads, name + ".attention"));
      z = sum(z, plain ? seen : batch_norm(sum(h, seen), name + ".global_norm"));
    }
    if (plain) {
      std::string next = name;
      ++next.back();  // "layer0" to "layer1"
      return has_part(next) ? drop(rectified(z)) : z;
    }
    const Rows hidden = drop(rectified(linear(z, name + ".in")));
    return batch_norm(sum(z, drop(linear(hidden, name + ".out"))), name + ".norm");
  }

  Row value(const std::string& name) const { return row(tensors_.at(name).detach()); }

 private:
  bool training_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace attnlab::testing
