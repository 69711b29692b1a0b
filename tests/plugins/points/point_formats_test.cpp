// Files of points: what they say, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/data/formats/npy.h"
#include "framework/data/points/point_files.h"
#include "tests/plugins/points/point_bytes.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::point_formats_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::npy;
using testing::raw;
using testing::table;
using testing::TempFolder;

TEST(Ply, OfTextAndBytesOfBothOrders) {
  const std::string properties =
      "comment made by hand\nelement face 1\nproperty list uchar int vertex_indices\n"
      "element vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
      "property uchar label\nend_header\n";
  const Tensor expected = table({1, 2, 3, 7, -1, 0.5, 4, 200}, 4);
  const PointTable text = parse_ply(
      "ply\nformat ascii 1.0\n" + properties + "3 0 1 0\n1 2 3 7\n-1 0.5 4 200\n", "a.ply");
  EXPECT_THAT(text.names, ElementsAre("x", "y", "z", "label"));
  EXPECT_TRUE(text.values.equal(expected));
  const std::string face = std::string("\x03", 1) + raw<std::int32_t>({0, 1, 0});
  const std::string vertices = raw<float>({1, 2, 3}) + "\x07" + raw<float>({-1, 0.5, 4}) + "\xc8";
  EXPECT_TRUE(parse_ply("ply\nformat binary_little_endian 1.0\n" + properties + face + vertices, "")
                  .values.equal(expected));
  std::string big = std::string("\x03", 1) + std::string(12, '\0');
  for (const char* row :
       {"\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x07", "\xbf\x80\0\0\x3f\0\0\0\x40\x80\0\0\xc8"}) {
    big.append(row, 13);
  }
  EXPECT_TRUE(parse_ply("ply\nformat binary_big_endian 1.0\n" + properties + big, "")
                  .values.equal(expected));
}

TEST(Ply, NamesWhatIsWrong) {
  const std::string start = "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\n";
  EXPECT_THAT(message_of<DataError>([] { parse_ply("plz\n", "a.ply"); }),
              mentions("a.ply:1:", "with 'ply'"));
  EXPECT_THAT(message_of<DataError>([&] { parse_ply(start, "a.ply"); }), HasSubstr("cut off"));
  EXPECT_THAT(message_of<DataError>([&] { parse_ply(start + "end_header\n1", "a.ply"); }),
              HasSubstr("too short"));
  EXPECT_THAT(message_of<DataError>([&] { parse_ply(start + "end_header\n1 x\n", "a.ply"); }),
              HasSubstr("there is no number"));
  EXPECT_THROW(parse_ply("ply\nelement vertex 1000000000000\nproperty float x\nend_header\n", ""),
               DataError);
}

TEST(Ply, PassesOverElementsWithoutPropertiesHoweverMany) {
  const std::string start = "ply\nformat ascii 1.0\nelement foo 1000000000000\n";
  const std::string vertex = "element vertex 1\nproperty float x\nend_header\n7\n";
  EXPECT_EQ(parse_ply(start + vertex, "a.ply").values.item<double>(), 7);
  EXPECT_THROW(parse_ply(start + "property float x\n" + vertex, "a.ply"), DataError);
  EXPECT_THROW(parse_ply("ply\nformat ascii 1.0\nelement vertex nan\nproperty float x\n"
                         "end_header\n7\n",
                         "a.ply"),
               DataError);
  EXPECT_THROW(parse_ply("ply\nformat ascii 1.0\nelement foo 1\nproperty list float int i\n" +
                             vertex.substr(0, vertex.size() - 2) + "nan\n7\n",
                         "a.ply"),
               DataError);
}

