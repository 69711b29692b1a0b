// JSON of strangers.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/sharing/errors.h"

namespace attnlab::sharing {

/// Bytes that a manifest, a lock or another small file of a bundle may have.
inline constexpr std::size_t kLargestJson = std::size_t{4} << 20;

/// Parses a text that somebody else wrote, often before it is known who. Refused are texts that are
/// too large, or hold too many values: parsed, a value takes up to 30 times the memory of its text.
/// So is what is nested deeper than our formats are: copying and comparing it would take the stack.
/// @throws BundleError for those, nlohmann::json::exception for what is no JSON.
inline nlohmann::json parse_json(std::string_view text, std::size_t largest = kLargestJson) {
  constexpr int kDeepest = 32;
  constexpr std::size_t kMostEvents = 3'000'000;  // a list of 100,000 files has a third of them
  if (text.size() > largest) {
    throw BundleError(
        fmt::format("JSON of {} bytes, which may have {} here", text.size(), largest));
  }
  std::size_t events = 0;  // values, keys, begins and ends
  return nlohmann::json::parse(text, [&](int depth, auto, auto&) {
    if (depth > kDeepest) throw BundleError("JSON is nested more than 32 levels deep");
    if (++events > kMostEvents) throw BundleError("JSON holds more values than it may");
    return true;
  });
}

}  // namespace attnlab::sharing
