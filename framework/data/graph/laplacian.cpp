// Eigenpairs of the Laplacian: see encodings.h.
#include <algorithm>
#include <cmath>

#include "framework/data/graph/encodings.h"

#if __has_include(<Eigen/Dense>) && __has_include(<Spectra/SymEigsShiftSolver.h>)
#define ATTNLAB_HAS_EIGENPAIRS 1
#define EIGEN_DONT_PARALLELIZE  // graphs side by side keep all cores busy
#include <Spectra/MatOp/SparseSymShiftSolve.h>
#include <Spectra/SymEigsShiftSolver.h>
#include <Eigen/Dense>
#include <Eigen/Sparse>
#else
#define ATTNLAB_HAS_EIGENPAIRS 0
#endif

namespace attnlab {

bool has_eigenpairs() { return ATTNLAB_HAS_EIGENPAIRS != 0; }

#if ATTNLAB_HAS_EIGENPAIRS
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using SparseMatrix = Eigen::SparseMatrix<double>;

/// Nodes from which the whole decomposition is dearer than Lanczos steps.
constexpr std::int64_t kSmall = 48;
constexpr double kPrecise = 1e-9;  ///< of values and residuals; those of a Laplacian are up to 2 n

/// Values rise; a column a vector.
struct Pairs {
  VectorXd values;
  MatrixXd vectors;
};

/// The nodes of each connected component, rising; components in order of their first node.
std::vector<std::vector<std::int32_t>> components_of(const Neighbours& graph) {
  std::vector<std::vector<std::int32_t>> components;
  std::vector<bool> seen(static_cast<std::size_t>(graph.size()));
  for (std::int32_t first = 0; first < graph.size(); ++first) {
    if (seen[static_cast<std::size_t>(first)]) continue;
    std::vector<std::int32_t> nodes = {first};
    seen[static_cast<std::size_t>(first)] = true;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      const auto node = static_cast<std::size_t>(nodes[at]);
      for (std::int32_t e = graph.begins[node]; e < graph.begins[node + 1]; ++e) {
        const std::int32_t other = graph.nodes[static_cast<std::size_t>(e)];
        if (seen[static_cast<std::size_t>(other)]) continue;
        seen[static_cast<std::size_t>(other)] = true;
        nodes.push_back(other);
      }
    }
    std::sort(nodes.begin(), nodes.end());
    components.push_back(std::move(nodes));
  }
  return components;
}

/// The Laplacian of a component.
/// @param places  of each of the graph's nodes within its component
SparseMatrix laplacian_of(const Neighbours& graph, const std::vector<std::int32_t>& nodes,
                          const std::vector<std::int32_t>& places) {
  std::vector<Eigen::Triplet<double>> entries;
  for (const std::int32_t node : nodes) {
    const auto row = static_cast<std::size_t>(node);
    entries.emplace_back(places[row], places[row], double(graph.degree(node)));
    for (std::int32_t e = graph.begins[row]; e < graph.begins[row + 1]; ++e) {
      const auto column = static_cast<std::size_t>(graph.nodes[static_cast<std::size_t>(e)]);
      entries.emplace_back(places[row], places[column], -1.0);
    }
  }
  SparseMatrix laplacian(Eigen::Index(nodes.size()), Eigen::Index(nodes.size()));
  laplacian.setFromTriplets(entries.begin(), entries.end());
  return laplacian;
}

Pairs all_pairs(const SparseMatrix& laplacian, Eigen::Index k) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver{MatrixXd(laplacian)};
  return {solver.eigenvalues().head(k), solver.eigenvectors().leftCols(k)};
}

/// How many eigenvalues lie below `bound`: the negative pivots of L - bound I. -1: not known.
Eigen::Index count_below(const SparseMatrix& laplacian, double bound) {
  SparseMatrix shifted = laplacian;
  shifted.diagonal().array() -= bound;
  const Eigen::SimplicialLDLT<SparseMatrix> factors(shifted);
  return factors.info() == Eigen::Success ? (factors.vectorD().array() < 0).count() : -1;
}

