#include "framework/suites/sweep_grammar.h"

#include <cmath>
#include <random>

#include "tests/support/compositions.h"

namespace attnlab::sweep_grammar_test {
namespace {

using namespace testing;
using Words = std::vector<std::string>;

/// The values of "x=TEXT".
Words values(const std::string& text) { return sweep_values(text, "x=" + text); }

std::string refusal(const std::string& word) {
  return message_of<ConfigError>([&] { parse_sweep({word}); });
}

TEST(SweepGrammar, ReadsListsAndSingleValues) {
  const SweepWords sweep =
      parse_sweep({"lr=1e-4, 3e-4", "dim=8", "seeds+=[7]", "clip-=", "a=[1,2]"});
  ASSERT_EQ(sweep.axes.size(), 1U);
  EXPECT_THAT(sweep.axes[0].keys, ElementsAre("lr"));
  EXPECT_THAT(sweep.axes[0].points, ElementsAre(Words{"1e-4"}, Words{"3e-4"}));
  EXPECT_THAT(sweep.fixed, ElementsAre("dim=8", "seeds+=[7]", "clip-=", "a=[1,2]"));
}

TEST(SweepGrammar, SplitsOnlyOutsideOfBracketsAndQuotes) {
  EXPECT_THAT(values("[1,2],{a: 1, b: 2},'x, y',\"q\\\",r\",plain"),
              ElementsAre("[1,2]", "{a: 1, b: 2}", "'x, y'", "\"q\\\",r\"", "plain"));
  EXPECT_THAT(values("don't,won't"), ElementsAre("don't", "won't"))
      << "an apostrophe is not a quote";
}

TEST(SweepGrammar, TakesAsTextWhatYamlWouldCutOffOrRead) {
  const SweepWords sweep =
      parse_sweep({"root=data/set,data/set #2", "x=a: b,&c", "zip(a=[1 #1, 1 #2], b=[3, 4])"});
  ASSERT_EQ(sweep.axes.size(), 3U);
  EXPECT_THAT(sweep.axes[0].points, ElementsAre(Words{"data/set"}, Words{"data/set #2"}));
  EXPECT_THAT(sweep.axes[1].points, ElementsAre(Words{"a: b"}, Words{"&c"}));
  EXPECT_THAT(sweep.axes[2].points, ElementsAre(Words{"1 #1", "3"}, Words{"1 #2", "4"}));
  EXPECT_THAT(parse_sweep({"root=data/set #2", " root= set "}).fixed,
              ElementsAre("root=data/set #2", "root= set "));
}

TEST(SweepGrammar, KnowsQuotesInsideOfBrackets) {
  EXPECT_THAT(values("['a]', \"b,]\"],{k: ']'},[it's]"),
              ElementsAre("['a]', \"b,]\"]", "{k: ']'}", "[it's]"));
}

TEST(SweepGrammar, RangesIncludeTheirEndWithinRounding) {
  EXPECT_THAT(values("range(0, 1, 0.25)"), ElementsAre("0", "0.25", "0.5", "0.75", "1"));
  EXPECT_THAT(values("range(0,0.3,0.1)"), ElementsAre("0", "0.1", "0.2", "0.3"));
  EXPECT_THAT(values("range(1e-4,3e-4,1e-4)"), ElementsAre("1e-04", "2e-04", "3e-04"));
  EXPECT_THAT(values("range(3,1,-1)"), ElementsAre("3", "2", "1"));
  EXPECT_THAT(values("range(0,1,0.4)"), ElementsAre("0", "0.4", "0.8"));
  EXPECT_THAT(values("range(5,5,1)"), ElementsAre("5"));
  EXPECT_THAT(values("range(0e-2147483648,1,0.5)"), ElementsAre("0", "0.5", "1"));
  EXPECT_THAT(values("range(0e99999999999999999999,1,0.5)"), ElementsAre("0", "0.5", "1"));
  EXPECT_THAT(values("range(1000000,3000000,1000000)"),
              ElementsAre("1000000", "2000000", "3000000"))
      << "integers stay integers";
}

TEST(SweepGrammar, LogspaceIsGeometric) {
  EXPECT_THAT(values("logspace(1e-4,1e-1,4)"), ElementsAre("1e-04", "0.001", "0.01", "0.1"));
  EXPECT_THAT(values("logspace(8,1,4)"), ElementsAre("8", "4", "2", "1"));
  EXPECT_THAT(values("0,logspace(1,100,3)"), ElementsAre("0", "1", "10", "100"));
}

TEST(SweepGrammar, ZipsKeysSideBySide) {
  const SweepWords sweep = parse_sweep({"zip(a=[1,2], b=[[3,3],4], c=range(0,1,1))"});
  ASSERT_EQ(sweep.axes.size(), 1U);
  EXPECT_THAT(sweep.axes[0].keys, ElementsAre("a", "b", "c"));
  EXPECT_THAT(sweep.axes[0].points, ElementsAre(Words{"1", "[3,3]", "0"}, Words{"2", "4", "1"}));
}

TEST(SweepGrammar, SaysWhatIsWrongAndHowItIsWritten) {
  EXPECT_THAT(refusal("zip(a=[1,2],b=[3])"),
              says({"'zip(a=[1,2],b=[3])'", "'a'", "2 values", "'b'"}));
  EXPECT_THAT(refusal("x=range(0,1)"), HasSubstr("expected range(start, stop, step)"));
  EXPECT_THAT(refusal("x=range(0,1,0)"), HasSubstr("is 0"));
  EXPECT_THAT(refusal("x=range(0,1,-0.5)"), HasSubstr("turn the step's sign"));
  EXPECT_THAT(refusal("x=range(0,1,a)"), HasSubstr("'a' is not a number"));
  EXPECT_THAT(refusal("x=range(0,1,1e-9)"), HasSubstr("more than 10000 values"));
  EXPECT_THAT(refusal("x=logspace(0,1,3)"), HasSubstr("needs numbers above 0"));
  EXPECT_THAT(refusal("x=logspace(1,2,1)"), HasSubstr("a count from 2"));
  EXPECT_THAT(refusal("x=linspace(0,1,3)"), HasSubstr("did you mean 'logspace'?"));
  EXPECT_THAT(refusal("x=1,,2"), HasSubstr("missing between commas"));
  EXPECT_THAT(refusal("x=[1,2"), HasSubstr("']' is missing"));
  EXPECT_THAT(refusal("x=1]"), HasSubstr("']' closes nothing"));
  EXPECT_THAT(refusal("x='a,b"), HasSubstr("is not closed"));
  EXPECT_THAT(refusal("x=1e-3,0.001"), HasSubstr("'0.001' stands twice"));
  EXPECT_THAT(refusal("zip([1,2])"), HasSubstr("expected zip(key=[...], key=[...])"));
}

TEST(SweepGrammar, SaysAllThatIsWrong) {
  EXPECT_THAT(message_of<ConfigError>([] {
                parse_sweep({"x=1,,2", "y=3,4", "z=5,5"});
              }),
              says_lines({{"'x=1,,2'", "missing"}, {"'z=5,5'", "'5'", "twice"}}));
}

// ---- laws, on random input

class SweepLaws : public ::testing::Test {
 protected:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::mt19937 random_{20240607};
};

TEST_F(SweepLaws, RangeHasEveryMultipleOfItsStepUpToTheEnd) {
  for (int trial = 0; trial < 2000; ++trial) {
    const int decimals = pick(0, 6), count = pick(1, 40);
    const std::int64_t start = pick(-1000, 1000), step = pick(1, 500) * (pick(0, 1) == 1 ? 1 : -1);
    // The same numbers as integers of 10^-decimals: exact.
    const auto text = [&](std::int64_t units) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.*f", decimals,
                    static_cast<double>(units) / std::pow(10.0, decimals));
      return std::string(buffer);
    };
    const std::int64_t beyond = pick(0, static_cast<int>(std::abs(step)) - 1);
    const std::int64_t stop = start + (count - 1) * step + (step > 0 ? beyond : -beyond);
    const std::string word = "range(" + text(start) + "," + text(stop) + "," + text(step) + ")";
    const Words found = values(word);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(count)) << word;
    for (int i = 0; i < count; ++i) {
      const double expected = std::strtod(text(start + i * step).c_str(), nullptr);
      EXPECT_EQ(std::strtod(found[static_cast<std::size_t>(i)].c_str(), nullptr), expected) << word;
    }
  }
}