TEST(Pcd, OfAllThreeKinds) {
  const auto header = [](const char* data) {
    return "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z normal label\nSIZE 4 4 4 4 1\n"
           "TYPE F F F F U\nCOUNT 1 1 1 2 1\nWIDTH 2\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\n"
           "POINTS 2\nDATA " +
           std::string(data) + "\n";
  };
  const Tensor expected = table({1, 2, 3, 0, 1, 5, 4, 5, 6, 1, 0, 6}, 6);
  const PointTable text = parse_pcd(header("ascii") + "1 2 3 0 1 5\n4 5 6 1 0 6\n", "a.pcd");
  EXPECT_THAT(text.names, ElementsAre("x", "y", "z", "normal_0", "normal_1", "label"));
  EXPECT_TRUE(text.values.equal(expected));
  const std::string rows =
      raw<float>({1, 2, 3, 0, 1}) + "\x05" + raw<float>({4, 5, 6, 1, 0}) + "\x06";
  EXPECT_TRUE(parse_pcd(header("binary") + rows, "").values.equal(expected));
  // Field by field: literals, and a copy of eight bytes that came sixteen before.
  const std::string fields = raw<float>({1, 4, 2, 5, 3, 6, 0, 1, 1, 0}) + "\x05\x06";
  std::string packed;
  packed += '\x1f' + fields.substr(0, 32);
  packed += '\x09' + fields.substr(32, 10);
  const auto size = [](std::size_t n) { return raw<std::uint32_t>({std::uint32_t(n)}); };
  EXPECT_TRUE(parse_pcd(header("binary_compressed") + size(packed.size()) + size(42) + packed, "")
                  .values.equal(expected));
  EXPECT_THAT(message_of<DataError>([&] { parse_pcd(header("binary") + "abc", "a.pcd"); }),
              mentions("a.pcd:", "POINTS says 2", "room for 0"));
  EXPECT_THROW(parse_pcd(header("ascii") + "1 2 3\n", ""), DataError);
  EXPECT_THROW(parse_pcd("FIELDS x\n", ""), DataError);
  const auto wide = [](const std::string& count, const std::string& points) {
    return "FIELDS x y\nSIZE 4 4\nTYPE F F\nCOUNT 1 " + count + "\nPOINTS " + points +
           "\nDATA ascii\n";
  };
  EXPECT_THAT(message_of<DataError>([&] { parse_pcd(wide("1000000000000", "1"), "a.pcd"); }),
              HasSubstr("more than 4096 numbers per point"));
  EXPECT_THROW(parse_pcd(wide("1", "nan"), ""), DataError);
}

TEST(Pcd, UnpacksRunsThatRepeat) {
  // "abcabcabcab": three literals, then eight bytes from three before.
  const std::string packed = std::string("\x02") + "abc" + '\xc0' + '\x02';
  const std::string file =
      "FIELDS x\nSIZE 1\nTYPE U\nCOUNT 1\nPOINTS 11\nDATA binary_compressed\n" +
      raw<std::uint32_t>({std::uint32_t(packed.size()), 11}) + packed;
  const PointTable points = parse_pcd(file, "");
  EXPECT_EQ(points.values[3].item<double>(), 'a');
  EXPECT_EQ(points.values[10].item<double>(), 'b');
}

TEST(Las, OfPointsWithColour) {
  std::string bytes(227 + 2 * 26, '\0');
  const auto put = [&](std::size_t at, const std::string& part) {
    bytes.replace(at, part.size(), part);
  };
  put(0, "LASF");
  put(24, "\x01\x02");
  put(96, raw<std::uint32_t>({227}));
  put(104, "\x02");
  put(105, raw<std::uint16_t>({26}));
  put(107, raw<std::uint32_t>({2}));
  put(131, raw<double>({0.01, 0.01, 0.1, 1000, 2000, 0}));
  for (const std::size_t row : {std::size_t{0}, std::size_t{1}}) {
    const std::size_t at = 227 + 26 * row;
    const auto n = static_cast<std::int32_t>(row);
    put(at, raw<std::int32_t>({100 + n, -50, 7}) + raw<std::uint16_t>({900}));
    put(at + 15, "\x65");  // class 5 below three flags
    put(at + 20, raw<std::uint16_t>({1, 2, 65535}));
  }
  const PointTable points = parse_las(bytes, "a.las");
  EXPECT_THAT(points.names,
              ElementsAre("x", "y", "z", "intensity", "classification", "red", "green", "blue"));
  EXPECT_TRUE(
      at::allclose(points.values[1],
                   at::tensor({1001.01, 1999.5, 0.7, 900.0, 5.0, 1.0, 2.0, 65535.0}, at::kDouble)));
  EXPECT_THROW(parse_las(bytes.substr(0, 250), ""), DataError);
  put(24, "\x01\x05");
  EXPECT_THAT(message_of<DataError>([&] { parse_las(bytes, "a.las"); }),
              mentions("a.las:", "version 1.5"));
  put(24, "\x01\x02");
  put(96, raw<std::uint32_t>({100}));
  EXPECT_THAT(message_of<DataError>([&] { parse_las(bytes, "a.las"); }),
              HasSubstr("2 points from byte 100 on"));
  put(96, raw<std::uint32_t>({227}));
  put(104, "\x82");
  EXPECT_THAT(message_of<DataError>([&] { parse_las(bytes, "a.laz"); }), HasSubstr("laszip"));
}

