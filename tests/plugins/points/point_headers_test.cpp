// Headers of PCD and PLY, lists of PLY, and names of columns: what is taken, and what is not
// guessed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/points/point_files.h"
#include "tests/plugins/points/point_bytes.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::point_headers_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::raw;
using testing::table;
using testing::TempFolder;
using testing::turned;

const std::string kMark = "\xef\xbb\xbf";

std::string pcd_header(const std::string& types, const std::string& data) {
  return "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y label\nSIZE 4 4 1\n"
         "TYPE " +
         types +
         "\nCOUNT 1 1 1\nWIDTH 2\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\n"
         "DATA " +
         data + "\n";
}

/// The header with one of its lines replaced.
std::string with_line(const std::string& header, const std::string& word, const std::string& line) {
  const std::size_t begin = header.find("\n" + word) + 1;
  return header.substr(0, begin) + line + header.substr(header.find('\n', begin) + 1);
}

TEST(PcdHeader, TakesSmallLettersOfTypesForCapitals) {
  const std::string rows = raw<float>({1.5f, -2}) + "\xff" + raw<float>({3, 4}) + "\x07";
  for (const char* types : {"F F U", "f f u", "f F u"}) {
    EXPECT_TRUE(parse_pcd(pcd_header(types, "binary") + rows, "")
                    .values.equal(table({1.5, -2, 255, 3, 4, 7}, 3)))
        << types;
  }
  for (const char* types : {"F F I", "f f i"}) {
    EXPECT_TRUE(parse_pcd(pcd_header(types, "Binary") + rows, "")
                    .values.equal(table({1.5, -2, -1, 3, 4, 7}, 3)))
        << types;
  }
  for (const char* type : {"Q", "q", "FF", "8", "float"}) {
    EXPECT_THAT(message_of<DataError>([&] {
                  parse_pcd(pcd_header(std::string("F F ") + type, "binary") + rows, "a.pcd");
                }),
                mentions("a.pcd:5:", "TYPE '" + std::string(type) + "'", "'label'",
                         "F (floating point), I (signed), ", "correct the letter"));
  }
}

TEST(PcdHeader, MayHaveItsLinesInAnyOrderBehindFields) {
  const std::string body = "1 2 3\n4 5 6\n";
  const Tensor expected = table({1, 2, 3, 4, 5, 6}, 3);
  for (const char* header :
       {"POINTS 2\nFIELDS x y z\nTYPE F F U\nSIZE 4 4 1\nDATA ascii\n",
        "WIDTH 1\nHEIGHT 2\nVERSION .7\n\n# of old\nCOLUMNS x y z\nDATA ASCII\n",
        "FIELDS x y z\nWIDTH 2\nDATA ascii\n", "FIELDS x y z\nWIDTH 2\nHEIGHT 0\nDATA ascii\n",
        "FIELDS x y z\nWIDTH 0\nHEIGHT 0\nPOINTS 2\nDATA ascii\n",
        "FIELDS x y z\r\nHEIGHT 2\r\nPOINTS +2\r\nDATA ascii\r\n"}) {
    EXPECT_TRUE(parse_pcd(header + body, "").values.equal(expected)) << header;
  }
}

