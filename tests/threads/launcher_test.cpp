// Runs side by side: what reaches the progress, who is stopped. This program is each run: see
// `main`.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>

#include "runner/fork_server.h"
#include "runner/local_launcher.h"
#include "runner/process.h"
#include "tests/support/data_files.h"
#include "tests/support/deadline.h"
#include "tests/support/temp_folder.h"

namespace attnlab::launcher_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using testing::Deadline;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;
using testing::TempFolder;

constexpr std::int64_t kSteps = 50;

/// What stands in the way of loading before runs are begun: "an error", or "threads".
constexpr const char* kObstacle = "ATTNLAB_TEST_OBSTACLE";

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

/// What was reported, also as lines for people. Without a lock of its own: a launcher reports from
/// one thread at a time.
class Heard final : public ProgressSink {
 public:
  void show_as(ProgressMode mode) { lines_ = make_progress(mode, 16); }
  void report(const ProgressEvent& event) override {
    events[event.run].push_back(event);
    lines_->report(event);
  }
  void say(const std::string& text) override {
    said.push_back(text);
    lines_->say(text);
  }

  std::map<std::string, std::vector<ProgressEvent>> events;  ///< by run
  std::vector<std::string> said;

 private:
  std::unique_ptr<ProgressSink> lines_ = make_progress(ProgressMode::plain, 16);
};

class LauncherThreads : public ::testing::Test {
 protected:
  /// @param name  "steady", "fails", "fails aloud", "crashes" or "waits", and a number: how the run
  ///              behaves
  void add(const std::string& name, const std::string& ensemble = "") {
    folder_.write(name + "/log.txt", "");
    cells_.push_back({RunFolder(folder_ / name), name, ensemble});
  }

  void launch() {
    ::testing::internal::CaptureStdout();
    LocalLauncher().launch(cells_, options_, heard_);
    printed_ = ::testing::internal::GetCapturedStdout();
    EXPECT_FALSE(has_children());
  }

  std::size_t steps_of(const std::string& run) {
    std::int64_t last = 0;
    std::size_t count = 0;
    for (const ProgressEvent& event : heard_.events[run]) {
      if (event.kind != ProgressEvent::Kind::step) continue;
      EXPECT_EQ(event.step, ++last) << run;
      ++count;
    }
    return count;
  }

  /// How often what runs load first was loaded, and whether the run did it itself.
  std::string load_of(const std::string& run) {
    for (const ProgressEvent& event : heard_.events[run]) {
      if (event.text.starts_with("loaded ")) return event.text;
    }
    return "none";
  }

  std::int64_t ends_of(const std::string& run) {
    const auto& events = heard_.events[run];
    return std::count_if(events.begin(), events.end(), [](const ProgressEvent& event) {
      return event.kind == ProgressEvent::Kind::end;
    });
  }

  std::string end_of(const std::string& run) {
    const auto& events = heard_.events[run];
    if (events.empty() || events.back().kind != ProgressEvent::Kind::end) return "none";
    return events.back().text;
  }

  TempFolder folder_;
  std::vector<LaunchedCell> cells_;
  LaunchOptions options_;
  Heard heard_;
  std::string printed_;
};

TEST_F(LauncherThreads, ReportEachRunWholeAndInOrder) {
  for (int i = 0; i < 6; ++i) add("steady" + std::to_string(i));
  options_.jobs = 3;
  launch();
  for (const LaunchedCell& cell : cells_) {
    EXPECT_EQ(steps_of(cell.label), kSteps) << cell.label;
    EXPECT_EQ(end_of(cell.label), "done") << cell.label;
    EXPECT_THAT(printed_, HasSubstr(cell.label + ": done"));
  }
  EXPECT_EQ(heard_.events.size(), cells_.size());
}

TEST_F(LauncherThreads, LoadOnceForSeveralRuns) {
  for (int i = 0; i < 6; ++i) add("steady" + std::to_string(i));
  options_.jobs = 2;
  launch();
  for (const LaunchedCell& cell : cells_) {
    EXPECT_EQ(load_of(cell.label), "loaded before it") << cell.label;
    EXPECT_EQ(end_of(cell.label), "done") << cell.label;
  }
}

