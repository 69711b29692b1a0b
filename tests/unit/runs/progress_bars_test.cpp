// Several bars at once, as a terminal shows them.
#include "framework/runs/progress_bars.h"

#include "framework/base/text.h"
#include "tests/support/compositions.h"

namespace attnlab::progress_bars_test {
namespace {

using namespace testing;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;
using Kind = ProgressEvent::Kind;

/// What a terminal makes of text: line feeds, carriage returns, "erase to the end of the line" and
/// "cursor up", which is all that bars may use. A line that is too long wraps, as on a real one.
class Terminal {
 public:
  explicit Terminal(int columns) : columns_(columns) {}

  void write(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        go_to(row_ + 1);
      } else if (text[i] == '\r') {
        column_ = 0;
      } else if (text.compare(i, 3, "\033[K") == 0) {
        screen_[row_].resize(std::min(screen_[row_].size(), column_));
        i += 2;
      } else if (text.compare(i, 4, "\033[1A") == 0) {
        ASSERT_GT(row_, 0U) << "the cursor leaves the screen";
        --row_;
        i += 3;
      } else {
        ASSERT_NE(text[i], '\033') << "an unknown control sequence";
        std::size_t end = i + 1;  // of a UTF-8 character
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
        put(text.substr(i, end - i));
        i = end - 1;
      }
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (const auto& row : screen_) all.push_back(join(row, ""));
    return all;
  }

 private:
  void go_to(std::size_t row) {
    row_ = row;
    column_ = 0;
    if (screen_.size() <= row) screen_.resize(row + 1);
  }
  void put(const std::string& character) {
    if (column_ == columns_) go_to(row_ + 1);
    screen_[row_].resize(std::max(screen_[row_].size(), column_ + 1), " ");
    screen_[row_][column_++] = character;
  }

  std::size_t columns_;
  std::vector<std::vector<std::string>> screen_ = std::vector<std::vector<std::string>>(1);
  std::size_t row_ = 0, column_ = 0;
};

ProgressEvent event(Kind kind, const std::string& run, std::int64_t step = 0) {
  return {kind, run, step, 40, 0.5, {}, kind == Kind::end ? "done" : ""};
}

ScreenSize wide() { return {120, 24}; }
ScreenSize narrow() { return {40, 24}; }
ScreenSize low() { return {120, 6}; }

/// The screen after each of some events.
std::vector<std::vector<std::string>> screens(const std::vector<ProgressEvent>& events,
                                              std::int64_t runs, ScreenSize (*size)() = wide) {
  Terminal terminal(size().columns);
  std::vector<std::vector<std::string>> all;
  auto bars = make_bar_progress(runs, size);
  for (const ProgressEvent& one : events) {
    CaptureStdout();
    bars->report(one);
    terminal.write(GetCapturedStdout());
    all.push_back(terminal.lines());
  }
  CaptureStdout();
  bars = nullptr;  // takes its bars off the screen
  terminal.write(GetCapturedStdout());
  for (const std::string& line : terminal.lines()) EXPECT_THAT(line, Not(HasSubstr("─")));
  return all;
}

TEST(Bars, ShowALineForEachRunAndOneForAll) {
  const auto screen = screens({event(Kind::start, "a/quest/0"), event(Kind::start, "a/standard/11"),
                               event(Kind::evaluation, "a/quest/0", 20)},
                              4)
                          .back();
  ASSERT_EQ(screen.size(), 3U);
  EXPECT_THAT(screen[0], StartsWith("[1/4] a/quest/0     ━━━━━━━━━━━━────────────  50 % "));
  EXPECT_THAT(screen[1], StartsWith("[2/4] a/standard/11 ────────────────────────   0 % "));
  EXPECT_THAT(screen[2], StartsWith("all                 ━━━─────────────────────  12 % "));
  EXPECT_THAT(screen[0], HasSubstr(" left"));
  EXPECT_THAT(screen[2], HasSubstr(" left  0 of 4 runs ended"));
}

TEST(Bars, GiveWayToALineThatStaysAboveThem) {
  const auto all =
      screens({event(Kind::start, "a"), event(Kind::start, "b"), event(Kind::end, "a", 40),
               event(Kind::start, "c"), event(Kind::end, "c", 40), event(Kind::end, "b", 40)},
              3);
  EXPECT_THAT(all[2], ElementsAre("[1/3] a: done  ", StartsWith("[2/3] b ─"), StartsWith("all ")));
  EXPECT_THAT(all[2][2], HasSubstr("1 of 3 runs ended"));
  EXPECT_THAT(all[3], ElementsAre("[1/3] a: done  ", StartsWith("[2/3] b ─"),
                                  StartsWith("[3/3] c ─"), StartsWith("all ")));
  EXPECT_THAT(all[5], ElementsAre("[1/3] a: done  ", "[3/3] c: done  ", "[2/3] b: done  ", ""))
      << "nothing is left of the bars";
}

TEST(Bars, CountARunThatResumesFromWhereItWas) {
  const auto screen = screens({event(Kind::start, "a", 30)}, 2).back();
  EXPECT_THAT(screen[0], StartsWith("[1/2] a ━━━━━━━━━━━━━━━━━━──────  75 % "));
  EXPECT_THAT(screen[1], HasSubstr(" 38 % 0 of 2 runs ended")) << "no time left without a speed";
}

TEST(Bars, NeverWrapNorSplitACharacter) {
  const auto screen = screens({event(Kind::start, "a/quest/0"), event(Kind::start, "b"),
                               event(Kind::evaluation, "b", 40)},
                              4, narrow)
                          .back();
  ASSERT_EQ(screen.size(), 3U) << "one line each";
  EXPECT_EQ(screen[0], "[1/4] a/quest/0 ───────────────────────");
  EXPECT_EQ(screen[1], "[2/4] b         ━━━━━━━━━━━━━━━━━━━━━━━");
}

TEST(Bars, LeaveOutRunsThatDoNotFitTheScreen) {
  std::vector<ProgressEvent> events;
  for (const char* run : {"a", "b", "c", "d", "e"}) events.push_back(event(Kind::start, run));
  const auto screen = screens(events, 9, low).back();
  EXPECT_THAT(screen, ElementsAre(StartsWith("[1/9] a"), StartsWith("[2/9] b"),
                                  StartsWith("[3/9] c"), "and 2 more", StartsWith("all ")));
}

TEST(PlainProgress, NumbersRunsSideBySideInTheOrderOfTheirBeginning) {
  CaptureStdout();
  const auto progress = make_progress(ProgressMode::plain, 3);
  for (const ProgressEvent& one :
       {event(Kind::start, "a"), event(Kind::start, "b"), event(Kind::end, "b", 40),
        event(Kind::start, "c"), event(Kind::end, "a", 40)}) {
    progress->report(one);
  }
  EXPECT_EQ(GetCapturedStdout(),
            "[1/3] a: starts, 40 steps\n[2/3] b: starts, 40 steps\n[2/3] b: done  \n"
            "[3/3] c: starts, 40 steps\n[1/3] a: done  \n");
}

}  // namespace
}  // namespace attnlab::progress_bars_test
