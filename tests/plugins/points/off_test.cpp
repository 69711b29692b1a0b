// Meshes in the Object File Format: how words may lie in a file, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/points/mesh.h"
#include "framework/data/points/point_files.h"
#include "tests/plugins/points/point_bytes.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::off_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::table;

TEST(Meshes, AreSampledEvenly) {
  // A square of side 2 in the plane z = 1, as a face of four corners, and a small triangle below.
  const Mesh mesh = parse_off(
      "OFF7 2 0\n0 0 1\n2 0 1\n2 2 1\n0 2 1\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2 3\n3 4 5 6\n", "a.off");
  EXPECT_EQ(mesh.triangles.size(0), 3);
  Random random(1);
  const SampledPoints points = sampled(mesh, 20000, random, "a.off");
  const Tensor above = points.coordinates.select(1, 2).gt(0.5);
  EXPECT_NEAR(above.to(at::kDouble).mean().item<double>(), 4 / 4.5, 0.01) << "by area";
  const Tensor top = points.coordinates.index_select(0, above.nonzero().squeeze(1));
  EXPECT_NEAR(top.select(1, 0).mean().item<double>(), 1, 0.02);
  EXPECT_NEAR(top.select(1, 1).gt(1.5).to(at::kDouble).mean().item<double>(), 0.25, 0.02);
  EXPECT_TRUE(at::allclose(points.normals.abs().select(1, 2), at::ones({20000}), 0, 1e-5));
  EXPECT_THAT(message_of<DataError>([] { parse_off("OFF\n1 1 0\n0 0 0\n3 0 0 1\n", "a.off"); }),
              mentions("a.off:4:", "corner 1,", "of 1"));
  EXPECT_THROW(sampled(parse_off("OFF\n1 1 0\n0 0 0\n3 0 0 0\n", ""), 3, random, ""), DataError);
  EXPECT_THROW(parse_off("OFF\n999999999 1 0\n", ""), DataError);
  for (const char* face : {"nan 0 0 0", "1e300 0 0 0", "4 0 0 0", "2 0 0"}) {
    EXPECT_THROW(parse_off("OFF\n1 1 0\n0 0 0\n" + std::string(face) + "\n", ""), DataError)
        << face;
  }
}

/// Whether a file holds the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2) and the triangles
/// 0 1 2 and 0 1 3.
void expect_pair_of_triangles(const std::string& text) {
  try {
    const Mesh mesh = parse_off(text, "a.off");
    EXPECT_TRUE(mesh.corners.equal(table({0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2}, 3))) << text;
    EXPECT_TRUE(mesh.triangles.equal(at::tensor({0, 1, 2, 0, 1, 3}).view({2, 3}))) << text;
  } catch (const DataError& error) {
    ADD_FAILURE() << text << error.what();
  }
}

TEST(Off, IsOfWordsThatMayShareLinesOrBreakThem) {
  const std::string corners = "0 0 0\n1 0 0\n0 1 0\n0 0 2\n", faces = "3 0 1 2\n3 0 1 3\n";
  for (const char* header : {"OFF\n4 2 5\n", "OFF 4 2 5\n", "OFF4 2 5\n", "OFF\n4 2\n",
                             "OFF\n4\n2\n5\n", "# a\n\n OFF # b\n\n# c\n4 2 5 # d\n"}) {
    expect_pair_of_triangles(header + corners + faces);
  }
  for (const char* places :
       {"0 0 0 1 0 0\n0 1 0 0 0 2\n", "0 0 0 1 0 0 0 1 0 0 0 2\n", "0 0 0  1 0 0  0 1 0\n0 0 2\n",
        "0 0\n0 1 0\n0 0 1 # b\n0 0 0\n2\n", "0\r\n0\r\n0\r\n1 0 0 0 1\r\n0 0 0 2\r\n"}) {
    for (const char* ways :
         {"3 0 1 2\n3 0 1 3\n", "3 0 1 2 3 0 1 3\n", "3\n0 1 2 3\n0 1 3", "3 0\n1 2\n3 0 1\n3\n"}) {
      expect_pair_of_triangles(std::string("OFF\n4 2 5\n") + places + ways);
      expect_pair_of_triangles(std::string("OFF\n4 2 5\n") + corners + ways);
    }
    expect_pair_of_triangles(std::string("OFF\n4 2 5\n") + places +
                             "3 0 1 2 255 0 0\n3 0 1 3 0.5 0.5 0.5 1\n");
  }
  expect_pair_of_triangles("OFF 4 2 5 0 0 0 1 0 0 0 1 0 0 0 2 3 0 1 2 3 0 1 3");
}

