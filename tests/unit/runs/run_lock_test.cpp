#include "framework/runs/run_lock.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/compositions.h"
#include "tests/support/deadline.h"

namespace attnlab::run_lock_test {
namespace {

using namespace testing;

/// A process that holds a folder's lock until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& folder) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      const RunLock lock(folder);
      const char ready = 1;
      if (::write(ends[1], &ready, 1) == 1) ::pause();
      ::_exit(0);
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~OtherProcess() { kill_it(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill_it() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST(RunLock, NobodyHoldsAFreshFolder) {
  const TempFolder folder;
  EXPECT_FALSE(holder_of(folder.path()));
  EXPECT_FALSE(holder_of(folder / "gone"));
}

TEST(RunLock, KeepsASecondProcessOutAndNamesTheFirst) {
  const TempFolder folder;
  const OtherProcess other(folder.path());
  const auto holder = holder_of(folder.path());
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, other.pid());
  const std::string message = message_of<BusyError>([&] { RunLock lock(folder.path()); });
  EXPECT_THAT(message, AllOf(StartsWith(folder.path() + ": is being run by process " +
                                        std::to_string(other.pid()) + " on host "),
                             HasSubstr("wait for its end")));
}

TEST(RunLock, EndsWithAKilledProcess) {
  const TempFolder folder;
  OtherProcess other(folder.path());
  other.kill_it();
  EXPECT_FALSE(holder_of(folder.path())) << "the file still names the dead process";
  EXPECT_NE(read_text(folder / "lock"), "");
  const RunLock mine(folder.path());
  EXPECT_EQ(holder_of(folder.path())->pid, ::getpid());
}

TEST(RunLock, IsFreeAgainAfterwards) {
  const TempFolder folder;
  { const RunLock lock(folder.path()); }
  EXPECT_FALSE(holder_of(folder.path()));
  EXPECT_EQ(read_text(folder / "lock"), "");
  const RunLock again(folder.path());
}

TEST(RunLock, DoesNotWaitForAFifo) {
  const TempFolder folder;
  const Deadline deadline;
  ASSERT_EQ(::mkfifo((folder / "lock").c_str(), 0600), 0);
  EXPECT_FALSE(holder_of(folder.path()));
}

TEST(RunLock, IsNotOfAFolderWhoseFilesLeadElsewhere) {
  namespace fs = std::filesystem;
  const TempFolder folder;
  folder.write("precious", "text");
  fs::create_directories(folder / "run/evaluations");
  for (const char* name : {"run/status.json", "run/evaluations/fog-1.json", "run/lock"}) {
    fs::create_symlink(folder / "precious", folder / name);
    EXPECT_THAT(message_of<FileError>([&] { RunLock lock(folder / "run"); }),
                AllOf(StartsWith(folder / name), mentions("cannot write", "is a link")));
    fs::remove(folder / name);
  }
  EXPECT_THAT(names_in(folder / "run"), ElementsAre("evaluations"));
  EXPECT_EQ(read_text(folder / "precious"), "text");
  fs::create_directory_symlink("run", folder / "linked");  // where it lies is its owner's choice
  const RunLock lock(folder / "linked");
}

TEST(RunLock, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(message_of<FileError>([] { RunLock lock("/nowhere/at/all"); }),
              mentions("/nowhere/at/all/lock:", "cannot write"));
}

}  // namespace
}  // namespace attnlab::run_lock_test
