// PCD: see the header.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
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
  std::int64_t width = -1, height = -1, points = -1;  ///< -1: the header does not say
  std::string data;
};

constexpr double kMostPcdPoints = 1e12;
const std::vector<std::string> kPcdWords = {"VERSION", "FIELDS", "SIZE",      "TYPE",   "COUNT",
                                            "WIDTH",   "HEIGHT", "VIEWPOINT", "POINTS", "DATA"};

/// Of a letter in TYPE; PCL takes small ones for capitals.
char kind_of(std::string_view word, const Field& field, const WordReader& text) {
  const std::string letter = lower_case(word);
  if (letter == "f" || letter == "i" || letter == "u") return letter[0];
  text.fail(
      fmt::format("TYPE {} of the field {} is not one of F (floating point), I (signed), U "
                  "(unsigned); correct the letter",
                  excerpt(word), excerpt(field.name)));
}

/// Reads the header's lines one by one, in any order that has FIELDS before what speaks of them.
class PcdHeaderReader {
 public:
  explicit PcdHeaderReader(WordReader& text) : text_(text) {}

  PcdHeader read() {
    while (header_.data.empty()) {
      if (text_.at_end()) text_.fail("there is no line DATA; is it another format, or cut off?");
      std::string_view line = text_.line();
      key_ = take_word(line);
      if (key_.empty() || key_.front() == '#') continue;
      words_.clear();
      for (std::string_view word; !(word = take_word(line)).empty();) words_.push_back(word);
      take_line();
    }
    set_points();
    check_fields();
    return std::move(header_);
  }

 private:
  void take_line() {
    if (key_ == "COLUMNS") key_ = "FIELDS";  // in files of old
    if (std::find(kPcdWords.begin(), kPcdWords.end(), key_) == kPcdWords.end()) {
      text_.fail(fmt::format("{} cannot begin a line of a PCD header{}", excerpt(key_),
                             suggestion(key_.substr(0, 20), kPcdWords)));
    }
    if (!seen_.insert(key_).second) text_.fail(fmt::format("{} stands twice; remove one", key_));
    if (key_ == "FIELDS") {
      for (const std::string_view word : words_) header_.fields.push_back({std::string(word)});
    } else if (key_ == "SIZE") {
      each([&](Field& field, std::string_view word) {
        field.type.bytes = static_cast<std::size_t>(number(word));
      });
    } else if (key_ == "TYPE") {
      each([&](Field& f, std::string_view word) { f.type.kind = kind_of(word, f, text_); });
    } else if (key_ == "COUNT") {
      each([&](Field& field, std::string_view word) {
        field.count = number(word);
        if (field.count == 0) text_.fail("a COUNT is 1 at least; correct it");
      });
    } else if (key_ == "WIDTH") {
      header_.width = number(only_word());
    } else if (key_ == "HEIGHT") {
      header_.height = number(only_word());
    } else if (key_ == "POINTS") {
      header_.points = number(only_word());
    } else if (key_ == "DATA") {
      header_.data = lower_case(only_word());
      const std::string& data = header_.data;
      if (data != "ascii" && data != "binary" && data != "binary_compressed") {
        text_.fail(fmt::format(
            "DATA {} is not one of ascii, binary, binary_compressed; save the file as one of them",
            excerpt(data)));
      }
    }
  }

  template <class Use>
  void each(const Use& use) {
    if (header_.fields.empty()) {
      text_.fail(fmt::format("{} stands before FIELDS, of which it speaks; move it below", key_));
    }
    if (words_.size() != header_.fields.size()) {
      text_.fail(fmt::format("{} has {} entries, FIELDS has {}; correct the header", key_,
                             words_.size(), header_.fields.size()));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) use(header_.fields[i], words_[i]);
  }

  std::string_view only_word() const {
    if (words_.size() == 1) return words_[0];
    text_.fail(fmt::format("{} has {} entries, expected one", key_, words_.size()));
  }

