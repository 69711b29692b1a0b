// The dataset contract: a dataset describes itself and gives examples by index.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

enum class Split { train, validation, test };

/// "train", "validation" or "test".
std::string_view name_of(Split split);

/// Shape and dtype of one field of one example; -1 marks a length that differs between examples.
struct FieldInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  /// What the values 0, 1, ... of an int64 field stand for, as words of names of metrics; or empty.
  std::vector<std::string> values{};
};

/// What a dataset says of itself once it is opened. (Modality, licence and citation stand in its
/// plugin's manifest, where they can be read without opening it.)
struct DatasetInfo {
  std::string name;
  std::vector<FieldInfo> fields;
  std::int64_t classes = 0;  ///< 0: no classes
  std::vector<std::string> class_names;
  std::int64_t vocabulary = 0;  ///< int64 token fields hold 0 to vocabulary - 1; 0: no tokens
  std::string source;           ///< the folder or rule that it was read from
  std::string fingerprint;      ///< changes when the data change

  /// @throws DataError naming the fields that exist.
  const FieldInfo& field(std::string_view name) const;
};

/// One example or one batch: fields by name. Batches stack examples along a new first dimension.
/// Standard names: image [C, H, W] float32; class [] int64; series [L, C]; tokens [L] int64;
/// points [N, C]; length [] int64 (of a padded sequence).
struct Batch {
  NamedTensors fields;
  std::int64_t size = 0;  ///< examples in it
};

/// Examples [begin, begin + size) of a batch, as views. Not of ragged batches.
Batch slice(const Batch& batch, std::int64_t begin, std::int64_t size);
/// Batches one after the other. @throws ShapeError where a field is lacking, or of another shape.
Batch joined(const std::vector<Batch>& batches);

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetInfo& info() const = 0;
  /// Number of examples; 0 for a split that the dataset lacks.
  virtual std::int64_t size(Split split) const = 0;
  /// One example, on the CPU. Thread-safe.
  /// @param index         0 <= index < size(split); out of range throws DataError.
  /// @param augmentation  the example's own stream; a function of (seed, epoch, index), so the
  ///                      result does not depend on threads. Null: do not augment (evaluation).
  virtual NamedTensors example(Split split, std::int64_t index, Random* augmentation) const = 0;
  /// Stacks examples into a batch. Override for ragged data. Thread-safe.
  virtual Batch collate(const std::vector<NamedTensors>& examples) const;
  /// A whole split as one batch, example i its row i, where that is in memory and the same in every
  /// epoch: loaders then take rows of it instead of asking for examples. By default null.
  /// Thread-safe; it lives as long as the dataset.
  virtual const Batch* resident(Split) const { return nullptr; }
};

/// What the host gives a dataset when it opens it.
struct DatasetSetup {
  RandomStreams streams{0};  ///< for splits and synthetic data
};

}  // namespace attnlab
