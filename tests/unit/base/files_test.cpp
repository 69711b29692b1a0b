#include "framework/base/files.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/process_alive.h"
#include "tests/support/compositions.h"
#include "tests/support/unprivileged.h"

namespace attnlab::files_test {
namespace {

using namespace testing;
namespace fs = std::filesystem;

/// No file can grow past a number of bytes: a stand-in for a full disk that needs no rights.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("cannot limit file sizes");
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  sighandler_t old_handler_ = SIG_DFL;
};

class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit few{most, old_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &old_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit old_{};
};

// ---- AtomicFile

TEST(RemoveTree, RemovesFoldersThatAreClosedToTheirOwner) {
  const TempFolder around;
  const Unprivileged user(around.path());
  if (!user.works()) GTEST_SKIP() << "no user with fewer rights can be had here";
  const std::string root =
      fs::temp_directory_path() / ("attnlab-closed-" + std::to_string(::getpid()));
  fs::create_directories(root + "/in/a/b");
  write_file(root + "/in/a/b/x", "x");
  fs::create_directory(root + "/outside");
  fs::create_directory_symlink(root + "/outside", root + "/in/link");
  fs::permissions(root + "/outside", fs::perms::none);
  fs::permissions(root + "/in/a/b", fs::perms::none);
  fs::permissions(root + "/in/a", fs::perms::none);
  remove_tree(root + "/in");
  EXPECT_FALSE(fs::exists(root + "/in"));
  EXPECT_EQ(fs::status(root + "/outside").permissions(), fs::perms::none);
  remove_tree(root);
  EXPECT_FALSE(fs::exists(root));
  remove_tree(root);  // there is none
}

TEST(RemoveTree, RemovesFoldersThatAreDeeperThanThereAreDescriptors) {
  const TempFolder around;
  const FewDescriptors few(64);
  const std::string root = around / "deep";
  fs::create_directories(root);
  int at = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int depth = 0; depth < 500; ++depth) {
    ASSERT_EQ(::mkdirat(at, "a", 0755), 0);
    ASSERT_EQ(::mkdirat(at, ".attnlab-3", 0755), 0) << "a name that it may choose itself";
    const int inner = ::openat(at, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::close(::openat(inner, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    ::close(at);
    at = inner;
  }
  ::close(at);
  remove_tree(root);
  EXPECT_FALSE(fs::exists(root));
}

TEST(AtomicFile, AppearsOnlyWhenItIsCommitted) {
  const TempFolder folder;
  AtomicFile file(folder / "a");
  file.write("one");
  file.write("two");
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(read_text(folder / "a"), "onetwo");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, LeavesTheOldFileWhenItIsNotCommitted) {
  const TempFolder folder;
  folder.write("a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(read_text(folder / "a"), "old");
  }
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, ReplacesTheOldFileWhole) {
  const TempFolder folder;
  folder.write("a", "something much longer than what follows");
  write_file(folder / "a", "new");
  EXPECT_EQ(read_text(folder / "a"), "new");
}

TEST(AtomicFile, LeavesNothingBehindWhenItsFolderIsMissingOrItsNameIsTaken) {
  const TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { write_file(folder / "gone/a", "x"); }),
              says({folder / "gone/a", "cannot create", "No such file or directory"}));
  folder.write("taken/inside", "x");
  EXPECT_THAT(message_of<FileError>([&] { write_file(folder / "taken", "x"); }),
              says({folder / "taken", "cannot write", "is a folder"}));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("taken"));
}

TEST(AtomicFile, FollowsLinksAndLeavesThem) {
  const TempFolder folder;
  folder.write("deep/real", "old");
  fs::create_symlink("deep/real", folder / "near");
  fs::create_symlink("near", folder / "far");
  fs::create_symlink("deep/new", folder / "dangling");
  fs::create_symlink("circle", folder / "circle");
  write_file(folder / "far", "new");
  write_file(folder / "dangling", "born");
  EXPECT_TRUE(fs::is_symlink(folder / "far") && fs::is_symlink(folder / "near"));
  EXPECT_EQ(read_text(folder / "deep/real"), "new");
  EXPECT_EQ(read_text(folder / "deep/new"), "born");
  EXPECT_THROW(write_file(folder / "circle", "x"), FileError);
  EXPECT_THAT(names_in(folder.path()),
              ::testing::UnorderedElementsAre("circle", "dangling", "deep", "far", "near"));
}

