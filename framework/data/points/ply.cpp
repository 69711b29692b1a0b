// PLY: see the header.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/foreign_text.h"
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
  text.fail(
      fmt::format("{} is not a type of PLY (char, uchar, short, ushort, int, uint, float, double, "
                  "or int8 to float64); correct it",
                  excerpt(word)));
}

std::string ply_format(std::string_view line, const WordReader& text) {
  const std::string_view format = take_word(line), version = take_word(line);
  constexpr std::string_view kFormats[] = {"ascii", "binary_little_endian", "binary_big_endian"};
  if (std::count(std::begin(kFormats), std::end(kFormats), format) == 0) {
    text.fail(
        fmt::format("the format {} is not one of ascii, binary_little_endian, binary_big_endian; "
                    "save the file as one of them",
                    excerpt(format)));
  }
  if (version != "1.0" && !version.empty()) {
    text.fail(fmt::format("version {} of PLY is not known (1.0 is)", excerpt(version)));
  }
  return std::string(format);
}

Element ply_element(std::string_view line, const WordReader& text) {
  Element element{std::string(take_word(line)), 0, {}};
  if (!read_whole(take_word(line), 1e12, element.count)) {
    text.fail("an element needs a name and how many there are; correct the header");
  }
  return element;
}

Property ply_property(std::string_view line, const WordReader& text) {
  Property property;
  std::string_view type = take_word(line);
  property.list = type == "list";
  if (property.list) {
    property.count = type_of(take_word(line), text);
    type = take_word(line);
  }
  property.type = type_of(type, text);
  property.name = take_word(line);
  if (property.name.empty()) text.fail("a property needs a name; correct the header");
  return property;
}

PlyHeader read_ply_header(WordReader& text) {
  if (text.line() != "ply") text.fail("does not begin with 'ply'; is it another format?");
  PlyHeader header;
  while (true) {
    if (text.at_end()) text.fail("the header does not end; the file is cut off");
    std::string_view line = text.line();
    const std::string_view word = take_word(line);
    if (word == "end_header") break;
    if (word == "format") {
      header.format = ply_format(line, text);
    } else if (word == "element") {
      header.elements.push_back(ply_element(line, text));
    } else if (word == "property") {
      if (header.elements.empty()) text.fail("a property stands before any element; move it below");
      header.elements.back().properties.push_back(ply_property(line, text));
    } else if (!word.empty() && word != "comment" && word != "obj_info") {
      text.fail(fmt::format(
          "{} cannot begin a line of a PLY header; correct it, or write 'comment' before it",
          excerpt(word)));
    }
  }
  if (header.format.empty()) text.fail("the header has no line 'format'; add it");
  return header;
}

/// Reads one scalar after the other, of text or bytes.
class Scalars {
 public:
  /// @param text  behind the header
  Scalars(const WordReader& text, const std::string& format, std::string path)
      : bytes_(text.rest()),
        path_(std::move(path)),
        lines_before_(text.line_number()),
        ascii_(format == "ascii"),
        big_(format == "binary_big_endian") {}

  double next(ScalarType type) {
    if (!ascii_) {
      if (left() < type.bytes) fail(kNoNumber);
      at_ += type.bytes;
      return scalar_at(bytes_.data() + at_ - type.bytes, type, big_);
    }
    const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (at_ < bytes_.size() && blank(bytes_[at_])) ++at_;
    const std::size_t begin = at_;
    while (at_ < bytes_.size() && !blank(bytes_[at_])) ++at_;
    double number = 0;
    if (!read_number(bytes_.substr(begin, at_ - begin), number)) fail(kNoNumber);
    return number;
  }
  /// Passes over a list: its length, and so many values.
  void pass_list(const Property& list) {
    const double size = next(list.count);
    const std::size_t each = ascii_ ? 1 : list.type.bytes;  // bytes at least
    if (!(size >= 0 && size <= static_cast<double>(left() / each)) || size != std::floor(size)) {
      fail(fmt::format("the list {} has {} values, it says, and {} bytes are left",
                       excerpt(list.name), size, left()));
    }
    const auto values = static_cast<std::size_t>(size);
    if (!ascii_) at_ += values * each;
    for (std::size_t i = 0; ascii_ && i < values; ++i) next(list.type);
  }
  /// Where rows of text have lists, each ends with its line: a wrong length would shift all others.
  void expect_end_of_row() const {
    const std::size_t next = bytes_.find_first_not_of(" \t\r", at_);
    if (!ascii_ || next >= bytes_.size() || bytes_[next] == '\n') return;
    fail("the line goes on after its last value, so a list is longer than it says");
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  static constexpr const char* kNoNumber = "there is no number where the header says so";

  [[noreturn]] void fail(std::string_view what) const {
    const auto line = lines_before_ + 1 +
                      static_cast<std::size_t>(std::count(
                          bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
    const std::string place = ascii_ ? fmt::format("{}:{}", path_, line)
                                     : fmt::format("{}: byte {} of the data", path_, at_);
    throw DataError(fmt::format("{}: {}; the file is cut off or damaged", place, what));
  }

  std::string_view bytes_;
  std::string path_;
  std::size_t at_ = 0, lines_before_;
  bool ascii_, big_;
};

void pass_element(const Element& element, Scalars& scalars) {
  if (element.properties.empty()) return;  // however many: nothing stands in the file
  for (std::int64_t i = 0; i < element.count; ++i) {
    for (const Property& property : element.properties) {
      if (property.list) {
        scalars.pass_list(property);
      } else {
        scalars.next(property.type);
      }
    }
  }
}

/// The scalars of an element. Lists among them are passed over.
PointTable read_element(const Element& element, Scalars& scalars, const std::string& path) {
  PointTable table;
  for (const Property& property : element.properties) {
    if (!property.list) table.names.push_back(property.name);
  }
  const auto columns = static_cast<std::int64_t>(table.names.size());
  const auto properties = static_cast<std::int64_t>(element.properties.size());
  if (columns == 0)
    throw DataError(path + ": its vertices have no numbers; save it with x, y and z");
  // Each number takes a byte at least: nothing is made room for that the file does not hold.
  if (element.count > static_cast<std::int64_t>(scalars.left()) / properties) {
    throw DataError(
        fmt::format("{}: the header speaks of {} vertices, which the file is too short "
                    "for; it is cut off or damaged",
                    path, element.count));
  }
  table.values = at::empty({element.count, columns}, at::kDouble);
  double* to = table.values.data_ptr<double>();
  const bool has_lists = columns < properties;
  for (std::int64_t i = 0; i < element.count; ++i) {
    for (const Property& property : element.properties) {
      if (property.list) {
        scalars.pass_list(property);
      } else {
        *to++ = scalars.next(property.type);
      }
    }
    if (has_lists) scalars.expect_end_of_row();
  }
  return table;
}

}  // namespace

PointTable parse_ply(std::string_view bytes, const std::string& path) {
  WordReader text(bytes, path);
  const PlyHeader header = read_ply_header(text);
  Scalars scalars(text, header.format, path);
  for (const Element& element : header.elements) {
    if (element.name == "vertex") return read_element(element, scalars, path);
    pass_element(element, scalars);
  }
  throw DataError(path + ": has no element 'vertex'; is it another kind of PLY?");
}

}  // namespace attnlab
