// Tables as text, and lines of numbers.
#include "framework/data/formats/csv.h"

#include "framework/data/formats/lines.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::csv_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using Values = std::vector<std::string>;

TEST(Csv, IsRowsOfNamedColumns) {
  const CsvTable table = parse_csv("id,smiles\n1,CC\n\n2,C=O\r\n", "a.csv");
  EXPECT_EQ(table.columns, (Values{"id", "smiles"}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].values, (Values{"2", "C=O"}));
  EXPECT_EQ(table.place(1), "a.csv:4");
  EXPECT_EQ(table.column("smiles"), 1U);
  EXPECT_THAT(message_of<DataError>([&] { table.column("smile"); }),
              mentions("a.csv:", "no column 'smile'", "'smiles'"));
}

TEST(Csv, PassesOverAByteOrderMark) {
  EXPECT_EQ(parse_csv("\xef\xbb\xbfid,x\n1,2\n", "a.csv").columns, (Values{"id", "x"}));
}

TEST(Csv, ReadsQuotedValues) {
  const CsvTable table =
      parse_csv("a,b\n\"1, 2\",\"say \"\"no\"\"\"\n\"two\nlines\",\n3,\"\"\n", "a.csv");
  EXPECT_EQ(table.rows[0].values, (Values{"1, 2", "say \"no\""}));
  EXPECT_EQ(table.rows[1].values, (Values{"two\nlines", ""}));
  EXPECT_EQ(table.place(2), "a.csv:5");
}

TEST(Csv, TakesOtherSeparatorsAndAnEndWithoutALineEnd) {
  const CsvTable table = parse_csv("a\tb\n1,0\t2", "a.tsv", '\t');
  EXPECT_EQ(table.rows[0].values, (Values{"1,0", "2"}));
}

TEST(Csv, NamesTheLineThatIsWrong) {
  const auto refusal = [](std::string_view text) {
    return message_of<DataError>([&] { parse_csv(text, "a.csv"); });
  };
  EXPECT_THAT(refusal("a,b\n1,2\n3\n"), mentions("a.csv:3:", "1 values", "names 2"));
  EXPECT_THAT(refusal("a,b\n1,2,3\n"), HasSubstr("a.csv:2: has 3 values"));
  EXPECT_THAT(refusal("a\n1\n\"2\n"), mentions("a.csv:3:", "quote that begins"));
  EXPECT_THAT(refusal("a,b\n"), HasSubstr("a.csv: holds no rows"));
  EXPECT_THAT(refusal(""), HasSubstr("a.csv: holds no rows"));
  EXPECT_THAT(message_of<DataError>([] { (void)parse_csv("a,b,a\n1,2,3\n", "a.csv").column("a"); }),
              mentions("a.csv:", "several columns", "'a'"));
}

TEST(TextLines, AreNumbersBetweenCommasAndBlanks) {
  const testing::TempFolder folder;
  const TextLines lines = read_lines(folder.write("a.txt", "1, 2\r\n\n  -3\t4 ,5\nx\n1.5"));
  ASSERT_EQ(lines.lines.size(), 4U);
  EXPECT_EQ(lines.integers(0), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(lines.integers(1), (std::vector<std::int64_t>{-3, 4, 5}));
  EXPECT_EQ(lines.numbers(3), std::vector<double>{1.5});
  EXPECT_THAT(message_of<DataError>([&] { lines.integers(2); }),
              mentions("a.txt:4:", "'x'", "whole number"));
  EXPECT_THAT(message_of<DataError>([&] { lines.integers(3); }),
              mentions("a.txt:5:", "'1.5'", "whole"));
}

TEST(TextLines, RefuseWhatIsNotFinite) {
  const testing::TempFolder folder;
  const TextLines lines = read_lines(folder.write("a.txt", "nan\ninf\n1e999\n1x\n"));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_THAT(message_of<DataError>([&] { lines.numbers(i); }), HasSubstr("is not a number"));
  }
}

}  // namespace
}  // namespace attnlab::csv_test
