#include "framework/sharing/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <vector>

#include "framework/base/foreign_text.h"

namespace attnlab::sharing {
namespace {

constexpr std::size_t kLongest = 64;
constexpr std::string_view kDigits = "0123456789";

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The version's numbers, and what stands behind "-".
struct Version {
  std::vector<std::int64_t> numbers;
  std::string rest;
};

/// @returns false when the text is none.
bool parse(const std::string& text, Version& out) {
  if (text.empty() || text.size() > kLongest) return false;
  const std::size_t dash = text.find('-');
  std::string_view numbers = std::string_view(text).substr(0, dash);
  if (dash != std::string::npos) {
    out.rest = text.substr(dash + 1);
    const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || c == '.'; };
    if (out.rest.empty() || !std::all_of(out.rest.begin(), out.rest.end(), allowed)) return false;
  }
  while (true) {
    std::int64_t number = 0;
    const auto read = std::from_chars(numbers.data(), numbers.data() + numbers.size(), number);
    if (read.ec != std::errc() || !is_digit(numbers.front())) return false;
    out.numbers.push_back(number);
    numbers.remove_prefix(static_cast<std::size_t>(read.ptr - numbers.data()));
    if (numbers.empty()) return true;
    if (numbers.front() != '.' || numbers.size() == 1) return false;
    numbers.remove_prefix(1);
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string formatted(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void check_name(const std::string& name, const std::string& what) {
  const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= kLongest && is_letter(name[0]) &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return;
  }
  throw BundleError(fmt::format(
      "{} '{}': expected 1 to {} of a-z, 0-9, _ and -, a letter first; other letters may look like "
      "these and are refused",
      what, one_line(name, 100), kLongest));
}

Id parse_id(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    throw BundleError(fmt::format("'{}': expected LAB/NAME", one_line(text, 100)));
  }
  Id id{text.substr(0, slash), text.substr(slash + 1)};
  check_name(id.lab, "the lab");
  check_name(id.name, "the name");
  return id;
}

std::string look_of(std::string_view name) {
  std::string look(name);
  std::erase_if(look, [](char c) { return c == '-' || c == '_'; });
  for (char& c : look) {
    if (c == '0') c = 'o';
    if (c == '1' || c == 'i' || c == 'j') c = 'l';
    if (c == '5') c = 's';
    if (c == '8') c = 'b';
    if (c == 'q' || c == '9') c = 'g';
    if (c == '2') c = 'z';
  }
  replace_all(look, "rn", "m");
  replace_all(look, "vv", "w");
  replace_all(look, "cl", "d");
  return look;
}

bool is_reserved_lab(const std::string& lab) {
  return look_of(lab) == look_of("attnlab") || look_of(lab) == look_of("python");
}

void check_version(const std::string& version) {
  Version parsed;
  if (parse(version, parsed)) return;
  throw BundleError(
      fmt::format("version '{}': expected numbers separated by dots, such as 1.2.0 or 1.3.0-beta1",
                  one_line(version, 100)));
}

int compare_versions(const std::string& first, const std::string& second) {
  Version a, b;
  if (!parse(first, a) || !parse(second, b)) return first.compare(second);
  const std::size_t most = std::max(a.numbers.size(), b.numbers.size());
  a.numbers.resize(most);
  b.numbers.resize(most);
  if (a.numbers != b.numbers) return a.numbers < b.numbers ? -1 : 1;
  if (a.rest == b.rest) return 0;
  if (a.rest.empty() || b.rest.empty()) return a.rest.empty() ? 1 : -1;
  return a.rest < b.rest ? -1 : 1;
}

std::string date_in(int days) {
  constexpr std::time_t kDay = 24 * 60 * 60;
  return formatted(std::time(nullptr) + days * kDay, "%Y-%m-%d");
}

std::string time_text() { return formatted(std::time(nullptr), "%Y-%m-%dT%H:%M:%SZ"); }

void check_date(const std::string& date, const std::string& what) {
  std::tm parts{};
  const char* const end = ::strptime(date.c_str(), "%Y-%m-%d", &parts);
  if (date.size() == 10 && end == date.c_str() + date.size() &&
      formatted(::timegm(&parts), "%Y-%m-%d") == date) {
    return;
  }
  throw ConfigError(
      fmt::format("{}: expected a date such as 2027-12-31, found '{}'", what, one_line(date, 100)));
}

}  // namespace attnlab::sharing
