// Random-walk encodings: see encodings.h.
#include <algorithm>
#include <cmath>

#include "framework/data/graph/encodings.h"

namespace attnlab {
namespace {

/// A vector over nodes of which few entries are not zero.
struct Sparse {
  explicit Sparse(std::int64_t size) : values(static_cast<std::size_t>(size)) {}

  void add(std::int32_t node, double value) {
    double& entry = values[static_cast<std::size_t>(node)];
    if (value == 0) return;  // too small for a double: else the node might be listed twice
    if (entry == 0) nodes.push_back(node);
    entry += value;
  }
  void clear() {
    for (const std::int32_t node : nodes) values[static_cast<std::size_t>(node)] = 0;
    nodes.clear();
  }
  double dot(const Sparse& other) const {
    double sum = 0;
    for (const std::int32_t node : nodes) {
      sum += values[static_cast<std::size_t>(node)] * other.values[static_cast<std::size_t>(node)];
    }
    return sum;
  }

  std::vector<double> values;
  std::vector<std::int32_t> nodes;
};

}  // namespace

void walk_returns(const Neighbours& graph, std::int64_t k, float* out) {
  const std::int64_t n = graph.size();
  std::vector<double> scale(static_cast<std::size_t>(n));  // D^-1/2
  for (std::int64_t i = 0; i < n; ++i) {
    scale[static_cast<std::size_t>(i)] =
        1 / std::sqrt(double(std::max<std::int64_t>(1, graph.degree(i))));
  }
  Sparse row(n), next(n);  // row i of S^t and of S^(t+1)
  for (std::int64_t i = 0; i < n; ++i, out += k) {
    row.add(static_cast<std::int32_t>(i), 1);
    for (std::int64_t t = 0; 2 * t < k; ++t) {
      for (const std::int32_t u : row.nodes) {
        const auto from = static_cast<std::size_t>(u);
        const double part = row.values[from] * scale[from];
        for (std::int32_t e = graph.begins[from]; e < graph.begins[from + 1]; ++e) {
          const std::int32_t v = graph.nodes[static_cast<std::size_t>(e)];
          next.add(v, part * scale[static_cast<std::size_t>(v)]);
        }
      }
      out[2 * t] = static_cast<float>(row.dot(next));
      if (2 * t + 1 < k) out[2 * t + 1] = static_cast<float>(next.dot(next));
      row.clear();
      std::swap(row, next);
    }
    row.clear();
  }
}

}  // namespace attnlab
