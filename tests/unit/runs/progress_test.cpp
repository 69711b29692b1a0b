#include "framework/runs/progress.h"

#include <cmath>

#include "tests/support/compositions.h"

namespace attnlab::progress_test {
namespace {

using namespace testing;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;
using Kind = ProgressEvent::Kind;

ProgressEvent event(Kind kind) {
  return {kind,     "vit/quest/0",
          10,       40,
          0.5,      {{"accuracy", 0.8734}, {"loss", 1.25}},
          "a text", {{"accuracy", Better::higher, "share"}}};
}

std::string said(ProgressMode mode, const std::vector<ProgressEvent>& events,
                 std::int64_t runs = 1) {
  CaptureStdout();
  {
    const auto progress = make_progress(mode, runs);
    for (const ProgressEvent& one : events) progress->report(one);
    progress->say("spoken");
  }
  return GetCapturedStdout();
}

TEST(ProgressJson, GivesBackEveryEvent) {
  for (const Kind kind : {Kind::start, Kind::step, Kind::evaluation, Kind::note, Kind::end}) {
    const ProgressEvent written = event(kind);
    const ProgressEvent read = progress_event(to_json(written));
    EXPECT_EQ(read.kind, written.kind);
    EXPECT_EQ(read.run, written.run);
    EXPECT_EQ(read.step, written.step);
    EXPECT_EQ(read.steps, written.steps);
    EXPECT_EQ(read.epoch, written.epoch);
    EXPECT_EQ(read.metrics, written.metrics);
    EXPECT_EQ(read.text, written.text);
    EXPECT_EQ(read.infos, written.infos);
  }
}

TEST(ProgressJson, IsOneLineWhateverTheTextHolds) {
  ProgressEvent note;
  note.text = "two\nlines, \"quotes\", é";
  EXPECT_EQ(to_json(note).find('\n'), std::string::npos);
  EXPECT_EQ(progress_event(to_json(note)).text, note.text);
}

TEST(ProgressJson, KeepsNumbersExactly) {
  ProgressEvent written = event(Kind::step);
  written.metrics = {{"third", 1.0 / 3.0}, {"tiny", 1e-300}, {"large", 1e300}};
  written.epoch = 2.0 / 7.0;
  const ProgressEvent read = progress_event(to_json(written));
  EXPECT_EQ(read.metrics, written.metrics);
  EXPECT_EQ(read.epoch, written.epoch);
}

TEST(ProgressJson, WritesNullForWhatIsNoFiniteNumber) {
  ProgressEvent written;
  written.metrics = {{"loss", std::nan("")}, {"norm", INFINITY}};
  EXPECT_THAT(to_json(written), HasSubstr(R"({"loss":null,"norm":null})"));
  EXPECT_TRUE(std::isnan(progress_event(to_json(written)).metrics.at("loss")));
}

TEST(ProgressJson, SurvivesTextThatIsNoUtf8) {
  ProgressEvent written;
  written.text = "path \xff";
  EXPECT_THAT(progress_event(to_json(written)).text, StartsWith("path "));
}

TEST(ProgressJson, RefusesOtherText) {
  for (const char* text : {"", "hello", "[]", "5", "{}", R"({"event": 3})",
                           R"({"event": "step", "metrics": {"a": "b"}})"}) {
    EXPECT_THAT(message_of<Error>([&] { progress_event(text); }),
                StartsWith("not a progress event: "))
        << text;
  }
  EXPECT_EQ(message_of<Error>([] { progress_event(R"({"event": "dance"})"); }),
            "unknown event 'dance'");
}

TEST(ProgressMode, IsOneOfFiveWords) {
  EXPECT_EQ(parse_progress_mode("auto"), ProgressMode::automatic);
  EXPECT_EQ(parse_progress_mode("bar"), ProgressMode::bar);
  EXPECT_EQ(parse_progress_mode("plain"), ProgressMode::plain);
  EXPECT_EQ(parse_progress_mode("json"), ProgressMode::json);
  EXPECT_EQ(parse_progress_mode("none"), ProgressMode::none);
  EXPECT_THAT(message_of<ConfigError>([] { parse_progress_mode("plan"); }),
              says({"--progress:", "'plan'", "'plain'"}));
}

TEST(JsonProgress, WritesALineForEachEvent) {
  const std::string text = said(ProgressMode::json, {event(Kind::start), event(Kind::step)});
  std::istringstream lines(text);
  std::vector<Kind> kinds;
  for (std::string line; std::getline(lines, line);) kinds.push_back(progress_event(line).kind);
  EXPECT_THAT(kinds, ElementsAre(Kind::start, Kind::step, Kind::note));
}

TEST(PlainProgress, WritesLinesWithoutControlCharacters) {
  ProgressEvent start = event(Kind::start);
  start.step = 0;
  EXPECT_EQ(said(ProgressMode::plain, {start, event(Kind::evaluation), event(Kind::end)}),
            "vit/quest/0: starts, 40 steps\n"
            "vit/quest/0: epoch 0.5: accuracy 87.34 %  loss 1.25\n"
            "vit/quest/0: a text  accuracy 87.34 %  loss 1.25\n"
            "spoken\n");
}

TEST(PlainProgress, CountsTheRunsOfASuiteAndSaysWhereOneResumes) {
  const std::string text =
      said(ProgressMode::plain, {event(Kind::start), event(Kind::end), event(Kind::start)}, 2);
  EXPECT_EQ(text,
            "[1/2] vit/quest/0: resumes at step 10\n"
            "[1/2] vit/quest/0: a text  accuracy 87.34 %  loss 1.25\n"
            "[2/2] vit/quest/0: resumes at step 10\n"
            "spoken\n");
}

TEST(BarProgress, RedrawsOneLineAndClearsItBeforeItSpeaks) {
  const std::string text = said(ProgressMode::bar, {event(Kind::start), event(Kind::evaluation)});
  EXPECT_THAT(text, HasSubstr("\r\033[K"));
  EXPECT_THAT(text, HasSubstr("━━━━━━──────────────────  25 % ")) << "10 of 40 steps";
  EXPECT_THAT(text, EndsWith("\r\033[Kspoken\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(AutomaticProgress, IsPlainWhereThereIsNoTerminal) {
  EXPECT_EQ(said(ProgressMode::automatic, {event(Kind::note)}), "vit/quest/0: a text\nspoken\n");
}

TEST(ProgressForPeople, LetsNoForeignTextMoveTheCursor) {
  ProgressEvent end = event(Kind::end);
  end.text = "a\x1b]0;x\a b\nsecond line\nException raised from f\nframe #0: f";
  end.metrics = {{"na\x1bme", 1}, {"other\nforged", 2}};
  end.infos = {{"na\x1bme", Better::higher, "nats\nforged"}};
  for (const ProgressMode mode : {ProgressMode::plain, ProgressMode::bar}) {
    CaptureStdout();
    {
      const auto progress = make_progress(mode);
      progress->report(end);
      progress->say("c\x1b[2J d");
    }
    std::string text = GetCapturedStdout();
    for (std::size_t at = text.find("\r\033[K"); at != std::string::npos;) {  // the bars' own
      text.erase(at, 4);
      at = text.find("\r\033[K");
    }
    EXPECT_EQ(text.find_first_of("\x1b\a"), std::string::npos) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("a\\x1b]0;x\\x07 b\n  second line"), HasSubstr("c\\x1b[2J d"),
                            HasSubstr("na\\x1bme 1 nats forged  other forged 2"),
                            Not(HasSubstr("frame #"))));
  }
}

TEST(NoProgress, SaysNothing) {
  EXPECT_EQ(said(ProgressMode::none, {event(Kind::start), event(Kind::end)}), "");
}

TEST(PlainProgress, RemembersWhatARunSaidOfItsMetrics) {
  ProgressEvent later = event(Kind::evaluation);
  later.infos.clear();
  EXPECT_THAT(said(ProgressMode::plain, {event(Kind::start), later}), HasSubstr("87.34 %"));
  EXPECT_THAT(said(ProgressMode::plain, {later}), HasSubstr("accuracy 0.8734")) << "nobody said";
}

}  // namespace
}  // namespace attnlab::progress_test
