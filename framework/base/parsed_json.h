// JSON from files, which may be anybody's.
#pragma once

#include <string_view>

#include "framework/base/json.h"

namespace attnlab {

/// Parses a text. What is nested deeper than 100 levels is refused: our formats are not, and
/// copying, comparing or writing such a value would take the stack.
/// @throws nlohmann::json::exception for that, and for what is no JSON
inline nlohmann::json parsed_json(std::string_view text) {
  constexpr int kDeepest = 100;
  using json = nlohmann::json;
  return json::parse(text, [](int depth, json::parse_event_t, const json&) {
    if (depth <= kDeepest) return true;
    throw json::other_error::create(501, "nested more than 100 levels deep",
                                    static_cast<const json*>(nullptr));
  });
}

}  // namespace attnlab
