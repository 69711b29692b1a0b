// JSON of strangers.
#pragma once

#include <cstddef>
#include <string_view>

#include "framework/base/json.h"
#include "framework/sharing/errors.h"

namespace attnlab::sharing {

/// Bytes that a manifest, a lock or another small file of a bundle may have.
inline constexpr std::size_t kLargestJson = std::size_t{4} << 20;

/// Parses a text that somebody else wrote, often before it is known who. Refused are texts that are
/// too large, or hold too many values: parsed, a value takes up to 30 times the memory of its text.
/// So is what is nested deeper than our formats are: copying and comparing it would take the stack.
/// @throws BundleError for those, nlohmann::json::exception for what is not JSON.
nlohmann::json parse_json(std::string_view text, std::size_t largest = kLargestJson);

}  // namespace attnlab::sharing
