// JSON as attnlab writes it, and whole numbers as it reads them. Everything includes nlohmann's
// library from here, so that there is one meaning of a whole number (scripts/check_includes.sh).
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

namespace attnlab::detail {

/// Whole numbers; texts of one character and truth values are none.
template <class T>
inline constexpr bool kIsWhole =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

}  // namespace attnlab::detail

/// How the library reads and writes whole numbers. Its own way takes 2 for 2.5 and -1 for 2^64 - 1,
/// and is undefined for 1e30. Here that is refused, as a text in a number's place is; 2.0 is 2.
template <class T>
struct nlohmann::adl_serializer<T, std::enable_if_t<attnlab::detail::kIsWhole<T>>> {
  /// @throws nlohmann::json::type_error where the value is not a whole number, or does not fit
  template <class Json>
  static void from_json(const Json& value, T& number) {
    const auto take = [&number](auto given) {
      const bool fits = std::in_range<T>(given);
      if (fits) number = static_cast<T>(given);
      return fits;
    };
    if (value.is_number_unsigned()) {
      if (take(*value.template get_ptr<const typename Json::number_unsigned_t*>())) return;
    } else if (value.is_number_integer()) {
      if (take(*value.template get_ptr<const typename Json::number_integer_t*>())) return;
    } else if (value.is_number_float()) {
      const double given = *value.template get_ptr<const typename Json::number_float_t*>();
      constexpr double kLimit = 9223372036854775808.0;  // 2^63
      if (std::trunc(given) == given && given >= -kLimit && given < kLimit &&
          take(static_cast<std::int64_t>(given))) {
        return;
      }
    } else {
      throw Json::type_error::create(
          302, std::string("type must be number, but is ") + value.type_name(), &value);
    }
    throw Json::type_error::create(302,
                                   "must be a whole number of " + std::to_string(8 * sizeof(T)) +
                                       " bits, but is " + value.dump(),
                                   &value);
  }

  template <class Json>
  static void to_json(Json& value, T number) {
    ::nlohmann::to_json(value, number);
  }
};

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
