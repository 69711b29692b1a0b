#include "framework/data/formats/npy.h"

#include <fmt/format.h>

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/detail/zip.h"

namespace attnlab {
namespace {

/// What stands behind "'key':" in the header.
std::string_view entry(std::string_view header, std::string_view key, const std::string& path) {
  const std::size_t at = header.find(fmt::format("\'{}\'", key));
  if (at == std::string_view::npos) {
    throw DataError(fmt::format("{}: the header has no '{}'; the file is damaged", path, key));
  }
  const std::size_t colon = header.find(':', at);
  return header.substr(std::min(colon + 1, header.size()));
}

/// "(2, 3)", "(2,)", "()"; Python 2 wrote "(2L, 3L)".
std::vector<std::int64_t> shape_of(std::string_view text, const std::string& path) {
  const std::size_t open = text.find_first_not_of(' '), close = text.find(')');
  std::vector<std::int64_t> shape;
  bool readable = open != text.npos && text[open] == '(' && close != text.npos;
  for (std::size_t at = open + 1; readable && at < close;) {
    const std::size_t end = std::min(text.find(',', at), close);
    std::string_view number = trimmed(text.substr(at, end - at));
    if (number.ends_with('L')) number.remove_suffix(1);
    at = end + 1;
    if (number.empty() && end == close) break;  // behind the last comma
    std::int64_t& size = shape.emplace_back();
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    readable = error != std::errc::invalid_argument && stop == number.data() + number.size() &&
               number.front() != '-';
    if (error == std::errc::result_out_of_range || size > (std::int64_t{1} << 40)) {
      throw DataError(path + ": the shape is too large");
    }
  }
  if (readable) return shape;
  throw DataError(fmt::format("{}: the shape {} is not readable; the file is damaged", path,
                              excerpt(text.substr(0, 40))));
}

bool truth_of(std::string_view text, const std::string& path) {
  const std::string_view word = trimmed(text.substr(0, text.find_first_of(",}")));
  if (word == "True" || word == "False") return word == "True";
  throw DataError(fmt::format(
      "{}: fortran_order is {}, neither True nor False; the file is damaged", path, excerpt(word)));
}

/// What stands in quotes; of structured arrays, which have a list there, its beginning.
std::string_view type_in(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('\'')) return text.substr(0, 40);
  return text.substr(1, text.find('\'', 1) - 1);
}

struct Numbers {
  at::ScalarType type;
  std::size_t bytes;
  bool widened = false;  ///< unsigned, to int64
};

/// @param descr  order of bytes and type: "<f4", "|u1"
Numbers numbers_of(std::string_view descr, const std::string& path) {
  constexpr std::pair<std::string_view, Numbers> kTypes[] = {
      {"b1", {at::kBool, 1}},       {"u1", {at::kByte, 1}},       {"i1", {at::kChar, 1}},
      {"i2", {at::kShort, 2}},      {"i4", {at::kInt, 4}},        {"i8", {at::kLong, 8}},
      {"u2", {at::kLong, 2, true}}, {"u4", {at::kLong, 4, true}}, {"u8", {at::kLong, 8, true}},
      {"f2", {at::kHalf, 2}},       {"f4", {at::kFloat, 4}},      {"f8", {at::kDouble, 8}}};
  for (const auto& [name, numbers] : kTypes) {
    const bool ordered = descr.starts_with('<') || descr.starts_with('>') ||
                         (descr.starts_with('|') && numbers.bytes == 1);
    if (ordered && descr.substr(1) == name) return numbers;
  }
  throw DataError(fmt::format("{}: numbers of type {} are not read; save them as float32 or int64",
                              path, excerpt(descr)));
}

Tensor tensor_of(const char* data, const Numbers& numbers, bool big, at::IntArrayRef shape,
                 const std::string& path) {
  Tensor tensor = at::empty(shape, numbers.type);
  const auto count = static_cast<std::size_t>(tensor.numel());
  char* to = static_cast<char*>(tensor.data_ptr());
  const std::size_t width = numbers.widened ? 8 : numbers.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    char number[8] = {};
    std::memcpy(number, data + i * numbers.bytes, numbers.bytes);
    if (big) std::reverse(number, number + numbers.bytes);
    std::memcpy(to + i * width, number, width);
  }
  if (numbers.type == at::kBool &&
      std::any_of(to, to + count, [](char c) { return c != 0 && c != 1; })) {
    throw DataError(path + ": an array of truths holds other bytes");
  }
  if (numbers.widened && numbers.bytes == 8 && count > 0 && tensor.lt(0).any().item<bool>()) {
    throw DataError(path + ": a number is 2^63 or more, which is not read");
  }
  return tensor;
}

