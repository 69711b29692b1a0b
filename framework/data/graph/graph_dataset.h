// What datasets of graphs share: graphs in memory, splits, encodings.
#pragma once

#include <array>
#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/data/graph/encodings.h"
#include "framework/data/graph/graph_table.h"

namespace attnlab {

/// The fields that a dataset with `EncodingOptions` may give beside its own, for its manifest.
#define ATTNLAB_GRAPH_ENCODINGS \
  "rwse@node?", "lap_vectors@node?", "lap_values@node?", "lap_valid@node?"

/// The graphs of each split, by their place in the table: train, validation, test.
using GraphSplits = std::array<std::vector<std::int64_t>, 3>;

/// What a plugin reads from its files.
struct GraphSet {
  /// Name, classes, source, fingerprint, and the fields of the table; the rest is filled in.
  DatasetInfo info;
  GraphTable table;
  GraphSplits splits;
};

/// Of n graphs: shares for validation and test, drawn at random; the rest trains. Each in order.
/// @throws OptionError for a share of `validation` or `test` that is not a graph.
GraphSplits random_splits(std::int64_t n, double validation, double test, Random random);

/// A dataset over a `GraphSet`. It adds to the fields, where options ask for them:
///   rwse@node [N, k], lap_vectors@node [N, k], lap_values@node [N, k] float32, and
///   lap_valid@node [N, k] bool: false beyond the last pair of a small graph, where the others are
///   0.
/// An example costs its nodes, and throughput counts nodes.
class GraphDataset : public Dataset {
 public:
  /// @throws DataError for no training graphs; what `add_encodings` throws.
  GraphDataset(GraphSet set, const EncodingOptions& encodings);

  const DatasetInfo& info() const override { return set_.info; }
  std::int64_t size(Split split) const override;
  std::int64_t cost(Split split, std::int64_t index) const override;

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

 private:
  std::int64_t place_of(Split split, std::int64_t index) const;

  GraphSet set_;
};

}  // namespace attnlab
