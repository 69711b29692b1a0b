// Several labels an example, some of them missing: outputs "logits" [B, T] beside the field
// "labels" [B, T], where NaN means "not known". Missing labels count neither in a loss nor in a
// metric.
#pragma once

#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

/// The field "labels" of a dataset. @throws DataError where it is not [T] floating point of each
/// example.
const FieldInfo& labels_of(const DatasetInfo& data);

/// Logits and labels of one shape, flat, where labels are known.
struct KnownLabels {
  Tensor logits, labels;  ///< [M], the labels in the logits' dtype
};

/// @throws ShapeError where logits [B, T] and labels differ in shape.
KnownLabels known_labels(const NamedTensors& outputs, const Batch& batch);

/// How many labels of a batch are known: what losses over them are means of.
double count_known_labels(const Batch& batch);

/// The labels of an evaluation, target by target.
class LabelColumns {
 public:
  /// One known label, and what the model said.
  struct Entry {
    double output, label;
  };

  /// @throws ShapeError as above.
  void add(const NamedTensors& outputs, const Batch& batch);
  /// By target, in the order of the examples. @throws Error when nothing was added.
  const std::vector<std::vector<Entry>>& targets() const;

 private:
  std::vector<std::vector<Entry>> targets_;
};

}  // namespace attnlab