TEST(PcdHeader, IsRefusedWhereItWouldBeGuessedAt) {
  const std::string good = pcd_header("F F U", "ascii"), body = "1 2 3\n4 5 6\n";
  EXPECT_EQ(parse_pcd(good + body, "").values.size(0), 2);
  const auto refusal = [&](const std::string& word, const std::string& line) {
    return message_of<DataError>([&] { parse_pcd(with_line(good, word, line) + body, "a.pcd"); });
  };
  EXPECT_THAT(refusal("WIDTH", "WIDHT 2\n"), mentions("a.pcd:7:", "'WIDHT'", "'WIDTH'"));
  EXPECT_THAT(refusal("VERSION", std::string("V\0N 0.7\n", 8)), HasSubstr("a.pcd:2: 'V\\x00N'"));
  EXPECT_THAT(refusal("VERSION", "SIZE 4 4 1\n"), mentions("a.pcd:2:", "SIZE", "FIELDS", "below"));
  EXPECT_THAT(refusal("VERSION", "TYPE F F U\n"), HasSubstr("a.pcd:2: TYPE stands before FIELDS"));
  EXPECT_THAT(refusal("VERSION", "FIELDS x y label\n"), HasSubstr("a.pcd:3: FIELDS stands twice"));
  EXPECT_THAT(refusal("HEIGHT", "WIDTH 2\n"), mentions("a.pcd:8:", "WIDTH", "twice"));
  EXPECT_THAT(refusal("SIZE", "SIZE 4 4\n"), mentions("a.pcd:4:", "SIZE has 2", "FIELDS has 3"));
  EXPECT_THAT(refusal("TYPE", "TYPE F F U U\n"),
              mentions("a.pcd:5:", "TYPE has 4", "FIELDS has 3"));
  EXPECT_THAT(refusal("SIZE", "SIZE 4 4 3\n"), mentions("'label'", "SIZE of 3"));
  EXPECT_THAT(refusal("SIZE", "SIZE 4 2 1\n"), mentions("'y'", "SIZE of 2"));
  EXPECT_THAT(refusal("COUNT", "COUNT 1 1 0\n"), mentions("a.pcd:6:", "COUNT", "at least"));
  for (const char* number : {"-2", "2.5", "nan", "two", "1e20", "0x2"}) {
    const std::string n = number;
    EXPECT_THAT(refusal("POINTS", "POINTS " + n + "\n"),
                mentions("a.pcd:10:", "'" + n + "' of POINTS", "from 0 on"));
    EXPECT_THAT(refusal("SIZE", "SIZE 4 4 " + n + "\n"), HasSubstr("'" + n + "' of SIZE"));
    EXPECT_THAT(refusal("COUNT", "COUNT 1 1 " + n + "\n"), HasSubstr("'" + n + "' of COUNT"));
    EXPECT_THAT(refusal("WIDTH", "WIDTH " + n + "\n"), HasSubstr("'" + n + "' of WIDTH"));
  }
  EXPECT_THAT(refusal("POINTS", "POINTS\n"), mentions("a.pcd:10:", "POINTS has 0"));
  EXPECT_THAT(refusal("POINTS", "POINTS 3\n"), mentions("POINTS is 3", "HEIGHT 2"));
  EXPECT_THAT(refusal("HEIGHT", "HEIGHT 2\n"), mentions("POINTS is 2", "HEIGHT 4"));
  EXPECT_THAT(refusal("DATA", "DATA\n"), mentions("a.pcd:11:", "DATA has 0"));
  EXPECT_THAT(refusal("DATA", "DATA binary_packed\n"),
              mentions("a.pcd:11:", "'binary_packed'", "ascii, binary, binary_compressed"));
  EXPECT_THAT(refusal("FIELDS", "FIELDS\n"), HasSubstr("a.pcd:4: SIZE stands before FIELDS"));
  EXPECT_THAT(
      message_of<DataError>([] { parse_pcd("FIELDS x y z\nHEIGHT 2\nDATA ascii\n", "a.pcd"); }),
      mentions("a.pcd:3:", "POINTS is lacking", "WIDTH"));
}

TEST(ByteOrderMark, LeavesPositionsInBinaryFilesAsTheyAre) {
  const std::string rows = raw<float>({1, 2}) + "\x05" + raw<float>({3, 4}) + "\x07";
  const std::string pcd = pcd_header("F F U", "binary") + rows;
  const std::string ply =
      "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty float x\n"
      "property float y\nproperty uchar label\nend_header\n" +
      rows;
  const Tensor expected = table({1, 2, 5, 3, 4, 7}, 3);
  EXPECT_TRUE(parse_pcd(kMark + pcd, "").values.equal(expected));
  EXPECT_TRUE(parse_ply(kMark + ply, "").values.equal(expected));
  EXPECT_THAT(parse_xyz(kMark + "x,y,z\n1,2,3\n", "").names, ElementsAre("x", "y", "z"));
  EXPECT_EQ(parse_xyz(kMark + "1\n1 2 3\n", "", /*counted=*/true).values.size(0), 1);
}

TEST(ByteOrderMark, OfUtf16IsRefusedWithTheRemedy) {
  for (const std::string& start : {std::string("\xff\xfe"), std::string("\xfe\xff")}) {
    const std::string text = start + std::string("x\0 \0y\0", 6);
    for (const auto& parse : {parse_ply, parse_pcd}) {
      EXPECT_THAT(message_of<DataError>([&] { parse(text, "a.points"); }),
                  mentions("a.points:", "UTF-16", "iconv"));
    }
    EXPECT_THAT(message_of<DataError>([&] { parse_xyz(text, "a.txt"); }), HasSubstr("iconv"));
  }
}

