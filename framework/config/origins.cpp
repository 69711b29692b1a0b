#include "framework/config/origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "framework/base/error.h"

namespace attnlab {
namespace {

constexpr std::string_view kSetOrigin = "set of attention ";
constexpr std::string_view kBefore = "    before, ";

/// "place: key = value". A place may hold ": " and " = " too (an argument); a key holds neither.
RecordedOrigin parse_line(const std::string& line) {
  std::size_t from = 0;
  if (line.rfind("argument '", 0) == 0) from = line.find("': ");  // may hold what separates
  const std::size_t colon = from == std::string::npos ? from : line.find(": ", from);
  const std::size_t equals = colon == std::string::npos ? colon : line.find(" = ", colon);
  if (equals == std::string::npos) {
    throw DataError(fmt::format("origins.txt: expected 'place: key = value', found '{}'", line));
  }
  RecordedOrigin origin;
  origin.place = line.substr(0, colon);
  origin.key = line.substr(colon + 2, equals - colon - 2);
  origin.value = line.substr(equals + 3);
  origin.steps = {fmt::format("{}: {}", origin.place, origin.value)};
  return origin;
}

}  // namespace

std::vector<RecordedOrigin> read_origins(const std::string& text) {
  std::vector<RecordedOrigin> origins;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(kBefore, 0) != 0) {
      origins.push_back(parse_line(line));
    } else if (origins.empty()) {
      throw DataError("origins.txt: begins with an earlier value");
    } else {
      origins.back().steps.push_back(line.substr(kBefore.size()));
    }
  }
  for (RecordedOrigin& origin : origins) std::reverse(origin.steps.begin(), origin.steps.end());
  return origins;
}

std::string set_origin(const std::string& attention, const std::string& where) {
  return fmt::format("{}'{}' ({})", kSetOrigin, attention, where);
}

bool is_set_origin(const std::string& place) { return place.rfind(kSetOrigin, 0) == 0; }

}  // namespace attnlab