TEST_F(LauncherThreads, LoadInEachRunWhereThatSavesNothingOrCannotBeDoneBefore) {
  add("steady0");
  launch();
  EXPECT_EQ(load_of("steady0"), "loaded by itself");
  add("steady1");
  for (const char* obstacle : {"an error", "threads"}) {
    ::setenv(kObstacle, obstacle, 1);
    heard_ = {};
    launch();
    for (const LaunchedCell& cell : cells_) {
      EXPECT_EQ(load_of(cell.label), "loaded by itself") << cell.label << obstacle;
      EXPECT_EQ(end_of(cell.label), "done") << cell.label << obstacle;
    }
  }
  ::unsetenv(kObstacle);
}

TEST_F(LauncherThreads, LoseOneRunByACrash) {
  for (const char* name : {"crashes1", "steady2", "crashes3", "steady4"}) add(name);
  launch();
  for (const char* name : {"crashes1", "crashes3"}) {
    EXPECT_THAT(end_of(name), HasSubstr("killed by signal 6")) << name;
  }
  for (const char* name : {"steady2", "steady4"}) {
    EXPECT_EQ(load_of(name), "loaded before it") << name;
    EXPECT_EQ(end_of(name), "done") << name;
  }
}

TEST_F(LauncherThreads, DrawOneSetOfBars) {
  for (int i = 0; i < 6; ++i) add("steady" + std::to_string(i));
  options_.jobs = 3;
  heard_.show_as(ProgressMode::bar);
  launch();
  EXPECT_THAT(printed_, HasSubstr("of 16 runs ended"));
  for (const LaunchedCell& cell : cells_) {
    EXPECT_EQ(steps_of(cell.label), kSteps) << cell.label;
    EXPECT_THAT(printed_, HasSubstr(cell.label + ": done"));
  }
}

TEST_F(LauncherThreads, DoNotWaitForALogThatIsAPipe) {
  add("steady0");
  const std::string log = folder_ / "steady0/log.txt";
  std::filesystem::remove(log);
  ASSERT_EQ(::mkfifo(log.c_str(), 0666), 0);
  const Deadline deadline;
  const auto launched = [&] {
    return message_of<FileError>([&] { LocalLauncher().launch(cells_, options_, heard_); });
  };
  EXPECT_THAT(launched(), AllOf(StartsWith(log), mentions("cannot write", "is a pipe")));
  const int reader = ::open(log.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_THAT(launched(), AllOf(StartsWith(log), mentions("cannot write", "is a pipe")));
  ::close(reader);
  EXPECT_FALSE(has_children());
}

TEST_F(LauncherThreads, FailARunOfASuiteAloneWhereItsLogCannotBeOpened) {
  for (const char* name : {"steady 1", "steady 2", "steady 3"}) {
    add(name, "alike");
    folder_.write(std::string(name) + "/config.yaml", "");
  }
  std::filesystem::remove(folder_ / "steady 1/log.txt");
  std::filesystem::create_symlink("nowhere", folder_ / "steady 1/log.txt");
  options_.suite_folder = folder_.path();
  ::testing::internal::CaptureStderr();
  launch();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("attnlab: steady 1: " + folder_ / "steady 1/log.txt" + ": cannot write: "));
  EXPECT_THAT(end_of("steady 1"), mentions("is a link", "remove it"));
  EXPECT_THAT(end_of("steady 2"), StartsWith("done"));
  EXPECT_THAT(end_of("steady 3"), StartsWith("done"));
}

