// From a dataset's fields to tokens: categories, real features, and where a node stands.
//
//   node_i = [ sum_c T_{atom_ic} + T'_{type_i} + W x_i + b ;  encoding of its place ]
//   edge_m =   sum_c U_{bond_mc} + U'_{edge_type_m} + W e_m + b,  or one learned vector for all
//
// of those fields that the dataset has. Several categorical columns share one table, each with rows
// of its own: OGB's atom and bond encoders. Encodings of places:
//   rwse       W BN(rwse_i) + b
//   laplacian  sum over valid k of relu(W_2 relu(W_1 [v_ik, lambda_k] + b_1) + b_2);
//              in training each k has a random sign, one for the whole batch
// Source: the public code of GraphGPS. Tables of one column start as N(0, 1), of several by
// Xavier's rule for a column of average size, as those of OGB.
#pragma once

#include <vector>

#include "framework/nn/modules/batch_norm.h"
#include "framework/nn/modules/layers.h"
#include "plugins/models/graph_gps/options.h"

namespace attnlab {

/// The sum of a table's rows: [N] or [N, F] int64 to [N, dim]. As a product with rows of zeros and
/// ones, whose gradient is a product, too, and sums in one order. Cost: O(N categories dim).
class Categories : public torch::nn::Module {
 public:
  /// @param field  int64 with `categories`
  Categories(const FieldInfo& field, std::int64_t dim);
  /// @throws DataError for a value that is none of the categories (on the CPU).
  Tensor forward(const Tensor& values) const;

 private:
  std::string name_;
  Tensor table_;  ///< [categories, dim]
};

/// The sum of the encodings of those fields along an axis that the dataset has.
class FeatureEncoder : public torch::nn::Module {
 public:
  /// @param categorical, real  names of fields that may be there
  /// @param dropout  of the real features, in training
  FeatureEncoder(const DatasetInfo& data, const std::vector<std::string>& categorical,
                 const std::string& real, std::int64_t dim, double dropout = 0);
  bool empty() const { return tables_.empty() && linear_ == nullptr; }
  /// [rows, dim], in `dtype`.
  Tensor forward(const Batch& batch, at::ScalarType dtype) const;

 private:
  std::vector<std::pair<std::string, std::shared_ptr<Categories>>> tables_;  ///< by field
  std::string real_;
  double dropout_;
  std::shared_ptr<Linear> linear_;  ///< null: no real features
};

/// Of those features of edges that the dataset has and the options let in.
std::shared_ptr<FeatureEncoder> edge_encoder(const GraphGpsOptions& options,
                                             const DatasetInfo& data, std::int64_t width);

/// How many edges lead to a node and from it, [N, dim]: a row of a table each (Graphormer's
/// centrality encoding).
class DegreeEncoder : public torch::nn::Module {
 public:
  explicit DegreeEncoder(std::int64_t dim);
  /// @param ends  [E, 2] int64
  Tensor forward(const Tensor& ends, std::int64_t nodes) const;

 private:
  Tensor in_, out_;  ///< [64, dim]; more edges count as 63
};

/// Where each node stands: [N, dim].
class PlaceEncoder : public torch::nn::Module {
 public:
  virtual Tensor forward(const Batch& batch, at::ScalarType dtype) = 0;
};

/// The encoder that the options name; null for none.
/// @throws OptionError where it is as wide as the nodes.
std::shared_ptr<PlaceEncoder> make_place_encoder(const GraphGpsOptions& options,
                                                 const DatasetInfo& data);

}  // namespace attnlab
