#include "framework/base/text.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/compositions.h"

namespace attnlab::text_test {
namespace {

using namespace testing;

TEST(Trimmed, LosesWhiteSpaceAtBothEndsAlone) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  const std::string_view blanks = "  ";
  EXPECT_EQ(trimmed(blanks), "");
  EXPECT_EQ(trimmed(blanks).data(), blanks.data() + 2) << "a place in the text, for messages";
}

TEST(ShellWord, IsQuotedWhereAShellWouldReadMore) {
  EXPECT_EQ(shell_word("runs/a-b_c.yaml"), "runs/a-b_c.yaml");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Nearest, FindsTheSlipOfAFinger) {
  const std::vector<std::string> names = {"quest", "standard", "elliptical", "eps", "lr"};
  EXPECT_EQ(nearest("qeust", names), "quest") << "two letters swapped";
  EXPECT_EQ(nearest("standart", names), "standard");
  EXPECT_EQ(nearest("eliptical", names), "elliptical");
  EXPECT_EQ(nearest("quest", names), "quest");
}

TEST(Nearest, PrefersTheNearestOfSeveral) {
  EXPECT_EQ(nearest("depht", {"death", "depth", "width"}), "depth");
  EXPECT_EQ(nearest("early_stpo", {"early_start", "early_stop"}), "early_stop");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("banana", {"quest", "standard"}), "");
  EXPECT_EQ(nearest("xy", {"lr"}), "") << "every letter differs";
  EXPECT_EQ(nearest("x", {}), "");
  const std::string long_word(300'000, 'a');  // the time would be its square
  EXPECT_EQ(nearest(long_word, {long_word}), "");
  EXPECT_EQ(nearest("quets", {long_word, "quest"}), "quest");
}

TEST(Suggestion, ShowsWhatThereIsWhenNothingIsNearAndTheListIsShort) {
  EXPECT_EQ(suggestion("qeust", {"quest"}), "; did you mean 'quest'?");
  EXPECT_EQ(suggestion("banana", {"quest", "standard"}), "; there is quest, standard");
  EXPECT_EQ(suggestion("banana", {}), "");
  EXPECT_EQ(suggestion("banana", std::vector<std::string>(25, "quest")), "");
}

TEST(Join, PutsTheSeparatorBetweenAllPartsEvenEmptyOnes) {
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({"", "b", ""}, "|"), "|b|");
  EXPECT_EQ(join({}, "|"), "");
}

TEST(Shortest, ReadsBackAsTheSameNumber) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1e-12), "1e-12");
  EXPECT_EQ(shortest(3.0), "3");
  EXPECT_EQ(shortest(std::numeric_limits<double>::infinity()), ".inf");
  EXPECT_EQ(shortest(std::nan("")), ".nan");
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 10000; ++i) {
    const double number = std::pow(10.0, exponent(random)) * (i % 2 == 0 ? 1 : -1);
    ASSERT_EQ(Node::scalar(shortest(number)).as_double(), number);
  }
}

TEST(Duration, ReadsAsPeopleSayIt) {
  EXPECT_EQ(duration(0.44), "0.4 s");
  EXPECT_EQ(duration(12.2), "12 s");
  EXPECT_EQ(duration(185), "3 min 05 s");
  EXPECT_EQ(duration(3720), "1 h 02 min");
  EXPECT_EQ(duration(-1), "?");
  EXPECT_EQ(duration(1e300), "?");
  EXPECT_EQ(duration(std::nan("")), "?");
  EXPECT_EQ(duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Duration, RoundsOverToTheNextUnit) {
  EXPECT_EQ(duration(9.97), "10 s");
  EXPECT_EQ(duration(59.7), "1 min 00 s");
  EXPECT_EQ(duration(3599.7), "1 h 00 min");
}

TEST(JsonQuote, GivesTextThatJsonReadsBack) {
  std::string all;
  for (char c = 1; c < 127; ++c) all += c;
  for (const std::string& text : {all, std::string("\0x", 2), std::string("é∞\u2028")}) {
    EXPECT_EQ(nlohmann::json::parse(json_quote(text)).get<std::string>(), text);
  }
}

}  // namespace
}  // namespace attnlab::text_test
