// Users' text inside HTML, LaTeX, CSV and script elements.
#include "framework/document/markup.h"

#include "tests/support/compositions.h"

namespace attnlab::markup_test {
namespace {

using namespace testing;
using nlohmann::json;

TEST(HtmlText, LeavesNoMarkupStanding) {
  EXPECT_EQ(html_text("<script>alert('x' & \"y\")</script>"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;");
}

TEST(HtmlText, KeepsUnicodeAndReplacesWhatIsNone) {
  EXPECT_EQ(html_text("σ(Q) 注意 🙂"), "σ(Q) 注意 🙂");
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(html_text("a\xFFz"), "a" + mark + "z");
  EXPECT_EQ(html_text("a\xC3"), "a" + mark) << "cut off in the middle of a character";
  EXPECT_EQ(html_text("\xC0\xAF"), mark + mark) << "an overlong slash";
  EXPECT_EQ(html_text("\xED\xA0\x80"), mark + mark + mark) << "half of a surrogate pair";
  EXPECT_EQ(html_text(std::string("a\0b\x1b", 4)), "a" + mark + "b" + mark);
  EXPECT_EQ(html_text("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(html_text("a\xc2\x9b\xe2\x80\xaez"), "a" + mark + mark + "z")
      << "a C1 control, and what turns the order of characters";
  EXPECT_EQ(latex_text("a\xe2\x80\xaez"), "az");
}

TEST(LatexText, WritesEverySpecialCharacterAsItself) {
  EXPECT_EQ(latex_text("50% of a_b & {x} #1 $2 ~ ^ \\end"),
            "50\\% of a\\_b \\& \\{x\\} \\#1 \\$2 \\textasciitilde{} \\textasciicircum{} "
            "\\textbackslash{}end");
  EXPECT_EQ(latex_text("a\nb"), "a b") << "an empty line would end the paragraph";
}

/// A reader of RFC 4180 of our own: fields of the one record that the text holds.
std::vector<std::string> read_record(const std::string& text) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      fields.emplace_back();
    } else if (!quoted && text.compare(i, std::string::npos, "\r\n") == 0) {
      return fields;
    } else {
      fields.back() += c;
    }
  }
  ADD_FAILURE() << "no CRLF at the end of " << text;
  return fields;
}

TEST(CsvRecord, ReadsBackAsItWas) {
  const std::vector<std::string> fields = {"plain", "a,b",   "say \"no\"", "two\nlines",
                                           "",      " end ", "\"",         "é"};
  EXPECT_EQ(read_record(csv_record(fields)), fields);
  EXPECT_EQ(csv_record({"\x1b]0;title\a", "b\r"}), "\\x1b]0;title\\x07,b\\x0d\r\n");
  EXPECT_EQ(csv_record({"a", "b"}), "a,b\r\n") << "no quotes where none are needed";
}

TEST(ScriptJson, CannotEndItsElementAndReadsBackTheSame) {
  const json value = {{"label", "</script><!-- <script> & \" \\ -->"}, {"x", {1, 2.5}}};
  const std::string text = script_json(value);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("<")), Not(HasSubstr(">"))));
  EXPECT_EQ(json::parse(text), value);
}

}  // namespace
}  // namespace attnlab::markup_test
