// Numbers in JSON, which knows neither infinity nor "not a number".
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace attnlab {

/// The number; null where it is not finite.
inline nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace attnlab
