// Documents in a terminal and in Markdown, letter by letter.
#include "framework/document/text.h"

#include "tests/support/compositions.h"

namespace attnlab::text_test {
namespace {

using namespace testing;

TEST(Tables, LineUpInATerminal) {
  const Table rows{
      "", {"who", {"value", true}}, {{"quest", Quantity{.value = 1, .decimals = 0, .spread = 2}}}};
  EXPECT_EQ(table_text(rows, TableStyle::text),
            "who    value\n"
            "-----  -----\n"
            "quest  1 ± 2\n");
  EXPECT_EQ(table_text(rows),
            "| who   | value |\n"
            "|-------|-------|\n"
            "| quest | 1 ± 2 |\n");
}

TEST(Tables, KeepForeignNamesInTheirCells) {
  const std::string clear = "\x1b[2J", turned = "\xe2\x80\xae";
  for (const TableStyle style : {TableStyle::text, TableStyle::markdown}) {
    const std::string table = table_text({"", {"who"}, {{"a\nb" + clear + turned}}}, style);
    EXPECT_THAT(table, AllOf(HasSubstr("a b\\x1b[2J\\u202e"), Not(HasSubstr("\x1b"))));
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  }
}

TEST(Tables, ShowForeignTextInMarkdownAsItIs) {
  EXPECT_EQ(markdown_line("a|b <b>x</b> <!-- [t](u) [t][u] [t]: u"),
            "a\\|b \\<b>x\\</b> \\<!-- [t\\](u) [t\\][u] [t\\]: u");
  EXPECT_EQ(markdown_line("[t\\](u) a\\|b \\x1b"), "[t\\\\\\](u) a\\\\\\|b \\x1b");
  EXPECT_EQ(markdown_line("p < 0.05, [0.1, 0.2], a_b"), "p < 0.05, [0.1, 0.2], a_b");
  EXPECT_THAT(table_text({"", {"who"}, {{std::string("[t](u)")}}}), HasSubstr("| [t\\](u) |"));
}

}  // namespace
}  // namespace attnlab::text_test
