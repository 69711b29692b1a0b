#include "framework/report/graph_layout.h"

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr int kPowerSteps = 60, kStressSteps = 120;

/// Edges of the shortest paths between all pairs.
Matrix distances_of(std::size_t nodes,
                    const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  std::vector<std::vector<std::size_t>> neighbours(nodes);
  for (const auto& [a, b] : edges) {
    neighbours[a].push_back(b);
    neighbours[b].push_back(a);
  }
  Matrix distances(nodes, std::vector<double>(nodes, -1));
  double longest = 1;
  for (std::size_t first = 0; first < nodes; ++first) {
    std::vector<double>& row = distances[first];
    std::vector<std::size_t> reached = {first};
    row[first] = 0;
    for (std::size_t at = 0; at < reached.size(); ++at) {
      for (const std::size_t next : neighbours[reached[at]]) {
        if (row[next] >= 0) continue;
        row[next] = row[reached[at]] + 1;
        longest = std::max(longest, row[next]);
        reached.push_back(next);
      }
    }
  }
  for (std::vector<double>& row : distances) {
    for (double& distance : row) distance = distance < 0 ? longest + 1 : distance;
  }
  return distances;
}

/// -J D² J / 2: products of the places that would have these distances.
Matrix centred(const Matrix& distances) {
  const std::size_t n = distances.size();
  Matrix products(n, std::vector<double>(n));
  std::vector<double> mean(n);
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (const double d : distances[i]) mean[i] += d * d / double(n);
    all += mean[i] / double(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      products[i][j] = -(distances[i][j] * distances[i][j] - mean[i] - mean[j] + all) / 2;
    }
  }
  return products;
}

/// The largest eigenvector, times the root of its value; it is taken out of the matrix.
std::vector<double> largest_axis(Matrix& matrix) {
  const std::size_t n = matrix.size();
  std::vector<double> vector(n), next(n);
  for (std::size_t i = 0; i < n; ++i) vector[i] = std::sin(1 + 2.3 * double(i));  // not symmetric
  double value = 0;
  for (int step = 0; step < kPowerSteps; ++step) {
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) {
      next[i] = 0;
      for (std::size_t j = 0; j < n; ++j) next[i] += matrix[i][j] * vector[j];
      square += next[i] * next[i];
    }
    value = std::sqrt(square);
    if (value < 1e-12) return std::vector<double>(n);
    for (std::size_t i = 0; i < n; ++i) vector[i] = next[i] / value;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) matrix[i][j] -= value * vector[i] * vector[j];
  }
  for (double& entry : vector) entry *= std::sqrt(value);
  return vector;
}

/// One step of majorisation with weights 1 / d².
std::vector<DrawnPoint> moved(const std::vector<DrawnPoint>& points, const Matrix& distances) {
  std::vector<DrawnPoint> next(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    double weights = 0;
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (i == j) continue;
      const double d = distances[i][j], weight = 1 / (d * d);
      const double dx = points[i].x - points[j].x, dy = points[i].y - points[j].y;
      const double far = d / std::max(std::hypot(dx, dy), 1e-9);
      next[i].x += weight * (points[j].x + far * dx);
      next[i].y += weight * (points[j].y + far * dy);
      weights += weight;
    }
    next[i].x /= weights;
    next[i].y /= weights;
  }
  return next;
}

void fit(std::vector<DrawnPoint>& points) {
  double left = points[0].x, right = left, top = points[0].y, bottom = top;
  for (const DrawnPoint& point : points) {
    left = std::min(left, point.x), right = std::max(right, point.x);
    top = std::min(top, point.y), bottom = std::max(bottom, point.y);
  }
  const double side = std::max({right - left, bottom - top, 1e-9});
  for (DrawnPoint& point : points) {
    point.x = 0.5 + (point.x - (left + right) / 2) / side;
    point.y = 0.5 + (point.y - (top + bottom) / 2) / side;
  }
}

}  // namespace

std::vector<DrawnPoint> graph_layout(
    std::size_t nodes, const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  if (nodes < 2) return std::vector<DrawnPoint>(nodes, {0.5, 0.5});
  const Matrix distances = distances_of(nodes, edges);
  Matrix products = centred(distances);
  const std::vector<double> x = largest_axis(products), y = largest_axis(products);
  std::vector<DrawnPoint> points(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    // Moved a little apart: nodes in one place, or on one line, would stay there.
    points[i] = {x[i] + 1e-3 * std::sin(double(i)), y[i] + 1e-3 * std::cos(3.7 * double(i))};
  }
  for (int step = 0; step < kStressSteps; ++step) points = moved(points, distances);
  fit(points);
  return points;
}

}  // namespace attnlab