TEST_F(SweepLaws, WhatIsJoinedByCommasIsSplitAgain) {
  const Words pieces = {"1e-3",          "[1, 2]", "{a: [1, 2], b: 'x,y'}", "'a, b'", "word",
                        "\"c, \\\" d\"", "-4",     "[[1, 2], [3]]",         "true",   "it's"};
  for (int trial = 0; trial < 2000; ++trial) {
    Words list;
    std::string text;
    for (int i = pick(1, 6); i > 0; --i) {
      list.push_back(
          pieces[static_cast<std::size_t>(pick(0, static_cast<int>(pieces.size()) - 1))]);
      text += (text.empty() ? "" : pick(0, 1) == 1 ? "," : " , ") + list.back();
    }
    EXPECT_EQ(values(text), list) << text;
  }
}

TEST_F(SweepLaws, SeedsAreTheUnionOfTheirRanges) {
  for (int trial = 0; trial < 500; ++trial) {
    std::string text;
    std::vector<std::int64_t> expected;
    std::int64_t next = 0;
    for (int i = pick(1, 5); i > 0; --i) {
      const std::int64_t first = next + pick(0, 3), last = first + pick(0, 4);
      text += (text.empty() ? "" : ",") + std::to_string(first);
      if (last > first || pick(0, 1) == 1) text += "-" + std::to_string(last);
      const bool single = text.back() != '-' && last == first;
      for (std::int64_t seed = first; seed <= (single ? first : last); ++seed) {
        expected.push_back(seed);
      }
      next = last + 1;
    }
    EXPECT_EQ(parse_seeds("[" + text + "]"), expected) << text;
    if (expected.size() > 1) {
      EXPECT_EQ(parse_seeds(text), expected) << text;
    }
  }
}

