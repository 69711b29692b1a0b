// LAS: see the header of point_files.h. Fields by their place in the specification's tables.
#include <fmt/format.h>

#include <cmath>

#include "framework/data/points/byte_reader.h"
#include "framework/data/points/point_files.h"

namespace attnlab {

PointTable parse_las(std::string_view bytes, const std::string& path) {
  const auto number = [&](std::size_t at, ScalarType type) {
    return scalar_at(bytes.data() + at, type, false);
  };
  if (bytes.size() < 227 || bytes.substr(0, 4) != "LASF") {
    throw DataError(path + ": does not begin as LAS does, or is cut off");
  }
  const double major = number(24, {'u', 1}), minor = number(25, {'u', 1});
  if (major != 1 || minor > 4) {
    throw DataError(
        fmt::format("{}: version {}.{} of LAS is not known (1.0 to 1.4 are)", path, major, minor));
  }
  const auto first = static_cast<std::size_t>(number(96, {'u', 4}));
  const auto format = static_cast<int>(number(104, {'u', 1}));
  const auto row = static_cast<std::size_t>(number(105, {'u', 2}));
  double count = number(107, {'u', 4});
  if (minor == 4 && bytes.size() >= 255) count = number(247, {'u', 8});
  if (format >= 128) {
    throw DataError(path + ": is compressed (LAZ); decompress it: laszip -i FILE.laz -o FILE.las");
  }
  constexpr std::size_t kLeast[] = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};
  if (format > 10 || row < kLeast[format]) {
    throw DataError(fmt::format("{}: point format {} of {} bytes is not known (0 to 10 are)", path,
                                format, row));
  }
  if (first < 227 || first > bytes.size() ||
      count > static_cast<double>((bytes.size() - first) / row)) {
    throw DataError(
        fmt::format("{}: the header speaks of {} points from byte {} on, the file is too short for "
                    "them; it is cut off, or damaged",
                    path, count, first));
  }
  constexpr int kColour[] = {-1, -1, 20, 28, -1, 28, -1, 30, 30, -1, 30};
  const int colour = kColour[format];
  PointTable table{{"x", "y", "z", "intensity", "classification"}, Tensor()};
  if (colour >= 0) table.names.insert(table.names.end(), {"red", "green", "blue"});
  const auto points = static_cast<std::int64_t>(count);
  table.values = at::empty({points, static_cast<std::int64_t>(table.names.size())}, at::kDouble);
  double* to = table.values.data_ptr<double>();
  for (std::int64_t i = 0; i < points; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i) * row;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      *to++ = number(at + 4 * axis, {'i', 4}) * number(131 + 8 * axis, {'f', 8}) +
              number(155 + 8 * axis, {'f', 8});
    }
    *to++ = number(at + 12, {'u', 2});
    const double kind = number(at + (format < 6 ? 15 : 16), {'u', 1});
    *to++ = format < 6 ? std::fmod(kind, 32) : kind;  // five bits, below flags, in old formats
    for (std::size_t c = 0; colour >= 0 && c < 3; ++c) {
      *to++ = number(at + static_cast<std::size_t>(colour) + 2 * c, {'u', 2});
    }
  }
  return table;
}

}  // namespace attnlab