TEST(Las, OfTheNewestVersion) {
  // Format 7 of version 1.4: the count has 64 bits, the class a byte of its own.
  std::string bytes(375 + 36, '\0');
  const auto put = [&](std::size_t at, const std::string& part) {
    bytes.replace(at, part.size(), part);
  };
  put(0, "LASF");
  put(24, "\x01\x04");
  put(96, raw<std::uint32_t>({375}));
  put(104, "\x07");
  put(105, raw<std::uint16_t>({36}));
  put(131, raw<double>({1, 1, 1, 0, 0, 0}));
  put(247, raw<std::uint64_t>({1}));
  put(375, raw<std::int32_t>({1, 2, 3}) + raw<std::uint16_t>({900}));
  put(375 + 16, "\xc8");
  put(375 + 30, raw<std::uint16_t>({4, 5, 6}));
  const PointTable points = parse_las(bytes, "a.las");
  EXPECT_TRUE(points.values.equal(table({1, 2, 3, 900, 200, 4, 5, 6}, 8)));
  put(247, raw<std::uint64_t>({std::uint64_t{1} << 40}));
  EXPECT_THAT(message_of<DataError>([&] { parse_las(bytes, "a.las"); }), HasSubstr("is cut off"));
}

TEST(Xyz, OfTextWithAndWithoutNames) {
  const PointTable plain = parse_xyz("# a cloud\n1 2 3 9\n\n4,5,6 8 // x\n", "a.xyz");
  EXPECT_THAT(plain.names, ElementsAre("x", "y", "z", "c3"));
  EXPECT_TRUE(plain.values.equal(table({1, 2, 3, 9, 4, 5, 6, 8}, 4)));
  EXPECT_THAT(parse_xyz("X,Y,Z\n1,2,nan\n", "").names, ElementsAre("X", "Y", "Z"));
  EXPECT_THAT(message_of<DataError>([] { parse_xyz("1 2 3\n1 2\n", "a.xyz"); }),
              mentions("a.xyz:2:", "2 numbers", "have 3"));
  EXPECT_THAT(message_of<DataError>([] { parse_xyz("1 2 3\n1 2 z\n", "a.xyz"); }),
              mentions("a.xyz:2:", "'z'", "number"));
}

TEST(Xyz, RefusesDecimalCommas) {
  EXPECT_TRUE(parse_xyz("1.5;2.5;3\n", "").values.equal(table({1.5, 2.5, 3}, 3)));
  EXPECT_THAT(message_of<DataError>([] { parse_xyz("x;y;z\n1,50;2,30;3,40\n", "a.csv"); }),
              mentions("a.csv:2:", "commas and semicolons"));
}

TEST(Xyz, TakesTheCountThatAPtsFileBeginsWith) {
  const TempFolder folder;
  folder.write("a.pts", "2\n1 2 3 -800 1 2 3\n4 5 6 -700 4 5 6\n");
  const PointTable points = read_points(folder.path() + "/a.pts");
  EXPECT_THAT(points.names, ElementsAre("x", "y", "z", "c3", "c4", "c5", "c6"));
  EXPECT_EQ(points.values.size(0), 2);
  folder.write("plain.pts", "1 2 3\n4 5 6\n");
  EXPECT_EQ(read_points(folder.path() + "/plain.pts").values.size(0), 2);
  folder.write("cut.pts", "3\n1 2 3\n4 5 6\n");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/cut.pts"); }),
              mentions("cut.pts:", "3 points", "2 follow"));
  folder.write("a.xyz", "2\n1 2 3\n4 5 6\n");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/a.xyz"); }),
              mentions("a.xyz:2:", "3 numbers", "have 1", ".pts", "remove it"));
}

