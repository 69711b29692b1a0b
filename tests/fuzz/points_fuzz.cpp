// Fuzzes the readers of points: the format's name before "%%", a file's bytes after it. Whatever
// the bytes, the answer is a table whose names fit its columns, or an error that names the file; no
// more memory is taken than the driver allows, whatever a header promises.
// Code: framework/data/formats/npy.cpp framework/data/points/las.cpp framework/data/points/mesh.cpp
// Code: framework/data/points/pcd.cpp framework/data/points/ply.cpp
// Code: framework/data/points/point_files.cpp
#include <array>
#include <cstring>

#include "framework/data/formats/npy.h"
#include "framework/data/points/mesh.h"
#include "framework/data/points/point_files.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

constexpr const char* kPath = "f.points";

template <class T, std::size_t N>
std::string raw(const std::array<T, N>& numbers) {
  std::string bytes(sizeof numbers, '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string binary_ply() {
  return "ply%%ply\nformat binary_little_endian 1.0\nelement face 1\nproperty list uchar int i\n"
         "element vertex 2\nproperty float x\nproperty float y\nproperty uchar c\nend_header\n\1" +
         raw<std::int32_t, 1>({7}) + raw<float, 2>({1, 2}) + "a" + raw<float, 2>({3, 4}) + "b";
}

std::string binary_list_ply() {
  return "ply%%ply\nformat binary_big_endian 1.0\nelement vertex 2\nproperty uchar x\n"
         "property list uchar short d\nend_header\na\1bcd" +
         std::string(1, '\0');
}

std::string pcd(const std::string& data) {
  return "pcd%%VERSION 0.7\nFIELDS x y\nSIZE 4 1\nTYPE F U\nCOUNT 1 2\nWIDTH 2\nHEIGHT 1\n"
         "POINTS 2\nDATA " +
         data;
}

std::string las() {
  std::string bytes(227 + 2 * 26, '\0');
  const auto put = [&](std::size_t at, const std::string& part) {
    bytes.replace(at, part.size(), part);
  };
  put(0, "LASF");
  put(24, "\1\2");
  put(96, raw<std::uint32_t, 1>({227}));
  put(104, "\2");
  put(105, raw<std::uint16_t, 1>({26}));
  put(107, raw<std::uint32_t, 1>({2}));
  put(131, raw<double, 3>({0.01, 0.01, 0.1}));
  return "las%%" + bytes;
}

std::string npy() {
  std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(118, ' ');
  return "npy%%" + std::string("\x93NUMPY\1\0\x76\0", 10) + header +
         raw<float, 6>({1, 2, 3, 4, 5, 6});
}

/// What a format's reader says. @throws DataError
PointTable parsed(const std::string& format, const std::string& bytes) {
  if (format == "ply") return parse_ply(bytes, kPath);
  if (format == "pcd") return parse_pcd(bytes, kPath);
  if (format == "las") return parse_las(bytes, kPath);
  if (format == "xyz") return parse_xyz(bytes, kPath);
  if (format == "pts") return parse_xyz(bytes, kPath, /*counted=*/true);
  if (format == "npy") return {{"all"}, parse_npy(bytes, kPath).to(at::kDouble).reshape({-1, 1})};
  if (format != "off") throw DataError(std::string(kPath) + ": no such format");
  const Mesh mesh = parse_off(bytes, kPath);
  const Tensor& corners = mesh.triangles;
  if (corners.numel() > 0 && (corners.min().item<std::int64_t>() < 0 ||
                              corners.max().item<std::int64_t>() >= mesh.corners.size(0))) {
    fail("a triangle without a corner");
  }
  return {{"x", "y", "z"}, mesh.corners};
}

}  // namespace

Target target() {
  Target target;
  target.seeds = {
      "ply%%ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty list uchar int i\n"
      "end_header\n1 0\n2 1 5\n",
      "ply%%ply\nformat ascii 1.0\nelement foo 1000000000000\nelement vertex 1\nproperty int x\n"
      "end_header\n1\n",
      binary_ply(),
      pcd("ascii\n1 2 3\n4 5 6\n"),
      pcd("binary\n" + raw<float, 3>({1, 2, 3})),
      pcd("binary_compressed\n" + raw<std::uint32_t, 2>({13, 12}) + "\x0b" +
          raw<float, 3>({1, 2, 3})),
      las(),
      "xyz%%X,Y,Z\n1,2,nan\n# no\n4;5 6\n",
      "pts%%2\n1 2 3\n4 5 6\n",
      "ply%%ply\nformat ascii 1.0\nelement vertex 2\nproperty list int float d\nproperty float x\n"
      "end_header\n0 1\n2 5 5 2\n",
      binary_list_ply(),
      "pcd%%COLUMNS x _\nTYPE f i\nSIZE 8 2\nWIDTH 1\nHEIGHT 2\nDATA ASCII\n1 2\n3 4\n",
      "xyz%%\xef\xbb\xbf"
      "1 2 3\n",
      "off%%COFF 2 1 0 0 0 0 9 9 9 1 1 1 9 9 9\n3 0 1 0 # c\n",
      "off%%NCOFF\n2 1 0\n0 0 0 1 1 1 0.5 0.5 0.5 1\n1 1 1 1 1 1 0.5 0.5 0.5 1\n3 0 1 0 9 9 9\n",
      "off%%OFF4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n4 0 1 2 3\n",
      npy(),
      "",
  };
  target.words = {"element ",
                  "property list uchar int ",
                  "property float ",
                  "end_header\n",
                  "ascii",
                  "binary_big_endian",
                  "FIELDS ",
                  "COUNT ",
                  "SIZE ",
                  "TYPE ",
                  "POINTS ",
                  "DATA binary\n",
                  "OFF",
                  "COFF",
                  "NOFF",
                  "WIDTH ",
                  "\xef\xbb\xbf",
                  "nan",
                  "1e300",
                  "-1",
                  "4096",
                  "1000000000000",
                  "\n",
                  "%%",
                  "'shape': ",
                  "(0, 9999999999)"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const auto [format, bytes] = fuzz::halves({reinterpret_cast<const char*>(data), size});
  try {
    const PointTable table = fuzz::parsed(format, bytes);
    const Tensor& values = table.values;
    if (values.dim() != 2 || values.scalar_type() != at::kDouble ||
        values.size(1) != static_cast<std::int64_t>(table.names.size())) {
      fuzz::fail("names do not fit the columns");
    }
    if (values.numel() > static_cast<std::int64_t>(100 * (bytes.size() + 1))) {
      fuzz::fail("more numbers than the bytes can hold");
    }
    return 0;
  } catch (const DataError& error) {
    if (std::string(error.what()).rfind(fuzz::kPath, 0) == 0) return -1;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  }
}
