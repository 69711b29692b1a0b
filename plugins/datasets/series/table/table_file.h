// One table of numbers with a label for each case, from a file of values between commas or tabs, or
// of arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Which columns, or arrays, are what.
struct TableColumns {
  std::string label;
  std::string group;                ///< of text: rows of one value are a series; empty: none
  std::string time;                 ///< of text: orders the rows of a series; empty: as they stand
  std::vector<std::string> values;  ///< empty: all others
};

/// Cases, one behind the other.
struct TableCases {
  Tensor values;                      ///< [rows, columns] float32, finite; NaN where it is missing
  std::vector<std::int64_t> offsets;  ///< rows of each case; one more than there are cases
  std::vector<std::string> labels;    ///< of each case
  std::vector<std::string> names;     ///< of the columns of values, or of the array
  bool vectors = false;               ///< a case is one row, and its columns are the steps
  std::uint64_t hash = 0;             ///< of the file's bytes

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

/// Reads `.csv`, `.tsv` (gzipped, too: `.csv.gz`), `.npz` or `.safetensors`.
///
/// Of text the first row names the columns. Of arrays `label` names one of whole numbers [N], and
/// the values are the one other array, [N, F] vectors or [N, L, C] series, or the one that
/// `values` names.
/// @throws DataError naming file, line and column; OptionError for an option that does not fit.
TableCases read_table(const std::string& path, const TableColumns& columns);

}  // namespace attnlab
