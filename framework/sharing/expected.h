// The numbers that a bundle's attention must give: cases below expected/, each with in.safetensors,
// out.safetensors and options.json, as `attnlab attention apply` takes and gives them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/sharing/bundle.h"

namespace attnlab::sharing {

/// "expected/plain", ...: the folders that hold a whole case; files beside them do not count.
/// @throws BundleError for one that lacks a file.
std::vector<std::string> expected_cases(const Bundle& bundle);

/// How far two files of tensors are apart.
struct Deviation {
  double largest = 0;   ///< absolute
  std::string problem;  ///< why they count as different; empty: they are the same
};

/// Compares the tensors of two safetensors files: names, types, shapes and values, these within
/// 1e-4 relative and 1e-5 absolute (float32), 1e-8 and 1e-10 (float64), 2e-2 (bfloat16).
/// @throws BundleError for a damaged file.
Deviation compare_tensors(std::string_view expected, std::string_view found);

/// Queries, keys and values [2, 2, 6, 8], float32, the same each time, as a safetensors file.
std::string made_up_tensors();

}  // namespace attnlab::sharing
