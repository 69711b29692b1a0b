#include "framework/config/origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "framework/base/error.h"

namespace attnlab {
namespace {

constexpr std::string_view kSetOrigin = "set of attention ";
constexpr std::string_view kMatchOrigin = "match of ";
constexpr std::string_view kTuneOrigin = "tune of attention ";
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

/// Keys and arguments may have line ends, and the file is read line by line.
std::string on_one_line(std::string text) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\n");
  }
  return text;
}

void write_origins(const Node& node, const std::string& path, std::string& out) {
  if (node.is_map() && !node.entries().empty()) {
    for (const auto& [key, value] : node.entries()) {
      write_origins(value, path.empty() ? key : fmt::format("{}.{}", path, key), out);
    }
    return;
  }
  const std::string where = on_one_line(node.place().str());
  out += fmt::format("{}: {} = {}\n", where.empty() ? "(built in)" : where, on_one_line(path),
                     to_flow(node));
  for (auto step = node.history().rbegin(); step != node.history().rend(); ++step) {
    out += fmt::format("{}{}: {}\n", kBefore, on_one_line(step->place.str()),
                       on_one_line(step->value));
  }
}

}  // namespace

std::string origins_text(const Node& node) {
  std::string out;
  write_origins(node, "", out);
  return out;
}

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

std::string match_origin(const std::string& held, const std::string& baseline) {
  return fmt::format("{}{} with {}", kMatchOrigin, held, baseline);
}

std::string tune_origin(const std::string& attention, const std::string& where) {
  return fmt::format("{}'{}' ({})", kTuneOrigin, attention, where);
}

bool is_of_attention(std::string_view place) {
  return place.starts_with(kSetOrigin) || place.starts_with(kMatchOrigin) ||
         place.starts_with(kTuneOrigin);
}

}  // namespace attnlab