TEST_F(LauncherThreads, StopTheOthersWhereOneFails) {
  for (int i = 0; i < 3; ++i) add("waits" + std::to_string(i));
  add("fails");
  for (int i = 3; i < 6; ++i) add("waits" + std::to_string(i));
  options_.jobs = 4;
  options_.fail_fast = true;
  launch();
  EXPECT_THAT(end_of("fails"), HasSubstr("failed"));
  EXPECT_EQ(cells_[3].folder.status().state, RunState::failed);
  // Those that ran were asked to stop; what had not begun stays as it was.
  for (const LaunchedCell& cell : cells_) {
    if (cell.label == "fails") continue;
    EXPECT_THAT(end_of(cell.label), AnyOf("interrupted", "interrupted before it began", "none"));
    EXPECT_EQ(cell.folder.status().state, RunState::pending) << cell.label;
  }
  EXPECT_EQ(end_of("waits5"), "none");
}

TEST_F(LauncherThreads, TellAFailureOnceAndWithTheRunsLog) {
  add("fails");
  add("fails aloud");
  launch();
  for (const LaunchedCell& cell : cells_) {
    EXPECT_EQ(ends_of(cell.label), 1) << cell.label;
    EXPECT_THAT(end_of(cell.label),
                AllOf(StartsWith("failed: "), HasSubstr("log: " + cell.folder.file("log.txt"))));
  }
}

TEST_F(LauncherThreads, RunOneByOneWhatFailsTogether) {
  for (int i = 0; i < 4; ++i) add("steady" + std::to_string(i), "together");
  options_.jobs = 2;
  launch();
  EXPECT_THAT(heard_.said, Contains(HasSubstr("runs one by one")).Times(2));
  for (const LaunchedCell& cell : cells_) {
    EXPECT_EQ(end_of(cell.label), "done") << cell.label;
    EXPECT_EQ(ends_of(cell.label), 1) << "it had not ended when it failed with others";
  }
}

void say(ProgressEvent::Kind kind, std::int64_t step, const std::string& text = "",
         const std::string& run = "as it calls itself") {
  ProgressEvent event;
  event.kind = kind;
  event.run = run;
  event.step = step;
  event.steps = kSteps;
  event.text = text;
  if (kind == ProgressEvent::Kind::step) event.metrics["loss"] = 1.0 / double(step);
  std::cout << to_json(event) << std::endl;
}

volatile std::sig_atomic_t told = 0;
bool loaded = false;

/// In a process from which the runs are forked.
void load() {
  const char* obstacle = std::getenv(kObstacle);
  if (obstacle != nullptr && std::string_view(obstacle) == "an error") throw Error("no library");
  if (obstacle != nullptr) std::thread(::pause).detach();
  loaded = true;
}

/// What a process of the tests above does in place of training.
int act_as_run(const std::vector<std::string>& words) {
  using Kind = ProgressEvent::Kind;
  const auto last_part = [](const std::string& word) { return word.substr(word.rfind('/') + 1); };
  if (words[0] == "--ensemble") {
    for (const std::string& word : words) {
      if (word.starts_with('/')) say(Kind::end, 0, "failed: out of paint", last_part(word));
    }
    return kRunFailed;
  }
  const std::string name = last_part(words[0]);
  if (name == "fails aloud") say(Kind::end, 0, "failed: out of paint");
  if (name.starts_with("fails")) return kRunFailed;
  std::signal(SIGTERM, [](int) { told = 1; });
  if (name.starts_with("crashes")) std::abort();
  say(Kind::start, 0);
  std::cout << "loaded " << (loaded ? "before it" : "by itself") << std::endl;
  if (name.starts_with("waits")) {
    while (told == 0) ::usleep(1000);
    say(Kind::end, 0, "interrupted");
    return kInterrupted;
  }
  for (std::int64_t step = 1; step <= kSteps; ++step) say(Kind::step, step);
  std::cout << "a plugin that prints" << std::endl;
  say(Kind::end, kSteps, "done");
  return kDone;
}

}  // namespace
}  // namespace attnlab::launcher_test

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (attnlab::is_fork_server(words)) {
    words = attnlab::words_of_job({argv, std::size_t(argc)}, attnlab::launcher_test::load);
  }
  if (words.size() > 1 && words[0] == "run") {
    return attnlab::launcher_test::act_as_run({words.begin() + 1, words.end()});
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