TEST(Npy, OfBothOrdersOfBytesAndOfAxes) {
  const auto header = [](const char* type, bool fortran) {
    return "{'descr': '" + std::string(type) +
           "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (2, 3), }";
  };
  const Tensor expected = at::tensor({1, 2, 3, 4, 5, 6}).view({2, 3});
  EXPECT_TRUE(parse_npy(npy(header("<f4", false), raw<float>({1, 2, 3, 4, 5, 6})), "")
                  .equal(expected.to(at::kFloat)));
  EXPECT_TRUE(parse_npy(npy(header("<u2", true), raw<std::uint16_t>({1, 4, 2, 5, 3, 6})), "")
                  .equal(expected.to(at::kLong)));
  EXPECT_TRUE(parse_npy(npy(header(">i2", false), std::string("\0\1\0\2\0\3\0\4\0\5\0\6", 12)), "")
                  .equal(expected.to(at::kShort)));
  EXPECT_THAT(message_of<DataError>([&] { parse_npy(npy(header("<f4", false), "abc"), "a.npy"); }),
              mentions("a.npy:", "6 numbers of 4 bytes"));
  EXPECT_THROW(parse_npy(npy(header("<c8", false), ""), ""), DataError);
  EXPECT_THROW(parse_npy("\x93NUMPY", ""), DataError);
  EXPECT_THROW(parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1099511627776, "
                             "1099511627776), }",
                             ""),
                         ""),
               DataError);
}

std::string npy_of_two_points() {
  return npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4), }",
             raw<double>({1, 2, 3, 9, 4, 5, 6, 8}));
}

TEST(Npy, IsRefusedWhereItsHeaderSaysWhatIsNotKnown) {
  const std::string good = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }";
  const std::string data("\1\0\2\0", 4);
  EXPECT_TRUE(parse_npy(npy(good, data), "").equal(at::tensor({1, 2}, at::kShort).view({2, 1})));
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string header = good;
    return npy(header.replace(header.find(part), part.size(), other), data);
  };
  EXPECT_EQ(parse_npy(with("(2, 1)", "(2L, 1L)"), "").numel(), 2) << "as Python 2 wrote it";
  const auto refusal = [&](const std::string& part, const std::string& other) {
    return message_of<DataError>([&] { parse_npy(with(part, other), "a.npy"); });
  };
  EXPECT_THAT(refusal("'<i2'", "'Zi2'"), mentions("a.npy:", "'Zi2'", "not read"));
  EXPECT_THAT(refusal("'<i2'", "'|i2'"), mentions("'|i2'", "not read"));
  EXPECT_THAT(refusal("'<i2'", "'<i22'"), mentions("'<i22'", "not read"));
  EXPECT_THAT(refusal("'<i2'", "[('x', '<i2')]"), HasSubstr("type '[('x', '<i2')], "));
  EXPECT_THAT(refusal("False", "Maybe"), mentions("fortran_order", "'Maybe'", "damaged"));
  for (const char* shape : {"(-2, 1)", "(2.0, 1)", "(2 1)", "[2, 1]", "(, 2)", "(2, 1"}) {
    EXPECT_THAT(refusal("(2, 1)", shape), HasSubstr("a.npy: the shape '")) << shape;
  }
  std::string version = npy(good, data);
  version[6] = 9;
  EXPECT_THAT(message_of<DataError>([&] { parse_npy(version, "a.npy"); }),
              mentions("a.npy:", "version 9"));
}

TEST(Npz, OfStoredAndOfDeflatedMembers) {
  for (const bool deflated : {false, true}) {
    const std::string bytes = testing::zip_file(
        {{"points.npy", npy_of_two_points()},
         {"label.npy",
          npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\x05\x07")}},
        deflated);
    const NamedTensors arrays = read_npz(bytes, "a.npz");
    EXPECT_EQ(arrays.size(), 2u);
    EXPECT_TRUE(arrays.at("points").equal(table({1, 2, 3, 9, 4, 5, 6, 8}, 4)));
    EXPECT_EQ(arrays.at("label")[1].item<std::int64_t>(), 7);
    std::string damaged = bytes;
    damaged[bytes.find("NUMPY") == std::string::npos ? 60 : bytes.find("NUMPY")] ^= 1;
    EXPECT_THROW(read_npz(damaged, "a.npz"), DataError);
    EXPECT_THROW(read_npz(bytes.substr(0, bytes.size() / 2), "a.npz"), DataError);
  }
}

TEST(Npy, IsRefusedWhereNumbersCannotBeKept) {
  EXPECT_THAT(message_of<DataError>([] {
                parse_npy(
                    npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\x01\x02"),
                    "a.npy");
              }),
              mentions("a.npy:", "truths"));
  EXPECT_THAT(message_of<DataError>([] {
                parse_npy(npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }",
                              std::string(8, '\xff')),
                          "a.npy");
              }),
              mentions("a.npy:", "2^63"));
}

