// A run's origins.txt: where each value of its configuration came from.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

/// What origins.txt says of one key.
struct RecordedOrigin {
  std::string key, value;
  std::string place;               ///< "file:line:column", "argument '...'" or "default of ..."
  std::vector<std::string> steps;  ///< "place: value", oldest first; the present one is the last
};

/// Reads what `origins_text` wrote. @throws DataError for anything else.
std::vector<RecordedOrigin> read_origins(const std::string& text);

/// The place of a value that the `set` of a suite's attention gave, which readers of runs count as
/// part of the attention. @param where  "file:line:column"
std::string set_origin(const std::string& attention, const std::string& where);
/// Whether an origin's place is such a one.
bool is_set_origin(const std::string& place);

}  // namespace attnlab
