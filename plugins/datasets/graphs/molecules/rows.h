// What the rows of a table of molecules are to be, and which of them train.
#pragma once

#include <string>
#include <vector>

#include "framework/data/formats/csv.h"
#include "framework/data/graph/graph_dataset.h"

namespace attnlab {

/// The values of columns, [rows, T] float64; NaN where a cell is empty. A cell may be a list,
/// "[0, 1, 1]", which counts as that many columns.
/// @throws DataError with file and line for what is not a number or beyond float32's range, and for
///         lists of different lengths.
Tensor targets_of(const CsvTable& table, const std::vector<std::string>& columns);

/// One column as classes 0, 1, ..., [rows] int64.
/// @throws DataError with file and line for anything else.
Tensor classes_of(const CsvTable& table, const Tensor& targets);

/// @throws DataError with file and line for anything but 0, 1 and what is missing.
void check_labels(const CsvTable& table, const Tensor& targets);

/// A published split: a pickle of a map with `train`, `val` and `test`, each an array or a list of
/// rows counted from 0.
/// @throws DataError for a row that is not there, or that stands in two of them.
GraphSplits pickled_splits(const std::string& path, std::int64_t rows);

/// DeepChem's rule, which OGB follows: rows of one scaffold stay together; scaffolds come from the
/// most frequent to the rarest, of equally frequent ones that with the last first row first; each
/// goes to train where it still fits, else to validation, else to test.
/// @param scaffolds  one per row
GraphSplits scaffold_splits(const std::vector<std::string>& scaffolds, double validation,
                            double test);

}  // namespace attnlab
