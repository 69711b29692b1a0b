// PCD: see the header.
#include <fmt/format.h>

#include <algorithm>

#include "framework/data/points/byte_reader.h"
#include "framework/data/points/point_files.h"

namespace attnlab {
namespace {

struct Field {
  std::string name;
  ScalarType type{};
  std::int64_t count = 1;
};

struct PcdHeader {
  std::vector<Field> fields;
  std::int64_t points = -1;
  std::string data;
};

PcdHeader read_pcd_header(WordReader& text) {
  PcdHeader header;
  const auto each = [&](std::string_view line, auto&& use) {
    for (Field& field : header.fields) {
      const std::string_view word = take_word(line);
      if (word.empty()) text.fail("has fewer entries than FIELDS");
      use(field, word);
    }
  };
  const auto number = [&](std::string_view word) {
    double value = 0;
    if (!read_number(word, value) || !(value >= 0 && value <= 1e12)) {
      text.fail(fmt::format("\'{}\' is not a number that can stand here", word));
    }
    return static_cast<std::int64_t>(value);
  };
  while (header.data.empty()) {
    if (text.at_end()) text.fail("there is no line DATA; is it another format, or cut off?");
    std::string_view line = text.line();
    const std::string_view word = take_word(line);
    if (word == "FIELDS") {
      for (std::string_view name; !(name = take_word(line)).empty();) {
        header.fields.push_back({std::string(name)});
      }
    } else if (word == "SIZE") {
      each(line, [&](Field& f, std::string_view w) { f.type.bytes = std::size_t(number(w)); });
    } else if (word == "TYPE") {
      each(line, [&](Field& f, std::string_view w) {
        f.type.kind = w == "F" ? 'f' : w == "I" ? 'i' : 'u';
      });
    } else if (word == "COUNT") {
      each(line, [&](Field& f, std::string_view w) { f.count = number(w); });
    } else if (word == "POINTS") {
      header.points = number(take_word(line));
    } else if (word == "DATA") {
      header.data = take_word(line);
    }
  }
  constexpr std::int64_t kMostColumns = 4096;
  std::int64_t columns = 0;
  for (const Field& field : header.fields) {
    const std::size_t bytes = field.type.bytes;
    const bool fits = field.type.kind == 'f' ? bytes == 4 || bytes == 8
                                             : bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (!fits) text.fail(fmt::format("the field '{}' has a size that no type has", field.name));
    columns += std::min(field.count, kMostColumns + 1);
    if (columns > kMostColumns) {
      text.fail(
          fmt::format("FIELDS and COUNT speak of more than {} numbers a point; is the header "
                      "damaged?",
                      kMostColumns));
    }
  }
  if (columns == 0 || header.points < 0) text.fail("FIELDS or POINTS is lacking");
  return header;
}

/// LZF, as PCL writes it: literals of up to 32 bytes, or copies of what came before.
std::string unpacked(std::string_view in, std::size_t size, const std::string& path) {
  std::string out;
  const auto damaged = [&] { return DataError(path + ": the compressed data are damaged"); };
  for (std::size_t at = 0; at < in.size();) {
    const auto byte = [&] {
      if (at >= in.size()) throw damaged();
      return static_cast<std::size_t>(static_cast<unsigned char>(in[at++]));
    };
    const std::size_t control = byte();
    if (control < 32) {
      if (in.size() - at < control + 1) throw damaged();
      out.append(in.substr(at, control + 1));
      at += control + 1;
    } else {
      std::size_t length = control >> 5;
      if (length == 7) length += byte();
      const std::size_t back = ((control & 31) << 8 | byte()) + 1;
      if (back > out.size()) throw damaged();
      for (std::size_t i = 0; i < length + 2; ++i) out.push_back(out[out.size() - back]);
    }
    if (out.size() > size) throw damaged();
  }
  if (out.size() != size) throw damaged();
  return out;
}

PointTable read_ascii(WordReader& text, const PcdHeader& header, PointTable table) {
  const auto columns = static_cast<std::int64_t>(table.names.size());
  std::vector<double> values;
  while (!text.at_end()) {
    std::string_view line = text.line();
    std::int64_t found = 0;
    for (std::string_view word; !(word = take_word(line)).empty(); ++found) {
      if (!read_number(word, values.emplace_back()))
        text.fail(fmt::format("\'{}\' is not a number", word));
    }
    if (found != 0 && found != columns) {
      text.fail(fmt::format("has {} numbers, FIELDS and COUNT speak of {}", found, columns));
    }
  }
  if (static_cast<std::int64_t>(values.size()) != header.points * columns) {
    text.fail(fmt::format("{} points are there, POINTS says {}",
                          static_cast<std::int64_t>(values.size()) / columns, header.points));
  }
  table.values = at::tensor(values, at::kDouble).view({header.points, columns});
  return table;
}

}  // namespace

PointTable parse_pcd(std::string_view bytes, const std::string& path) {
  WordReader text(bytes, path);
  const PcdHeader header = read_pcd_header(text);
  PointTable table;
  std::size_t row = 0;  // bytes of a point
  for (const Field& field : header.fields) {
    for (std::int64_t c = 0; c < field.count; ++c) {
      table.names.push_back(field.count == 1 ? field.name : fmt::format("{}_{}", field.name, c));
    }
    row += field.type.bytes * static_cast<std::size_t>(field.count);
  }
  if (header.data == "ascii") return read_ascii(text, header, std::move(table));
  std::string_view data = bytes.substr(std::min(text.position(), bytes.size()));
  const auto points = static_cast<std::size_t>(header.points);
  std::string whole;
  const bool packed = header.data == "binary_compressed";
  if (packed) {
    if (data.size() < 8) throw DataError(path + ": is cut off");
    const auto in = static_cast<std::size_t>(scalar_at(data.data(), {'u', 4}, false));
    const auto out = static_cast<std::size_t>(scalar_at(data.data() + 4, {'u', 4}, false));
    if (data.size() - 8 < in || out != points * row) {
      throw DataError(path + ": is cut off, or its header does not fit its data");
    }
    whole = unpacked(data.substr(8, in), out, path);
    data = whole;
  } else if (header.data != "binary") {
    throw DataError(
        fmt::format("{}: DATA {} is none of ascii, binary, binary_compressed", path, header.data));
  }
  if (data.size() / row < points) {
    throw DataError(fmt::format("{}: POINTS says {}, the file has room for {}; it is cut off", path,
                                points, data.size() / row));
  }
  const auto columns = static_cast<std::int64_t>(table.names.size());
  table.values = at::empty({header.points, columns}, at::kDouble);
  double* to = table.values.data_ptr<double>();
  std::size_t before = 0;  // bytes of a point before this field
  std::int64_t column = 0;
  for (const Field& field : header.fields) {
    const std::size_t width = field.type.bytes * static_cast<std::size_t>(field.count);
    for (std::size_t i = 0; i < points; ++i) {
      // Compressed data lie field by field, others point by point.
      const char* from = data.data() + (packed ? before * points + i * width : i * row + before);
      for (std::int64_t c = 0; c < field.count; ++c) {
        to[static_cast<std::int64_t>(i) * columns + column + c] =
            scalar_at(from + static_cast<std::size_t>(c) * field.type.bytes, field.type, false);
      }
    }
    before += width;
    column += field.count;
  }
  return table;
}

}  // namespace attnlab