TEST(Off, PassesOverColoursNormalsAndPlacesInTextures) {
  const auto file = [](const std::string& kind, const std::string& more) {
    std::string text = kind + "OFF\n4 2 5\n";
    for (const char* corner : {"0 0 0", "1 0 0", "0 1 0", "0 0 2"}) {
      text += std::string(corner) + more + "\n";
    }
    return text;
  };
  const std::string faces = "3 0 1 2\n3 0 1 3\n", coloured = "3 0 1 2 9\n3 0 1 3 9 9 9 9\n";
  for (const auto& [kind, more] : std::vector<std::pair<const char*, const char*>>{
           {"C", " 255 0 0"},
           {"C", " 255 0 0 255"},
           {"C", " 0.5 0.5 0.5 1.0"},
           {"N", " 0 0 1"},
           {"CN", " 0 0 1 3 4 5"},
           {"NC", " 3 4 5 6 0 0 1"},
           {"ST", " 0.5 0.25"},
           {"STCN", " 0 0 1 3 4 5 6 0.5 0.25"},
           {"", " 255 0 0"}}) {  // a colour that is not declared: the line tells
    expect_pair_of_triangles(file(kind, more) + faces);
    expect_pair_of_triangles(file(kind, more) + coloured);
  }
  // Several corners a line: the whole file tells whether a colour has three numbers or four.
  for (const char* colour : {"7 8 9 ", "7 8 9 255 "}) {
    const std::string c = colour;
    expect_pair_of_triangles("COFF\n4 2 5\n0 0 0 " + c + "1 0 0 " + c + "\n0 1 0 " + c + "0 0 2 " +
                             c + "\n" + faces);
    expect_pair_of_triangles("COFF\n4 2 5\n0 0 0 " + c + "1 0 0 " + c + "\n0 1 0 " + c + "0 0 2 " +
                             c + "\n" + coloured);
  }
  expect_pair_of_triangles("NOFF 4 2 5\n0 0 0 0 0 1 1 0 0 0 0 1\n0 1 0 0 0 1 0 0 2 0 0 1\n" +
                           faces);
}

TEST(Off, NamesTheLineOfWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return message_of<DataError>([&] { parse_off(text, "a.off"); });
  };
  const std::string corners = "0 0 0\n1 0 0\n0 1 0\n0 0 2\n", start = "OFF\n4 2 5\n" + corners;
  EXPECT_THAT(refusal("OFF BINARY\n"), mentions("a.off:1:", "OFF BINARY", "as text"));
  EXPECT_THAT(refusal("4OFF\n1 0 0\n0 0 0 1\n"), mentions("a.off:1:", "'4OFF'", "x, y, z"));
  EXPECT_THAT(refusal("nOFF\n3\n1 0 0\n0 0 0\n"), HasSubstr("'nOFF' has corners of other"));
  EXPECT_THAT(refusal("C4nOFF\n"), HasSubstr("'C4nOFF' has corners of other"));
  for (const char* other : {"", "off\n1 0 0\n", "XOFF\n1 0 0\n", "ply\n", "SOFF\n", "1 0 0\n"}) {
    EXPECT_THAT(refusal(other), HasSubstr("begin with 'OFF'"));
  }
  for (const char* sizes : {"-4 2 5", "4.5 2 5", "nan 2 5", "4 x 5", "9999999 2 5"}) {
    EXPECT_THAT(refusal(std::string("OFF\n") + sizes + "\n" + corners),
                HasSubstr("how many corners and faces"))
        << sizes;
  }
  EXPECT_THAT(refusal(start + "3 0 1 2\n3 0 1 4\n"), mentions("a.off:8:", "corner 4,", "of 4"));
  EXPECT_THAT(refusal(start + "3 0 1 2\n3 0 1 1.5\n"), mentions("a.off:8:", "corner 1.5"));
  EXPECT_THAT(refusal(start + "3 0 1 2\n3 0 1 -1\n"), mentions("a.off:8:", "corner -1"));
  EXPECT_THAT(refusal("OFF\n4 2 5\n0 0 0 1 0 0\n0 1 0 0 0 2\n3 0 1 2\n3 0 1 4\n"),
              mentions("a.off:6:", "corner 4"))
      << "two corners a line";
  EXPECT_THAT(refusal(start + "3 0 1 2\n2 0 1\n"), HasSubstr("three at least, not 2"));
  EXPECT_THAT(refusal(start + "3 0 1 2\n3 0 1 o\n"), mentions("a.off:8:", "'o'", "number"));
  EXPECT_THAT(refusal(start + "3 0 1 2 red\n3 0 1 3\n"), mentions("a.off:7:", "'red'", "number"));
  EXPECT_THAT(refusal(start + "3 0 1 2\n"), mentions("file ends", "header"));
  EXPECT_THAT(refusal(start + "3 0 1 2\n3 0 1 3\n3 0 2 3\n"),
              mentions("a.off:9:", "4 corners and 2 faces"));
  EXPECT_THAT(refusal("COFF\n2 0 0\n0 0 0 1 2\n1 1 1 1 2\n"),
              mentions("a.off:3:", "a corner", "colour of 3 or 4", "are 5"));
}

TEST(Off, GivesItsCornersAsPoints) {
  const testing::TempFolder folder;
  folder.write("a.OFF",
               "\xef\xbb\xbf"
               "COFF 2 0 0\n1 2 3 255 0 0\n4 5 6 255 0 0\n");
  const PointTable points = read_points(folder / "a.OFF");
  EXPECT_THAT(points.names, ElementsAre("x", "y", "z"));
  EXPECT_TRUE(points.values.equal(table({1, 2, 3, 4, 5, 6}, 3)));
}

}  // namespace
}  // namespace attnlab::off_test