TEST(AtomicFile, KeepsWhoMayReadTheFile) {
  const TempFolder folder;
  folder.write("a", "old");
  fs::permissions(folder / "a", fs::perms::owner_read | fs::perms::owner_write);
  write_file(folder / "a", "new");
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFile, WritesToFifosAndDevicesAndLeavesThem) {
  const TempFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file(fifo, "text");
  char read[8] = {};
  EXPECT_EQ(::read(reader, read, sizeof read), 4);
  ::close(reader);
  EXPECT_STREQ(read, "text");
  EXPECT_EQ(fs::status(fifo).type(), fs::file_type::fifo);

  fs::create_symlink("/dev/null", folder / "nothing");
  write_file(folder / "nothing", "gone");
  EXPECT_EQ(fs::status(folder / "nothing").type(), fs::file_type::character);
  EXPECT_THAT(message_of<FileError>([] { write_file("/dev/full", "x"); }),
              says({"/dev/full:", "cannot write", "No space left on device", "resume"}));
  EXPECT_EQ(fs::status("/dev/full").type(), fs::file_type::character);
  EXPECT_THAT(names_in(folder.path()), ::testing::UnorderedElementsAre("fifo", "nothing"));
}

TEST(AtomicFile, WritesBehindWhatStandsInAFileThatIsOpen) {
  const TempFolder folder;
  const std::string notes = folder.write("notes", "earlier\n");
  const int file = ::open(notes.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::lseek(file, 0, SEEK_END), 8);
  const std::string number = std::to_string(file);
  fs::create_symlink("/dev/fd/" + number, folder / "link");
  write_file("/proc/self/fd/" + number, "one\n");
  write_file("/dev/fd/" + number, "two\n");
  write_file(folder / "link", "three\n");
  EXPECT_EQ(::write(file, "mine\n", 5), 5) << "behind what was written";
  EXPECT_EQ(read_text(notes), "earlier\none\ntwo\nthree\nmine\n");
  const pid_t child = ::fork();
  if (child == 0) {  // of another process
    try {
      write_file("/proc/" + std::to_string(::getppid()) + "/fd/" + number, "child\n");
    } catch (const FileError&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(read_text(notes), "earlier\none\ntwo\nthree\nmine\nchild\n");
  fs::remove(notes);
  write_file("/dev/fd/" + number, "gone");
  ::close(file);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("link"));
  EXPECT_THROW(write_file(folder / "link", "x"), FileError) << "it is not open any more";
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseWhenItCannotGrow) {
  const TempFolder folder;
  folder.write("a", "old");
  {
    const FileSizeLimit limit(1 << 16);
    const std::string large(1 << 20, 'x');
    EXPECT_EQ(message_of<FileError>([&] { write_file(folder / "a", large); }),
              folder / "a" + ": cannot write: File too large");
  }
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, RefusesToGoOnAfterAFailedWrite) {
  const TempFolder folder;
  const FileSizeLimit limit(1 << 16);
  AtomicFile file(folder / "a");
  const std::string large(1 << 20, 'x');
  EXPECT_THROW(file.write(large), FileError);
  EXPECT_THROW(file.write("small"), FileError);
  EXPECT_THROW(file.commit(), FileError);
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(AtomicFile, LeavesTheOldFileOrTheNewOneWhenTheProcessIsKilled) {
  const TempFolder folder;
  const std::string old_text(1 << 20, 'o');
  const std::string new_text(1 << 20, 'n');
  for (int delay = 0; delay < 20; ++delay) {
    folder.write("a", old_text);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      while (true) write_file(folder / "a", new_text);
    }
    ::usleep(static_cast<useconds_t>(delay) * 300);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string text = read_text(folder / "a");
    ASSERT_TRUE(text == old_text || text == new_text) << delay;
  }
}

TEST(Temporaries, OfDeadProcessesOfThisMachineAreRemovedAndNoOthers) {
  const TempFolder folder;
  const ::pid_t dead = ::fork();
  ASSERT_GE(dead, 0);
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  std::string own;  // "a.tmp-HOST-PID", while it is being written
  {
    const AtomicFile file(folder / "a");
    own = names_in(folder.path()).at(0);
  }
  const std::string mark = own.substr(0, own.rfind('-') + 1);
  const std::string kept[] = {mark + std::to_string(::getppid()), "a.tmp-elsewhere-77", "a.tmp-x",
                              mark + "12x", "a"};
  for (const std::string& name : kept) folder.write(name, "");
  folder.write(mark + std::to_string(dead), "");
  folder.write(mark + std::to_string(::getpid()), "of a process before, by chance of this number");
  remove_dead_temporaries(folder.path());
  EXPECT_THAT(names_in(folder.path()), ::testing::UnorderedElementsAreArray(kept));
}

TEST(Temporaries, HaveAnotherNameWhereTheirsIsTakenAndStays) {
  const TempFolder folder;
  std::string own;
  {
    const AtomicFile file(folder / "a");
    own = names_in(folder.path()).at(0);
  }
  folder.write(own + "/inside", "which keeps the folder from being removed");
  write_file(folder / "a", "text");
  EXPECT_EQ(read_text(folder / "a"), "text");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a", own));
  std::string other = own;
  other.insert(other.rfind('-') + 1, "0");
  folder.write(other, "of a process before, by chance of this number");
  write_file(folder / "a", "again");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a", own));
}

TEST(Temporaries, OfDeadWritersOfAFileGoWhenItIsWrittenAgain) {
  const TempFolder folder;
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const std::string end = std::string(".tmp-") + host + "-" + std::to_string(dead);
  folder.write("page.html" + end, "half");
  folder.write("other.html" + end, "half");
  write_file(folder / "page.html", "whole");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("other.html" + end, "page.html"));
}

