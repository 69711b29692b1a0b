// PLY: see the header.
#include <fmt/format.h>

#include <algorithm>

#include "framework/data/points/byte_reader.h"
#include "framework/data/points/point_files.h"

namespace attnlab {
namespace {

struct Property {
  std::string name;
  ScalarType type;
  bool list = false;
  ScalarType count{};  ///< of a list
};

struct Element {
  std::string name;
  std::int64_t count = 0;
  std::vector<Property> properties;
};

struct PlyHeader {
  std::string format;
  std::vector<Element> elements;
};

ScalarType type_of(std::string_view word, const WordReader& text) {
  constexpr std::pair<std::string_view, ScalarType> kTypes[] = {
      {"char", {'i', 1}},  {"int8", {'i', 1}},    {"uchar", {'u', 1}},  {"uint8", {'u', 1}},
      {"short", {'i', 2}}, {"int16", {'i', 2}},   {"ushort", {'u', 2}}, {"uint16", {'u', 2}},
      {"int", {'i', 4}},   {"int32", {'i', 4}},   {"uint", {'u', 4}},   {"uint32", {'u', 4}},
      {"float", {'f', 4}}, {"float32", {'f', 4}}, {"double", {'f', 8}}, {"float64", {'f', 8}}};
  for (const auto& [name, type] : kTypes) {
    if (name == word) return type;
  }
  text.fail(fmt::format("\'{}\' is no type of PLY", word));
}

PlyHeader read_ply_header(WordReader& text) {
  if (text.line() != "ply") text.fail("does not begin with 'ply'; is it another format?");
  PlyHeader header;
  while (true) {
    if (text.at_end()) text.fail("the header does not end; the file is cut off");
    std::string_view line = text.line();
    const std::string_view word = take_word(line);
    if (word == "end_header") return header;
    if (word == "format") {
      header.format = take_word(line);
    } else if (word == "element") {
      Element element{std::string(take_word(line)), 0, {}};
      double count = -1;
      if (!read_number(take_word(line), count) || !(count >= 0 && count <= 1e12)) {
        text.fail("an element needs a name and how many there are");
      }
      element.count = static_cast<std::int64_t>(count);
      header.elements.push_back(element);
    } else if (word == "property") {
      if (header.elements.empty()) text.fail("a property before any element");
      Property property;
      std::string_view type = take_word(line);
      property.list = type == "list";
      if (property.list) {
        property.count = type_of(take_word(line), text);
        type = take_word(line);
      }
      property.type = type_of(type, text);
      property.name = take_word(line);
      header.elements.back().properties.push_back(property);
    }
  }
}

/// Reads one scalar after the other, of text or bytes.
class Scalars {
 public:
  Scalars(std::string_view bytes, const std::string& format, std::string path)
      : bytes_(bytes),
        path_(std::move(path)),
        ascii_(format == "ascii"),
        big_(format == "binary_big_endian") {
    if (!ascii_ && !big_ && format != "binary_little_endian") {
      throw DataError(fmt::format(
          "{}: the format '{}' is none of ascii, binary_little_endian, binary_big_endian", path_,
          format));
    }
  }

  double next(ScalarType type) {
    if (!ascii_) {
      if (bytes_.size() - at_ < type.bytes) fail();
      at_ += type.bytes;
      return scalar_at(bytes_.data() + at_ - type.bytes, type, big_);
    }
    const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (at_ < bytes_.size() && blank(bytes_[at_])) ++at_;
    const std::size_t begin = at_;
    while (at_ < bytes_.size() && !blank(bytes_[at_])) ++at_;
    double number = 0;
    if (!read_number(bytes_.substr(begin, at_ - begin), number)) fail();
    return number;
  }
  /// How many values a list has; each takes a byte at least.
  std::int64_t list_size(ScalarType type) {
    const double size = next(type);
    if (!(size >= 0 && size <= static_cast<double>(left()))) fail();
    return static_cast<std::int64_t>(size);
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  [[noreturn]] void fail() const {
    throw DataError(
        fmt::format("{}: at byte {} of the data there is no number where the header "
                    "says so; the file is cut off or damaged",
                    path_, at_));
  }

  std::string_view bytes_;
  std::string path_;
  std::size_t at_ = 0;
  bool ascii_, big_;
};

void skip(const Element& element, Scalars& scalars) {
  if (element.properties.empty()) return;  // however many: nothing stands in the file
  for (std::int64_t i = 0; i < element.count; ++i) {
    for (const Property& property : element.properties) {
      const std::int64_t values = property.list ? scalars.list_size(property.count) : 1;
      for (std::int64_t v = 0; v < values; ++v) scalars.next(property.type);
    }
  }
}

}  // namespace

PointTable parse_ply(std::string_view bytes, const std::string& path) {
  WordReader text(bytes, path);
  const PlyHeader header = read_ply_header(text);
  Scalars scalars(bytes.substr(std::min(text.position(), bytes.size())), header.format, path);
  for (const Element& element : header.elements) {
    if (element.name != "vertex") {
      skip(element, scalars);
      continue;
    }
    PointTable table;
    for (const Property& property : element.properties) {
      if (property.list)
        throw DataError(
            fmt::format("{}: the list '{}' of a vertex is not read", path, property.name));
      table.names.push_back(property.name);
    }
    const auto columns = static_cast<std::int64_t>(table.names.size());
    // Each number takes a byte at least: nothing is made room for that the file does not hold.
    if (columns == 0 || element.count > static_cast<std::int64_t>(scalars.left()) / columns) {
      throw DataError(
          fmt::format("{}: the header speaks of {} vertices, which the file is too short "
                      "for; it is cut off or damaged",
                      path, element.count));
    }
    table.values = at::empty({element.count, columns}, at::kDouble);
    double* to = table.values.data_ptr<double>();
    for (std::int64_t i = 0; i < element.count; ++i) {
      for (const Property& property : element.properties) *to++ = scalars.next(property.type);
    }
    return table;
  }
  throw DataError(path + ": has no element 'vertex'");
}

}  // namespace attnlab
