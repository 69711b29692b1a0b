// Examples and batches: fields by name, some of them laid end to end along an axis.
//
// A field's name says how the examples of a batch lie in it:
//   image            stacked: [B, C, H, W], one row an example
//   type@node        end to end: [N, ...], the rows of axis `node`, one example's after the other's
//   edges@edge>node  end to end along `edge`; its int64 values are rows of axis `node`, counted
//                    within the example in an example, within the batch in a batch; -1 stays -1
// `Batch::offsets` says where each example begins on each axis. A dataset's `gives`, a model's and
// a task's `takes` are the same names, so a model of `class@node` does not pass for one of `class`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// The parts of a field's name, as views of it: "edges@edge>node" is {"edges", "edge", "node"}.
struct FieldName {
  std::string_view base;
  std::string_view axis;    ///< empty: one row an example
  std::string_view target;  ///< the axis whose rows the values are; empty: plain values
};

/// @throws DataError for a name with an empty part, or with '>' and no axis.
FieldName parse_field_name(std::string_view name);

/// Shape and dtype of one field of one example.
struct FieldInfo {
  std::string name;
  /// Of one example, rows included for a field with an axis; -1 marks what differs between
  /// examples.
  std::vector<std::int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  /// What the values 0, 1, ... of an int64 field stand for, as words of names of metrics; or empty.
  std::vector<std::string> values{};
  /// An int64 field holds 0 to categories - 1, or something negative for "no label"; 0: no
  /// categories.
  std::int64_t categories = 0;
  /// Of a normalised field, for each channel: raw = value * deviation + mean, raw in [0, 1]. Empty:
  /// values are raw.
  std::vector<double> mean{}, deviation{};
};

/// One batch. Standard names of fields: image [B, C, H, W] float32; class [B] int64;
/// series [B, L, C]; tokens [B, L] int64; length [B] int64 (of a padded sequence).
struct Batch {
  NamedTensors fields;
  std::int64_t size = 0;  ///< examples in it
  /// By axis: [size + 1] int64 from 0 to the axis's rows, rising; on the CPU wherever the fields
  /// are.
  NamedTensors offsets{};
  /// Row i goes on where row i of the batch before ended (streams of text): what a model carries
  /// from batch to batch is still of use.
  bool continues = false;
};

/// Rows of an axis. @throws ShapeError naming the axes that exist.
std::int64_t rows_of(const Batch& batch, std::string_view axis);

/// Examples [begin, begin + size) of a batch: views of its fields, those of axes too; fields that
/// hold rows of an axis ("edges@edge>node") are copied and count from the part's first row.
Batch slice(const Batch& batch, std::int64_t begin, std::int64_t size);
/// Batches one after the other. @throws ShapeError where a field is lacking, or of another shape.
Batch joined(const std::vector<Batch>& batches);
/// The batch with its fields on a device (the same tensors where they are there already).
Batch to_device(const Batch& batch, const at::Device& device);

/// Examples as a batch. A field without an axis is stacked; where its shapes differ, and the
/// dataset's `fields` say -1 there, it is padded with zeros at the end, and if `fields` names
/// "NAME_valid", that is made: [B, the padded dimensions] bool, true = real. A field with an axis
/// is laid end to end.
/// @param fields  the dataset's, for what may differ
/// @throws DataError naming field and example where one does not fit.
Batch collated(const std::vector<NamedTensors>& examples, const std::vector<FieldInfo>& fields);

}  // namespace attnlab