// A process that was killed stays in the table until its parent asks for it; process 1 may do that
// late (seconds here) or, in a container, never.
TEST(Temporaries, OfAKilledProcessThatNobodyHasAskedForGoToo) {
  const TempFolder folder;
  const ::pid_t killed = ::fork();
  ASSERT_GE(killed, 0);
  if (killed == 0) {
    AtomicFile file(folder / "page.html");
    ::raise(SIGKILL);
  }
  siginfo_t how = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(killed), &how, WEXITED | WNOWAIT), 0);
  ASSERT_EQ(::kill(killed, 0), 0) << "it is in the table";
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
  EXPECT_FALSE(is_alive(killed));
  write_file(folder / "page.html", "whole");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("page.html"));
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  EXPECT_FALSE(is_alive(killed));
  EXPECT_TRUE(is_alive(::getpid()));
  EXPECT_TRUE(is_alive(1)) << "somebody else's";
}

// ---- a disk that is really full, in a namespace of its own

constexpr const char* kNotPermitted = "not permitted";

bool write_once(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY);
  const bool done = file >= 0 && ::write(file, text.data(), text.size()) > 0;
  if (file >= 0) ::close(file);
  return done;
}

/// A tmpfs that nobody else sees. @returns whether the system permits it.
bool mount_small_disk(const std::string& folder) {
  const std::string user = "0 " + std::to_string(::geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(::getegid()) + " 1";
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  const bool mapped = write_once("/proc/self/uid_map", user) &&
                      write_once("/proc/self/setgroups", "deny") &&
                      write_once("/proc/self/gid_map", group);
  if (!mapped) return false;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") == 0;
}

/// Runs `act` in a child process whose `folder` is a disk of 64 KiB. @returns what it returns.
template <class Act>
std::string on_a_small_disk(const std::string& folder, Act&& act) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string report = kNotPermitted;
    try {
      if (mount_small_disk(folder)) report = act();
    } catch (const std::exception& error) {
      report = std::string("unexpected: ") + error.what();
    }
    const bool told = ::write(ends[1], report.data(), report.size()) >= 0;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string report;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    report.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return report;
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseOnAFullDisk) {
  const TempFolder folder;
  const std::string report = on_a_small_disk(folder.path(), [&] {
    write_file(folder / "a", "old");
    std::string said = "nothing was thrown";
    try {
      write_file(folder / "a", std::string(1 << 20, 'x'));
    } catch (const FileError& error) {
      said = error.what();
    }
    said += " | " + read_text(folder / "a") + " |";
    for (const std::string& name : names_in(folder.path())) said += " " + name;
    write_file(folder / "a", "and there is room again");
    return said;
  });
  if (report == kNotPermitted) GTEST_SKIP() << "this system lets no test mount a disk";
  EXPECT_THAT(report, mentions(folder / "a", "No space left on device", "resume", " | old | a"));
}

