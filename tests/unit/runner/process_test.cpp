// Child processes: none is left behind. This program is its own child: see `main`.
#include "runner/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "framework/base/process_alive.h"
#include "framework/base/threads.h"
#include "runner/local_launcher.h"
#include "tests/support/compositions.h"
#include "tests/support/few_threads.h"
#include "tests/support/temp_folder.h"

namespace attnlab::process_test {
namespace {

using namespace testing;

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

TEST(RunSelf, LeavesNoChildBehindWhenItsReaderThrows) {
  const TempFolder folder;
  const auto refuse = [](const std::string& line) { throw Error("cannot take '" + line + "'"); };
  EXPECT_THAT(message_of<Error>([&] { run_self({"wait"}, folder / "log", refuse); }),
              HasSubstr("cannot take 'here'"));
  EXPECT_FALSE(has_children());
}

TEST(NoteSignals, CountsThem) {
  const auto count = [] {
    note_signals();
    const int before = signals_noted();
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    std::_Exit(interrupted() ? signals_noted() - before : 0);
  };
  EXPECT_EXIT(count(), ::testing::ExitedWithCode(2), "") << "a second one is another request";
}

TEST(RunSelf, KillsWhatTakesTooLong) {
  const TempFolder folder;
  std::vector<std::string> lines;
  const ProcessResult result =
      run_self({"wait"}, folder / "log", [&](const std::string& line) { lines.push_back(line); },
               {.time_limit = 0.2});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_FALSE(has_children());
}

TEST(RunSelf, CutsLinesThatDoNotEnd) {
  const TempFolder folder;
  std::vector<std::string> lines;
  const ProcessResult result =
      run_self({"flood"}, folder / "log", [&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(result.ok());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "first");
  EXPECT_EQ(lines[1], std::string(kLongestOutput, 'x'));
  EXPECT_EQ(lines[2], "");
  EXPECT_EQ(lines[3], "last");
}

TEST(RunSelf, KillsWhatTakesTooLongWhilePrintingWithoutAPause) {
  const TempFolder folder;
  const auto slow = [](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const ProcessResult result = run_self({"endless"}, folder / "log", slow, {.time_limit = 0.3});
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(has_children());
}

TEST(RunSelf, EndsWhatAProcessLeavesBehindHoldingItsOutput) {
  const TempFolder folder;
  std::vector<std::string> lines;
  const ProcessResult result =
      run_self({"leave"}, folder / "log", [&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(result.ok());
  ASSERT_EQ(lines.size(), 1U);
  const pid_t left = std::stoi(lines[0]);
  while (is_alive(left)) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // or for ever
}

TEST(RunSelf, WritesItsLogThroughNoLink) {
  const TempFolder folder;
  folder.write("precious", "text");
  std::filesystem::create_symlink("precious", folder / "log");
  EXPECT_THAT(message_of<FileError>(
                  [&] { run_self({"flood"}, folder / "log", [](const std::string&) {}); }),
              says({folder / "log", "cannot write", "is a link", "remove it"}));
  EXPECT_EQ(read_text(folder / "precious"), "text");
}

TEST(RunSelf, LeavesSignalsIgnoredThatWere) {
  const TempFolder folder;
  for (const int signal : {SIGINT, SIGHUP}) {
    const auto before = std::signal(signal, SIG_IGN);
    run_self({"flood"}, folder / "log", [](const std::string&) {});
    EXPECT_EQ(std::signal(signal, before), SIG_IGN) << ::strsignal(signal);
  }
}

TEST(EndOnSignals, PutsBackWhatSignalsDidBeforeAChild) {
  const TempFolder folder;
  run_self({"flood"}, folder / "log", [](const std::string&) {});
  EXPECT_FALSE(end_on_signals());
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto now = std::signal(signal, SIG_DFL);
    EXPECT_TRUE(now == SIG_DFL || now == SIG_IGN) << ::strsignal(signal);
    std::signal(signal, now);
  }
}

TEST(Capture, WaitsForAProcessAloneNotForWhatItLeavesBehind) {
  const Captured captured = capture({"/bin/sh", "-c", "sleep 100 & echo $!"});
  EXPECT_EQ(captured.exit_code, 0);
  EXPECT_EQ(::kill(std::stoi(captured.out), SIGKILL), 0) << "it was waited for";
}

TEST(LogTail, IsTheLastLinesThatSaySomething) {
  const TempFolder folder;
  EXPECT_EQ(log_tail(folder / "none", 3), "");
  const std::string log = folder.write("log", "one\ntwo\n\nthree\n\n");
  EXPECT_EQ(log_tail(log, 2), "two\nthree");
  EXPECT_EQ(log_tail(log, 9), "one\ntwo\nthree");
  EXPECT_LT(log_tail(folder.write("log", std::string(5'000'000, 'x')), 9).size(), 3000U);
}

class Silent final : public ProgressSink {
 public:
  void report(const ProgressEvent&) override {}
  void say(const std::string&) override {}
};

TEST(LocalLauncher, SaysWhatToDoWhereItsThreadsCannotStart) {
  const TempFolder folder;
  std::vector<LaunchedCell> cells;
  for (const char* name : {"a", "b", "c"}) {
    folder.write(std::string(name) + "/log.txt", "");
    cells.push_back({RunFolder(folder / name), name, ""});
  }
  Silent silent;
  LaunchOptions options;
  options.jobs = 3;
  for (const int started : {0, 1, 2}) {
    const FewThreads few(started);
    EXPECT_THAT(message_of<ThreadError>([&] { LocalLauncher().launch(cells, options, silent); }),
                HasSubstr("cannot start a thread"));
    EXPECT_FALSE(has_children()) << started;
  }
}

}  // namespace
}  // namespace attnlab::process_test

/// Called as `attnlab run ...` or `attnlab wait` by the tests above: says so, and waits for a
/// signal. As `attnlab flood`, prints a line of five times the length that is kept.
int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "run" || word == "wait") {
    std::puts("here");
    std::fflush(stdout);
    ::pause();
    return 1;
  }
  if (word == "flood") {
    std::printf("first\n%s\n\nlast", std::string(5 * attnlab::kLongestOutput, 'x').c_str());
    return 0;
  }
  if (word == "endless") {
    while (std::puts("on and on") >= 0) continue;
    return 1;
  }
  if (word == "leave") {
    const pid_t left = ::fork();
    if (left == 0) {
      ::pause();
      return 1;
    }
    std::printf("%d\n", left);
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