  std::int64_t number(std::string_view word) const {
    std::int64_t value = 0;
    if (read_whole(word, kMostPcdPoints, value)) return value;
    text_.fail(
        fmt::format("{} of {} is not a whole number from 0 on; correct it", excerpt(word), key_));
  }

  /// WIDTH times HEIGHT may stand for POINTS, and HEIGHT is 1 where it is lacking or 0. A WIDTH and
  /// a HEIGHT of 0 say nothing, as in PCL.
  void set_points() {
    const double product = static_cast<double>(header_.width) *
                           static_cast<double>(std::max<std::int64_t>(header_.height, 1));
    if (header_.points < 0) {
      if (!(product >= 0 && product <= kMostPcdPoints)) {
        text_.fail("POINTS is lacking, or WIDTH in its place; add the line");
      }
      header_.points = static_cast<std::int64_t>(product);
    }
    const bool shaped = header_.width > 0 || (header_.width == 0 && header_.height > 0);
    if (!shaped || product == static_cast<double>(header_.points)) return;
    text_.fail(fmt::format("POINTS is {}, but WIDTH times HEIGHT {}; correct one of them",
                           header_.points, product));
  }

  void check_fields() const {
    constexpr std::int64_t kMostColumns = 4096;
    std::int64_t columns = 0;
    for (const Field& field : header_.fields) {
      const std::size_t bytes = field.type.bytes;
      const bool fits =
          bytes == 4 || bytes == 8 || (field.type.kind != 'f' && (bytes == 1 || bytes == 2));
      if (!fits) {
        text_.fail(fmt::format(
            "the field {} has a SIZE of {} bytes, which its TYPE cannot have; correct one of them",
            excerpt(field.name), bytes));
      }
      columns += std::min(field.count, kMostColumns + 1);
      if (columns > kMostColumns) {
        text_.fail(
            fmt::format("FIELDS and COUNT speak of more than {} numbers per point; is the header "
                        "damaged?",
                        kMostColumns));
      }
    }
    if (columns == 0) text_.fail("FIELDS is lacking, or names nothing");
  }

  WordReader& text_;
  PcdHeader header_;
  std::set<std::string_view> seen_;
  std::string_view key_;                 ///< of the line
  std::vector<std::string_view> words_;  ///< behind it
};

/// LZF, as PCL writes it: literals of up to 32 bytes, or copies of what came before.
std::string unpacked(std::string_view in, std::size_t size, const std::string& path) {
  std::string out;
  const auto damaged = [&] {
    return DataError(path + ": the compressed data are damaged; fetch the file again");
  };
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
      if (!read_number(word, values.emplace_back())) {
        text.fail(fmt::format("{} is not a number; repair the line", excerpt(word)));
      }
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
  const PcdHeader header = PcdHeaderReader(text).read();
  PointTable table;
  std::size_t row = 0;  // bytes of a point
  for (const Field& field : header.fields) {
    for (std::int64_t c = 0; c < field.count; ++c) {
      table.names.push_back(field.count == 1 ? field.name : fmt::format("{}_{}", field.name, c));
    }
    row += field.type.bytes * static_cast<std::size_t>(field.count);
  }
  if (header.data == "ascii") return read_ascii(text, header, std::move(table));
  std::string_view data = text.rest();
  const auto points = static_cast<std::size_t>(header.points);
  std::string whole;
  const bool packed = header.data == "binary_compressed";
  if (packed) {
    if (data.size() < 8) throw DataError(path + ": is cut off; fetch it again");
    const auto in = static_cast<std::size_t>(scalar_at(data.data(), {'u', 4}, false));
    const auto out = static_cast<std::size_t>(scalar_at(data.data() + 4, {'u', 4}, false));
    if (data.size() - 8 < in || out != points * row) {
      throw DataError(path + ": is cut off, or its header does not fit its data; fetch it again");
    }
    whole = unpacked(data.substr(8, in), out, path);
    data = whole;
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