TEST(LineWriter, LeavesWholeLinesOnAFullDisk) {
  const TempFolder folder;
  const std::string report = on_a_small_disk(folder.path(), [&] {
    std::size_t lines = 0;
    std::string said = "nothing was thrown";
    LineWriter writer(folder / "a");
    try {
      for (; lines < 10000; ++lines) writer.line(std::string(99, 'x'));
    } catch (const FileError& error) {
      said = error.what();
    }
    const std::string text = read_text(folder / "a");
    const bool whole = lines > 0 && text.size() == lines * 100 && text.back() == '\n' &&
                       writer.size() == static_cast<std::int64_t>(text.size());
    return said + (whole ? " | whole lines" : " | a cut-off line");
  });
  if (report == kNotPermitted) GTEST_SKIP() << "this system lets no test mount a disk";
  EXPECT_THAT(report,
              mentions(folder / "a", "No space left on device", "resume", " | whole lines"));
}

// ---- LineWriter

TEST(LineWriter, AppendsLinesAndKnowsTheSizeOfTheFile) {
  const TempFolder folder;
  {
    LineWriter writer(folder / "a");
    writer.line("one");
    writer.line("");
    EXPECT_EQ(writer.size(), 5);
  }
  LineWriter writer(folder / "a");
  EXPECT_EQ(writer.size(), 5);
  writer.line("two");
  EXPECT_EQ(read_text(folder / "a"), "one\n\ntwo\n");
}

TEST(LineWriter, CutsAnExistingFileToTheLengthAskedFor) {
  const TempFolder folder;
  folder.write("a", "one\ntwo\nthr");
  LineWriter writer(folder / "a", 4);
  EXPECT_EQ(writer.size(), 4);
  writer.line("2");
  EXPECT_EQ(read_text(folder / "a"), "one\n2\n");
}

TEST(LineWriter, KeepsAFileThatIsShorterThanAskedFor) {
  const TempFolder folder;
  folder.write("a", "one\n");
  LineWriter writer(folder / "a", 1000);
  writer.line("two");
  EXPECT_EQ(read_text(folder / "a"), "one\ntwo\n");
  EXPECT_EQ(LineWriter(folder / "a", 0).size(), 0);
  EXPECT_EQ(read_text(folder / "a"), "");
}

TEST(LineWriter, TakesBackTheHalfLineThatDidNotFit) {
  const TempFolder folder;
  LineWriter writer(folder / "a");
  writer.line("short");
  {
    const FileSizeLimit limit(100);
    EXPECT_EQ(message_of<FileError>([&] { writer.line(std::string(200, 'x')); }),
              folder / "a" + ": cannot write: File too large");
  }
  writer.line("next");
  EXPECT_EQ(read_text(folder / "a"), "short\nnext\n");
}

TEST(LineWriter, NamesTheFileThatItCannotOpen) {
  EXPECT_THAT(message_of<FileError>([] { LineWriter("/nonexistent-folder/a"); }),
              says({"/nonexistent-folder/a:", "cannot write", "No such file or directory"}));
}

// ---- reading and fingerprints

TEST(ReadText, GivesEveryByte) {
  const TempFolder folder;
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>(i % 256);
  write_file(folder / "a", bytes);
  EXPECT_EQ(read_text(folder / "a"), bytes);
  EXPECT_EQ(read_text(folder.write("empty", "")), "");
}

TEST(ReadText, NamesTheFileThatItCannotRead) {
  const TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { read_text(folder / "gone"); }),
              says({folder / "gone", "cannot read", "No such file or directory"}));
  EXPECT_THAT(message_of<FileError>([&] { read_text(folder.path()); }),
              says({folder.path(), "cannot read", "is a folder"}));
}

