// What an evaluation has fitted, beside its result: a probe, to be taken where the entry is asked
// again.
//
//   RUN/evaluations/ENTRY-HASH.fitted.safetensors   the task's tensors by its own names
//
// The hash is the result's: of weights, data, settings and plugin files. Without the file the probe
// is fitted anew.
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// "evaluations/knn-0123456789abcdef.fitted.safetensors". @throws as `evaluation_file`.
std::string fitted_file(const std::string& entry, const std::string& hash);

/// @param hash  of the result that it belongs to
/// @returns nothing where there is no file.
/// @throws DataError for a damaged file, or that of another result, saying what to do; FileError.
NamedTensors read_fitted(const std::string& path, const std::string& hash);

/// Whole or not at all. @throws FileError.
void write_fitted(const std::string& path, const std::string& hash, const NamedTensors& fitted);

}  // namespace attnlab