std::string contents(std::string_view zip, const ZipMember& member, const std::string& path) {
  const std::string_view packed = packed_bytes(zip, member, path);
  std::string out;
  if (member.method == 0) {
    out = packed;
  } else if (member.method == 8 && member.size < (std::uint64_t{1} << 32) &&
             member.size / 1100 <= member.packed) {  // deflate packs to a thousandth at most
    out.resize(member.size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error("zlib: out of memory");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream, Z_FINISH);
    const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    if (!whole) refuse_member(member, path, "does not decompress");
  } else {
    refuse_member(member, path, "is compressed in a way that is not read");
  }
  check_sum(out, member, path);
  return out;
}

/// As a gzip stream (framework/data/formats/files.cpp).
constexpr double kAlwaysRead = 268435456, kMostPacking = 100;

/// Members may lie on one another in the file: each can be small, and all of them without end.
void check_total(const std::vector<ZipMember>& members, std::size_t file, const std::string& path) {
  double total = 0;  // each is below 2^32
  for (const ZipMember& member : members) total += static_cast<double>(member.size);
  if (total <= std::max(kAlwaysRead, kMostPacking * static_cast<double>(file))) return;
  throw DataError(
      fmt::format("{}: its {} members hold {:.3g} bytes, {:.3g} times its own size, more than real "
                  "data do; if you trust the file, save it without compression (numpy.savez)",
                  path, members.size(), total, total / static_cast<double>(file)));
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY") {
    throw DataError(path + ": does not begin as an array of NumPy does");
  }
  if (bytes[6] < 1 || bytes[6] > 3) {
    throw DataError(fmt::format("{}: version {} of NumPy's format is not known (1 to 3 are)", path,
                                static_cast<unsigned char>(bytes[6])));
  }
  const std::size_t size = bytes[6] == 1 ? 2 : 4;
  const std::uint64_t header = little(bytes, 8, size), begin = 8 + size + header;
  if (header > bytes.size() || begin > bytes.size()) throw DataError(path + ": is cut off");
  const std::string_view text = bytes.substr(8 + size, header);
  const std::string_view type = type_in(entry(text, "descr", path));
  const Numbers numbers = numbers_of(type, path);
  std::vector<std::int64_t> shape = shape_of(entry(text, "shape", path), path);
  const bool columns_first = truth_of(entry(text, "fortran_order", path), path);
  double count = 1, room = 8;  // `room` as if no axis were empty: a tensor's sizes are 64 bits
  for (const std::int64_t s : shape) {
    count *= static_cast<double>(s);
    room *= static_cast<double>(std::max<std::int64_t>(s, 1));
  }
  if (shape.size() > 64 || room > 4e18) throw DataError(path + ": the shape is too large");
  if (count * static_cast<double>(numbers.bytes) != static_cast<double>(bytes.size() - begin)) {
    throw DataError(
        fmt::format("{}: the header speaks of {} numbers of {} bytes, the file has {} "
                    "bytes of them; it is cut off or damaged",
                    path, count, numbers.bytes, bytes.size() - begin));
  }
  if (columns_first) std::reverse(shape.begin(), shape.end());
  Tensor tensor = tensor_of(bytes.data() + begin, numbers, type[0] == '>', shape, path);
  if (!columns_first) return tensor;
  std::vector<std::int64_t> axes(shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = std::int64_t(axes.size() - 1 - i);
  return tensor.permute(axes).contiguous();
}

NamedTensors read_npz(std::string_view bytes, const std::string& path) {
  NamedTensors arrays;
  const std::vector<ZipMember> members = zip_members(bytes, path);
  check_total(members, bytes.size(), path);
  for (const ZipMember& member : members) {
    std::string name = member.name;
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.set(name,
               parse_npy(contents(bytes, member, path), fmt::format("{}/{}", path, member.name)));
  }
  return arrays;
}

}  // namespace attnlab