/// By Lanczos steps on (L + s I)^-1, s > 0. @returns whether these are the smallest pairs, all of
/// them, to the precision.
bool lanczos_pairs(const SparseMatrix& laplacian, Eigen::Index k, Pairs& pairs) {
  using Operation = Spectra::SparseSymShiftSolve<double>;
  Operation operation(laplacian);
  const Eigen::Index steps = std::min(laplacian.rows(), std::max(2 * k + 4, k + 16));
  Spectra::SymEigsShiftSolver<Operation> solver(operation, k, steps, -0.01);
  solver.init();
  solver.compute(Spectra::SortRule::LargestMagn, 1000, 1e-12, Spectra::SortRule::SmallestAlge);
  if (solver.info() != Spectra::CompInfo::Successful) return false;
  pairs = {solver.eigenvalues(), solver.eigenvectors()};
  const MatrixXd residual = laplacian * pairs.vectors - pairs.vectors * pairs.values.asDiagonal();
  const MatrixXd angles = pairs.vectors.transpose() * pairs.vectors - MatrixXd::Identity(k, k);
  const double wrong = std::max(residual.cwiseAbs().maxCoeff(), angles.cwiseAbs().maxCoeff());
  // None is missing among those that differ from the last; of those equal to it any may stand.
  const double last = pairs.values[k - 1] - kPrecise;
  return wrong < kPrecise && count_below(laplacian, last) == (pairs.values.array() < last).count();
}

Pairs smallest_pairs(const SparseMatrix& laplacian, std::int64_t wanted) {
  const Eigen::Index k = std::min<Eigen::Index>(wanted, laplacian.rows());
  Pairs pairs;
  const bool large = laplacian.rows() >= kSmall && 3 * k < laplacian.rows();
  return large && lanczos_pairs(laplacian, k, pairs) ? pairs : all_pairs(laplacian, k);
}

/// Makes the largest entry positive, the first of those that are equal but for rounding.
void fix_sign(Eigen::Ref<VectorXd> vector) {
  const double most = vector.cwiseAbs().maxCoeff() * (1 - 1e-6);
  Eigen::Index first = 0;
  while (std::abs(vector[first]) < most) ++first;
  if (vector[first] < 0) vector = -vector;
}

/// One pair of one component.
struct Candidate {
  double value;
  std::size_t component;
  Eigen::Index column;
};

}  // namespace

Eigenpairs smallest_eigenpairs(const Neighbours& graph, std::int64_t k) {
  const auto n = static_cast<std::size_t>(graph.size());
  const std::vector<std::vector<std::int32_t>> components = components_of(graph);
  std::vector<Pairs> pairs;
  std::vector<Candidate> candidates;
  std::vector<std::int32_t> places(n);
  for (const std::vector<std::int32_t>& nodes : components) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      places[static_cast<std::size_t>(nodes[i])] = static_cast<std::int32_t>(i);
    }
    pairs.push_back(smallest_pairs(laplacian_of(graph, nodes, places), k));
    for (Eigen::Index p = 0; p < pairs.back().values.size(); ++p) {
      fix_sign(pairs.back().vectors.col(p));
      const double value = pairs.back().values[p];
      candidates.push_back({value < kPrecise ? 0 : value, pairs.size() - 1, p});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(k)));
  Eigenpairs smallest;
  for (const Candidate& candidate : candidates) {
    const std::vector<std::int32_t>& nodes = components[candidate.component];
    std::vector<double>& vector = smallest.vectors.emplace_back(n);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      vector[static_cast<std::size_t>(nodes[i])] =
          pairs[candidate.component].vectors(Eigen::Index(i), candidate.column);
    }
    smallest.values.push_back(candidate.value);
  }
  return smallest;
}

#else

Eigenpairs smallest_eigenpairs(const Neighbours&, std::int64_t) {
  throw Error("this build has no Eigen and Spectra");
}

#endif

}  // namespace attnlab
