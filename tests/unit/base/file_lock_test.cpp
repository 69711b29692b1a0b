#include "framework/base/file_lock.h"

#include "framework/base/files.h"
#include "tests/support/compositions.h"
#include "tests/support/temp_folder.h"

namespace attnlab::file_lock_test {
namespace {

using namespace testing;

TEST(FileLock, IsHeldByOneAtATime) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  EXPECT_EQ(is_locked(path), std::nullopt) << "there is no file";
  {
    const FileLock lock(path);
    EXPECT_EQ(lock.state(), FileLock::State::held);
    EXPECT_EQ(FileLock(path).state(), FileLock::State::taken);
    EXPECT_EQ(is_locked(path), true);
  }
  EXPECT_EQ(is_locked(path), false);
  EXPECT_EQ(FileLock(path).state(), FileLock::State::held);
}

TEST(FileLock, SaysWhatItsHolderWrote) {
  const TempFolder folder;
  const FileLock lock(folder / "lock");
  lock.write("a long text");
  lock.write("short");
  EXPECT_EQ(read_text(folder / "lock"), "short");
}

TEST(FileLock, FollowsNoLink) {
  const TempFolder folder;
  folder.write("precious", "text");
  for (const char* target : {"precious", "none"}) {
    std::filesystem::create_symlink(target, folder / "lock");
    EXPECT_THAT(message_of<FileError>([&] { FileLock(folder / "lock").write("mine"); }),
                says({folder / "lock", "cannot write", "is a link", "remove it"}));
    std::filesystem::remove(folder / "lock");
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("precious"));
  EXPECT_EQ(read_text(folder / "precious"), "text");
}

TEST(FileLock, NamesAFileThatCannotBeMade) {
  const TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { FileLock(folder / "none/lock"); }),
              HasSubstr("none/lock: cannot write: "));
}

}  // namespace
}  // namespace attnlab::file_lock_test
