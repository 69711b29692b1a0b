#include "framework/data/formats/encoding.h"

#include "framework/base/byte_order_mark.h"

namespace attnlab {

std::string_view without_mark(std::string_view text, const std::string& path) {
  const std::string wrong = wrong_encoding(text);
  if (!wrong.empty()) throw DataError(path + ": " + wrong);
  return without_mark(text);
}

}  // namespace attnlab
