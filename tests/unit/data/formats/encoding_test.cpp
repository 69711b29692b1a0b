// Texts with byte-order marks: numbers in lines, tables, series.
#include "framework/data/formats/encoding.h"

#include "framework/data/formats/csv.h"
#include "framework/data/formats/lines.h"
#include "framework/data/formats/ts_file.h"
#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/temp_folder.h"

namespace attnlab::encoding_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::marked;
using testing::message_of;
using testing::utf16;

const auto kRefusal = mentions("a: ", "UTF-16", "iconv -t UTF-8 -f UTF-16");

TEST(Encoding, IsUtf8WithAMarkOrWithout) {
  EXPECT_EQ(without_mark("x", "a"), "x");
  EXPECT_EQ(without_mark(marked("x"), "a"), "x");
  EXPECT_THAT(message_of<DataError>([] { without_mark(utf16("x"), "a"); }), kRefusal);
}

TEST(Encoding, OfLinesMayHaveAMarkGzippedToo) {
  const testing::TempFolder folder;
  for (const std::string& bytes : {marked("1, 2\n3\n"), testing::gzipped(marked("1, 2\n3\n"))}) {
    const TextLines lines = read_lines(folder.write("a", bytes));
    EXPECT_EQ(lines.integers(0), (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(lines.place(1), folder / "a:2");
  }
  EXPECT_TRUE(read_lines(folder.write("a", marked(""))).lines.empty());
  EXPECT_THAT(message_of<DataError>([&] { read_lines(folder.write("a", utf16("1\n"))); }),
              kRefusal);
}

TEST(Encoding, OfLinesHasAMarkNowhereElse) {
  const testing::TempFolder folder;
  const TextLines lines = read_lines(folder.write("a", "1\n" + marked("2\n")));
  EXPECT_THAT(message_of<DataError>([&] { lines.integers(1); }), HasSubstr("a:2: '"));
}

TEST(Encoding, OfTablesAndSeriesIsNamed) {
  EXPECT_THAT(message_of<DataError>([] { parse_csv(utf16("x,y\n1,2\n"), "a"); }), kRefusal);
  EXPECT_THAT(message_of<DataError>([] { parse_ts(utf16("@data\n1\n"), "a"); }), kRefusal);
}

TEST(TextLines, QuoteZeroBytesAndTheRemedyBehindThem) {
  const testing::TempFolder folder;
  const TextLines lines = read_lines(folder.write("a", std::string("1\0\n", 3)));
  EXPECT_THAT(message_of<DataError>([&] { lines.integers(0); }),
              mentions("a:1:", "'1\\x00'", "whole number", "repair the line"));
}

}  // namespace
}  // namespace attnlab::encoding_test
