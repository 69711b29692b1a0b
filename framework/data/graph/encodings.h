// Positional encodings of graphs, of the undirected graph without loops (`Neighbours`).
//
//   RWSE-k   r_i[t] = ((D^-1 A)^t)_ii,  t = 1, ..., k       how likely a random walk is back
//   LapPE-k  (D - A) v = lambda v                           the k smallest lambda and their v
//
// RWSE is exact: with S = D^-1/2 A D^-1/2 the diagonal of S^(a+b) is the product of rows of S^a and
// S^b, so k / 2 steps along the edges around each node are enough. A node without edges gets 0.
// LapPE keeps the trivial pair; |v| = 1; the entry of v that is largest is positive (of equal ones
// the first). Pairs of several components are those of each, put in order. Small components are
// decomposed whole (Eigen), large ones by shifted and inverted Lanczos steps (Spectra); then the
// number of eigenvalues below the last is counted (Sylvester's law of inertia), and where Lanczos
// has missed one, as it can where eigenvalues are equal, the component is decomposed whole.
// Source: Rampasek et al. 2022 (arXiv:2205.12454), Dwivedi et al. 2021 (arXiv:2110.07875).
// Cost: all cores; kept in the user's cache folder (data/cache.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/data/graph/graph_table.h"

namespace attnlab {

struct EncodingOptions {
  std::int64_t rwse = 0;
  std::int64_t laplacian = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("rwse", rwse, range(0, 256), "steps of the random-walk encoding, RWSE; 0: none");
    v("laplacian", laplacian, range(0, 256),
      "smallest eigenpairs of the Laplacian, including the trivial one (LapPE); 0: none");
  }
};

/// @param out  [n, k], row after row
void walk_returns(const Neighbours& graph, std::int64_t k, float* out);

/// As many pairs as there are nodes, at most k; values rise.
struct Eigenpairs {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;  ///< one a value, of n entries
};
/// @throws Error where this build has no Eigen and Spectra.
Eigenpairs smallest_eigenpairs(const Neighbours& graph, std::int64_t k);

/// Whether this build has Eigen and Spectra.
bool has_eigenpairs();

/// Adds `rwse@node` [N, k], and `lap_vectors@node` [N, k] with `lap_values` [graphs, k]; float32, 0
/// beyond a graph's last pair.
/// @param name  of the dataset, for people
/// @param worth  seconds: what is made faster is not kept
/// @throws OptionError for the Laplacian in a build without Eigen and Spectra.
void add_encodings(GraphTable& table, const EncodingOptions& options, const std::string& name,
                   double worth = 1);

}  // namespace attnlab
