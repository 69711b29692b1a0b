// JSON as attnlab writes it.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace attnlab {

/// The number; null where it is not finite, which JSON does not know.
inline nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

/// A file's text. (A path in a value need not be UTF-8; it must not keep the rest from being
/// written.)
template <class Json>
std::string json_text(const Json& value, int indent = 2) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// A string without quotation marks, anything else as JSON.
inline std::string plain_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace attnlab