TEST(Messages, ShowTheBytesOfAFileAndGoOnBehindThem) {
  const std::string zero("1 2 3\n1 \0\x1b[2J 3\n", 16), whole(5000, 'a');
  EXPECT_THAT(message_of<DataError>([&] { parse_xyz(zero, "a.xyz"); }),
              mentions("a.xyz:2:", "'\\x00\\x1b[2J'", "repair the line"));
  const std::string longest =
      message_of<DataError>([&] { parse_xyz("1 2 3\n1 2 " + whole + "\n", "a.xyz"); });
  EXPECT_THAT(longest, mentions("aaa...'", "repair the line"));
  EXPECT_LT(longest.size(), 200u);
  const std::string header = "ply\nformat ascii 1.0\nelement vertex 1\nproperty ";
  EXPECT_THAT(message_of<DataError>([&] {
                parse_ply(header + std::string("fl\0at", 5) + " x\nend_header\n1\n", "a.ply");
              }),
              mentions("a.ply:4:", "'fl\\x00at'", "(char,", "correct it"));
}

TEST(PlyHeader, IsRefusedWhereItWouldBeGuessedAt) {
  const auto refusal = [](const std::string& header) {
    return message_of<DataError>(
        [&] { parse_ply("ply\n" + header + "end_header\n1 2 3\n", "a.ply"); });
  };
  const std::string format = "format ascii 1.0\n", vertex = "element vertex 1\nproperty float x\n";
  EXPECT_EQ(parse_ply("ply\nobj_info a\n" + format + "comment b\n" + vertex + "end_header\n1\n", "")
                .values.numel(),
            1);
  EXPECT_THAT(refusal(vertex), mentions("a.ply:4:", "no line 'format'"));
  EXPECT_THAT(refusal("format ASCII 1.0\n" + vertex),
              mentions("a.ply:2:", "'ASCII'", "ascii, binary_little_endian,"));
  EXPECT_THAT(refusal("format ascii 2.0\n" + vertex), HasSubstr("a.ply:2: version '2.0' of PLY"));
  EXPECT_THAT(refusal(format + vertex + "propertyy float y\n"),
              mentions("a.ply:5:", "'propertyy'"));
  EXPECT_THAT(refusal(format + vertex + "property float\n"),
              mentions("a.ply:5:", "a property", "name"));
  EXPECT_THAT(refusal(format + "element vertex 1.5\nproperty float x\n"),
              mentions("a.ply:3:", "an element", "name"));
  EXPECT_THAT(refusal(format + "element vertex 1\nproperty list uchar int i\n"),
              mentions("a.ply:", "vertices have no numbers"));
}

constexpr const char* kCountTypes[] = {"char", "uchar", "short", "ushort",
                                       "int",  "uint",  "float", "double"};

/// A count of that type, of the host's order or the other one.
std::string count_of(const std::string& type, int n, bool big) {
  const auto bytes = [&](auto number) {
    using T = decltype(number);
    return big ? turned<T>({number}) : raw<T>({number});
  };
  if (type == "char" || type == "uchar") return std::string(1, static_cast<char>(n));
  if (type == "short" || type == "ushort") return bytes(static_cast<std::int16_t>(n));
  if (type == "int" || type == "uint") return bytes(static_cast<std::int32_t>(n));
  return type == "float" ? bytes(static_cast<float>(n)) : bytes(static_cast<double>(n));
}

TEST(PlyLists, OfAVertexArePassedOver) {
  // A list before x, one between, one at the end; of none, one and three values.
  const auto header = [](const std::string& format, const std::string& count) {
    return "ply\nformat " + format + " 1.0\nelement vertex 2\nproperty list " + count +
           " double before\nproperty float x\nproperty list uchar short within\n"
           "property float y\nproperty list " +
           count +
           " uchar behind\nelement face 1\n"
           "property list uchar int vertex_indices\nend_header\n";
  };
  const Tensor expected = table({1, 2, 3, 4}, 2);
  for (const char* count : kCountTypes) {
    const PointTable text = parse_ply(
        header("ascii", count) + "1 0.5 1 0 2 3 7 8 9\n0 3 3 -1 -2 -3 4 0 \r\n3 0 1 0\n", "a.ply");
    EXPECT_THAT(text.names, ElementsAre("x", "y"));
    EXPECT_TRUE(text.values.equal(expected)) << count;
    for (const bool big : {false, true}) {
      const auto f = [&](float number) {
        return big ? turned<float>({number}) : raw<float>({number});
      };
      const auto n = [&](int size) { return count_of(count, size, big); };
      const std::string body = n(1) + std::string(8, 'd') + f(1) + std::string(1, '\0') + f(2) +
                               n(3) + "abc" + n(0) + f(3) +
                               "\x03"
                               "sixsix" +
                               f(4) + n(0) +
                               "\x01"
                               "face";
      const char* format = big ? "binary_big_endian" : "binary_little_endian";
      EXPECT_TRUE(parse_ply(header(format, count) + body, "").values.equal(expected))
          << format << count;
    }
  }
}

