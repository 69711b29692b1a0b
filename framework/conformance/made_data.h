// Examples made up from the names of fields, for checks of models: what a model `takes` says how
// they look.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/contracts/dataset.h"

namespace attnlab::conformance {

/// A dataset and what it is called in messages.
struct NamedData {
  std::string name;  ///< "made-up examples of different lengths"
  std::shared_ptr<const Dataset> dataset;
};

/// The name of the field that an entry of `takes` or `gives` speaks of: "valid" of "valid?",
/// "class@node" of "class@node if head=node".
std::string field_of_entry(const std::string& entry);

/// Datasets with the fields that a model takes, and with those that usually stand beside them
/// (class, targets, length): one whose examples are equally long, and where sequences may differ in
/// length, one where they do.
///
///   image [3, 16, 16]; series [L, 4] with length and, where lengths differ, valid; calendar [L,
///   4]; future [3, 4]; tokens, condition, content [L] int64 with NAME_valid, targets [L] beside
///   tokens, some negative. Along any axis: x, e, feature, features, positions, points, rwse,
///   lap_vectors, lap_values [L, 4], lap_valid [L, 4] bool; type, edge_type, class, label, targets
///   [L] and atom, bond [L, 2] categories; grid [L, 3] places of voxels; NAME@axis>other [L, 2]
///   rows of the other axis, inverse@axis>other [L]
///
/// @throws ConfigError for a field that is none of these.
std::vector<NamedData> made_data_for(const std::vector<std::string>& takes);

}  // namespace attnlab::conformance