TEST(Npz, IsRefusedWhereItsMembersLieOnOneAnother) {
  constexpr std::size_t kBytes = std::size_t{1} << 22, kTimes = 80;
  const std::string one = testing::zip_file(
      {{"a.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4194304,), }",
                     std::string(kBytes, '\0'))}},
      true);
  const std::size_t entry = one.rfind("PK\x01\x02"), end = one.rfind("PK\x05\x06");
  EXPECT_EQ(read_npz(one, "a.npz").at("a").numel(), std::int64_t(kBytes));
  std::string bomb = one.substr(0, entry);
  for (std::size_t i = 0; i < kTimes; ++i) bomb += one.substr(entry, end - entry);
  std::string foot = one.substr(end);
  foot[8] = foot[10] = static_cast<char>(kTimes);
  EXPECT_THAT(message_of<DataError>([&] { read_npz(bomb + foot, "a.npz"); }),
              mentions("a.npz:", "80 members", "3.36e+08 bytes"));
}

TEST(PointFiles, OfEveryKindHoldTheSamePoints) {
  const TempFolder folder;
  const std::string one = npy_of_two_points();
  const auto array = [](const std::string& name, const std::string& content) {
    return testing::zip_file({{name, content}}, true);
  };
  folder.write("a.npy", one);
  folder.write("one.npz", array("arr_0.npy", one));
  folder.write("several.npz", testing::zip_file({{"label.npy", one}, {"points.npy", one}}, false));
  folder.write("A.XYZ", "1 2 3 9\n4 5 6 8\n");
  folder.write("a.csv", "1,2,3,9\n4,5,6,8\n");
  folder.write("a.ply",
               "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
               "property float z\nproperty float c3\nend_header\n1 2 3 9\n4 5 6 8\n");
  folder.write("a.pcd",
               "VERSION .7\nFIELDS x y z c3\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 2\n"
               "HEIGHT 1\nPOINTS 2\nDATA ascii\n1 2 3 9\n4 5 6 8\n");
  for (const char* name : {"a.npy", "one.npz", "several.npz", "A.XYZ", "a.csv", "a.ply", "a.pcd"}) {
    const PointTable points = read_points(folder.path() + "/" + name);
    EXPECT_THAT(points.names, ElementsAre("x", "y", "z", "c3")) << name;
    EXPECT_TRUE(points.values.equal(table({1, 2, 3, 9, 4, 5, 6, 8}, 4))) << name;
  }
  folder.write("a.off", "OFF\n2 0 0\n1 2 3\n4 5 6\n");
  EXPECT_TRUE(read_points(folder.path() + "/a.off").values.equal(table({1, 2, 3, 4, 5, 6}, 3)));
  folder.write("none.npz", testing::zip_file({{"a.npy", one}, {"b.npy", one}}, false));
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/none.npz"); }),
              mentions("none.npz:", "several arrays", "points"));
  folder.write("a.stl", "");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/a.stl"); }),
              HasSubstr("end in .ply"));
}

TEST(PointFiles, AreReadByTheirEnding) {
  const TempFolder folder;
  folder.write("a.CSV", "X,Y,Z,Intensity\n1,2,3,4\n");
  EXPECT_THAT(read_points(folder.path() + "/a.CSV").names, ElementsAre("X", "Y", "Z", "Intensity"));
  folder.write("b.txt", "1 2\n");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/b.txt"); }),
              mentions("b.txt:", "no column 'z'", "x, y"));
  folder.write("c.stl", "");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/c.stl"); }),
              HasSubstr("end in .ply"));
}

TEST(PointFiles, AreRefusedWhereTheyAreTooLargeToReadWhole) {
  const TempFolder folder;
  folder.write("a.las", "LASF");
  const std::string path = folder.path() + "/a.las";
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 30) + 1);  // holes: it takes no room
  EXPECT_THAT(message_of<DataError>([&] { read_points(path); }),
              mentions("a.las:", "1073741825 bytes"));
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder.path() + "/none.las"); }),
              HasSubstr("none.las: is not there"));
}

}  // namespace
}  // namespace attnlab::point_formats_test