TEST(PlyLists, OfDamagedLengthsAreRefused) {
  const auto refusal = [](const std::string& format, const std::string& count,
                          const std::string& body) {
    return message_of<DataError>([&] {
      parse_ply("ply\nformat " + format +
                    " 1.0\nelement vertex 2\nproperty float x\nproperty list " + count +
                    " float d\nend_header\n" + body,
                "a.ply");
    });
  };
  EXPECT_THAT(refusal("ascii", "int", "1 2 5 5\n2 -1\n"),
              mentions("a.ply:8:", "'d' has -1 values", "damaged"));
  EXPECT_THAT(refusal("ascii", "int", "1 2 5 5\n2 1000000 5\n"),
              mentions("a.ply:8:", "'d' has 1000000 values", "3 bytes"));
  EXPECT_THAT(refusal("ascii", "float", "1 0.5 5\n2 0\n"), HasSubstr("has 0.5 values"));
  EXPECT_THAT(refusal("ascii", "float", "1 nan 5\n2 0\n"), HasSubstr("has nan values"));
  EXPECT_THAT(refusal("ascii", "uchar", "1 1 5 5\n2 0\n"), mentions("a.ply:7:", "line goes on"))
      << "a length that is too small would shift all that follows";
  EXPECT_THAT(refusal("ascii", "uchar", "1 3 5 5\n2 1 6\n"), mentions("a.ply:8:", "line goes on"));
  const std::string one =
      raw<float>({1}) + raw<std::int32_t>({1}) + raw<float>({5}) + raw<float>({2});
  EXPECT_THAT(refusal("binary_little_endian", "int", one + raw<std::int32_t>({-7}) + "abcd"),
              mentions("a.ply:", "byte 20", "'d' has -7 values"));
  EXPECT_THAT(refusal("binary_little_endian", "int", one + raw<std::int32_t>({2}) + "abcdefg"),
              mentions("'d' has 2 values", "7 bytes"));
  EXPECT_THAT(refusal("binary_little_endian", "double", one + "abcdefgh"),
              HasSubstr("the list 'd'"));
}

TEST(ColumnNames, AreThoseOfTheFileInAnyCase) {
  const PointTable points{{"X", "y", "scalar_Label", "SCALAR_LABEL", "Red"}, Tensor()};
  EXPECT_EQ(points.column("X", ""), 0);
  EXPECT_EQ(points.column("x", ""), 0);
  EXPECT_EQ(points.column("Y", ""), 1);
  EXPECT_EQ(points.column("scalar_Label", ""), 2) << "exactly so";
  EXPECT_EQ(points.column("SCALAR_LABEL", ""), 3);
  EXPECT_EQ(points.column("rED", ""), 4);
  EXPECT_THAT(
      message_of<DataError>([&] { points.column("scalar_label", "a.ply"); }),
      mentions("a.ply:", "'scalar_label'", "column 3 ('scalar_Label') or 4 ('SCALAR_LABEL')"));
  EXPECT_THAT(message_of<DataError>([&] { points.column("Z", "a.ply"); }),
              mentions("a.ply:", "no column 'Z'", "X, y, scalar_Label, SCALAR_LABEL, Red"));
}

TEST(ColumnNames, ThatStandTwiceAreRefusedWhereTheyAreAskedFor) {
  const TempFolder folder;
  folder.write("padded.pcd",
               "FIELDS X _ Y _ Z\nSIZE 4 1 4 1 4\nTYPE F U F U F\nWIDTH 1\nDATA ascii\n"
               "1 0 2 0 3\n");
  EXPECT_EQ(read_points(folder / "padded.pcd").values.size(1), 5)
      << "PCL pads with fields called _";
  folder.write("twice.csv", "x,y,z,x\n1,2,3,4\n");
  EXPECT_THAT(message_of<DataError>([&] { read_points(folder / "twice.csv"); }),
              mentions("twice.csv:", "'x'", "column 1 ('x') or 4 ('x')"));
}

}  // namespace
}  // namespace attnlab::point_headers_test