TEST_F(SweepLaws, NoTextCrashesTheParser) {
  const std::string letters = "ab=,()[]{}'\"\\ 01.e-+rangezip#:&*!|>%@`\n";
  for (int trial = 0; trial < 20000; ++trial) {
    std::string word;
    for (int i = pick(0, 24); i > 0; --i) {
      word += letters[static_cast<std::size_t>(pick(0, static_cast<int>(letters.size()) - 1))];
    }
    try {
      const SweepWords sweep = parse_sweep({word});
      for (const SweepAxis& axis : sweep.axes) {
        for (const Words& point : axis.points) EXPECT_EQ(point.size(), axis.keys.size()) << word;
      }
      EXPECT_EQ(sweep.axes.size() + sweep.fixed.size(), 1U) << word;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()), "") << word;
    }
  }
}

TEST(SweepSeeds, AreListsAndRanges) {
  EXPECT_THAT(parse_seeds("0-4,7"), ElementsAre(0, 1, 2, 3, 4, 7));
  EXPECT_THAT(parse_seeds("[9223372036854775807]"), ElementsAre(9223372036854775807));
  EXPECT_THAT(parse_seeds("[0, 2-3]"), ElementsAre(0, 2, 3));
  for (const char* wrong : {"", "[]", "a", "3-1", "-1", "0-4,4", "1.5", "0-99999999"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { parse_seeds(wrong); }),
                StartsWith(std::string("--seeds ") + wrong + ": "));
  }
}

TEST(SweepSeeds, NeedBothBrackets) {
  EXPECT_THAT(message_of<ConfigError>([] { parse_seeds("[3"); }),
              AllOf(HasSubstr("--seeds [3"), HasSubstr("']'")));
}

TEST(SweepSeeds, AreNotOneNumberWhichMayMeanSoManySeeds) {
  const auto refusal = [](const char* text) {
    return message_of<ConfigError>([&] { parse_seeds(text); });
  };
  EXPECT_THAT(refusal("3"), AllOf(HasSubstr("'[3]'"), HasSubstr("for 3 seeds write --seeds 0-2")));
  EXPECT_THAT(refusal("1"), AllOf(HasSubstr("'[1]'"), Not(HasSubstr("0-0"))));
}

}  // namespace
}  // namespace attnlab::sweep_grammar_test