TEST(ReadText, RefusesWhatMayNeverEnd) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const std::string& path : {folder / "fifo", std::string("/dev/zero")}) {
    EXPECT_THAT(message_of<FileError>([&] { read_text(path); }),
                says({path, "cannot read", "is a device", "copy"}));
  }
}

TEST(ReadText, AdvisesOnPermissions) {
  const TempFolder folder;
  const std::string path = folder.write("a", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_THAT(message_of<FileError>([&] { read_text(path); }),
              says({path, "cannot read", "Permission denied", "permissions"}));
}

TEST(ReadText, ReadsNoMoreThanItMay) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string(100'000, 'a'));
  EXPECT_EQ(read_text(path, 100'000).size(), 100'000U);
  const auto refused = [&](std::uint64_t most) {
    return message_of<FileError>([&] { read_text(path, most); });
  };
  EXPECT_THAT(refused(99'999), mentions(path, "cannot read", "longer than 0 MiB"));
  fs::resize_file(path, std::uintmax_t{100} << 30);  // a hole, longer than most memories
  EXPECT_THAT(refused(kLargestRecord), mentions("longer than 64 MiB", "damaged"));
}

TEST(Fingerprint, IsFnv1a) {  // published test vectors
  EXPECT_EQ(hex(fingerprint("")), "cbf29ce484222325");
  EXPECT_EQ(hex(fingerprint("a")), "af63dc4c8601ec8c");
  EXPECT_EQ(hex(fingerprint("foobar")), "85944171f73967e8");
}

TEST(Fingerprint, ContinuesFromAnEarlierOne) {
  EXPECT_EQ(fingerprint("bar", fingerprint("foo")), fingerprint("foobar"));
}

TEST(FileFingerprint, IsThatOfItsBytes) {
  const TempFolder folder;
  const std::string text = std::string(200'000, 'a') + "b", path = folder.write("a", text);
  EXPECT_EQ(file_fingerprint(path), fingerprint(text));
  EXPECT_EQ(file_fingerprint(path, 200'001), fingerprint(text));
  EXPECT_EQ(file_fingerprint(path, 70'000), fingerprint(text.substr(0, 70'000)));
  EXPECT_EQ(file_fingerprint(path, 0), fingerprint(""));
  EXPECT_EQ(file_fingerprint(path, 200'002), std::nullopt);
  EXPECT_THROW(file_fingerprint(folder / "none"), FileError);
}

TEST(Hex, AlwaysHasSixteenDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0xabc), "0000000000000abc");
  EXPECT_EQ(hex(~std::uint64_t{0}), "ffffffffffffffff");
}

TEST(LastLines, AreReadFromTheEndHoweverLongTheyAre) {
  const TempFolder folder;
  EXPECT_THAT(last_lines(folder / "none", 2), IsEmpty());
  EXPECT_THAT(last_lines(folder.write("empty", ""), 2), IsEmpty());
  const std::string longest(100000, 'x'), more(30000, 'y');
  const std::string path = folder.write("log", "first\n" + longest + "\n\n" + more + "\nlast");
  EXPECT_THAT(last_lines(path, 1), ElementsAre("last"));
  EXPECT_THAT(last_lines(path, 2), ElementsAre(more, "last"));
  EXPECT_THAT(last_lines(path, 3), ElementsAre(longest, more, "last"));
  EXPECT_THAT(last_lines(path, 9), ElementsAre("first", longest, more, "last"));
}

TEST(LastLines, AreOfTheLastMebibyteAlone) {
  const TempFolder folder;
  const std::string path = folder.write("log", "first\n");
  fs::resize_file(path, 64 << 20);
  LineWriter(path).line("\nlast words");
  const std::vector<std::string> lines = last_lines(path, 5);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_LE(lines[0].size(), std::size_t{1} << 20);
  EXPECT_EQ(lines[1], "last words");
}

TEST(ScratchFolder, GoesWithItsContents) {
  std::string path;
  {
    const ScratchFolder folder;
    path = folder.path();
    write_file(folder.file("a"), "text");
    EXPECT_TRUE(std::filesystem::exists(path + "/a"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace attnlab::files_test
