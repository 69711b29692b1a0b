// Small pickles, as Python 2 and NumPy write them: for files of made-up datasets.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace attnlab::testing::pickles {

template <class Number>
std::string raw(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string integer(std::int64_t value) {
  return "J" + raw(static_cast<std::int32_t>(value));
}
inline std::string text(const std::string& value) {
  return "T" + raw(static_cast<std::int32_t>(value.size())) + value;
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string list(const std::vector<std::string>& items) {
  std::string out = "](";
  for (const std::string& item : items) out += item;
  return out + "e";
}
inline std::string map(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "}(";
  for (const auto& [key, value] : entries) out += key + value;
  return out + "u";
}

/// An array of NumPy. @param dtype  "i8", "i4", "f4"; must be Number's
template <class Number>
std::string array(const char* dtype, const std::vector<std::int64_t>& shape,
                  const std::vector<Number>& values) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(integer(size));
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(Number));
  const std::string type =
      "cnumpy\ndtype\n" + tuple({text(dtype), integer(0), integer(1)}) + "R" +
      tuple({integer(3), text("<"), "N", "N", "N", integer(-1), integer(-1), integer(0)}) + "b";
  return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + tuple({integer(0)}) +
         text("b") + "tR" + tuple({integer(1), tuple(sizes), type, "\x89", text(bytes)}) + "b";
}

/// A tensor of PyTorch, row after row, whose storage lies beside the pickle.
/// @param type  "Float", "Long"
inline std::string stored(const std::string& key, const std::string& type,
                          const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes, strides;
  std::int64_t count = 1;
  for (std::size_t d = shape.size(); d-- > 0; count *= shape[d]) {
    sizes.insert(sizes.begin(), integer(shape[d]));
    strides.insert(strides.begin(), integer(count));
  }
  const std::string storage = tuple(
      {text("storage"), "ctorch\n" + type + "Storage\n", text(key), text("cpu"), integer(count)});
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple({storage + "Q", integer(0), tuple(sizes), tuple(strides), "\x89",
                "ccollections\nOrderedDict\n)R"}) +
         "R";
}

/// A matrix of SciPy, rows compressed, of ones at the given columns.
inline std::string sparse(std::int64_t columns,
                          const std::vector<std::vector<std::int32_t>>& rows) {
  std::vector<std::int32_t> ends = {0}, places;
  for (const std::vector<std::int32_t>& row : rows) {
    places.insert(places.end(), row.begin(), row.end());
    ends.push_back(static_cast<std::int32_t>(places.size()));
  }
  const std::vector<float> ones(places.size(), 1);
  const auto count = static_cast<std::int64_t>(places.size());
  return "cscipy.sparse.csr\ncsr_matrix\n)\x81" +
         map({{text("_shape"), tuple({integer(std::int64_t(rows.size())), integer(columns)})},
              {text("indptr"), array("i4", {std::int64_t(ends.size())}, ends)},
              {text("indices"), array("i4", {count}, places)},
              {text("data"), array("f4", {count}, ones)}}) +
         "b";
}

/// A whole file of one value.
inline std::string file(const std::string& value) { return "\x80\x02" + value + "."; }

}  // namespace attnlab::testing::pickles
