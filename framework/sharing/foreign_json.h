// JSON of strangers.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/sharing/errors.h"

namespace attnlab::sharing {

/// Parses a text that somebody else wrote. What is nested deeper than our formats are is refused:
/// copying and comparing it would take the stack.
/// @throws BundleError for that, nlohmann::json::exception for what is no JSON.
inline nlohmann::json parse_json(std::string_view text) {
  constexpr int kDeepest = 32;
  return nlohmann::json::parse(text, [](int depth, auto, auto&) {
    if (depth > kDeepest) throw BundleError("JSON is nested more than 32 levels deep");
    return true;
  });
}

}  // namespace attnlab::sharing
