#include "framework/base/base64.h"

#include <algorithm>
#include <cstdint>

#include "framework/base/error.h"

namespace attnlab {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_text(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8U | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63U];
    }
  }
  return text;
}

std::string base64_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find('='), text.size()), padding = text.size() - digits;
  if (text.size() % 4 != 0 || padding > 2 ||
      text.find_first_not_of('=', digits) != std::string_view::npos) {
    throw DataError("this text is not base64: its length or its end is wrong");
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text.substr(0, digits)) {
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos) {
      throw DataError("this text is not base64: it holds other characters");
    }
    held = held << 6U | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 255U);
  }
  return bytes;
}

}  // namespace attnlab
