// A run's origins.txt: where each value of its configuration came from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// "file:line:column: key = value" for every value of a tree; below it its earlier values.
std::string origins_text(const Node& node);

/// What origins.txt says of one key.
struct RecordedOrigin {
  std::string key, value;
  std::string place;               ///< "file:line:column", "argument '...'" or "default of ..."
  std::vector<std::string> steps;  ///< "place: value", oldest first; the present one is the last
};

/// Reads what `origins_text` wrote. @throws DataError for anything else.
std::vector<RecordedOrigin> read_origins(const std::string& text);

/// The place of a value that the `set` of a suite's attention gave. @param where "file:line:column"
std::string set_origin(const std::string& attention, const std::string& where);
/// The place of a value that `match` gave: "match of parameters with standard".
std::string match_origin(const std::string& held, const std::string& baseline);
/// The place of a value that tries of a suite's `tune` chose. @param where "file:line:column"
std::string tune_origin(const std::string& attention, const std::string& where);
/// Whether a place is one of those three: readers of runs count the value as part of the attention.
/// @param place  may be a whole line of origins.txt
bool is_of_attention(std::string_view place);

}  // namespace attnlab
