// Folders of scans: listed, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/data/points/scan_files.h"
#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/unprivileged.h"

namespace attnlab::scan_files_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

TEST(ScanFolders, AreListedOrRefusedButNeverTakenAsEmpty) {
  const TempFolder folder;
  const std::string scans = folder / "scans";
  EXPECT_TRUE(names_in(scans, ".bin").empty()) << "it is not there";
  folder.write("scans/b.bin", "");
  folder.write("scans/a.bin", "");
  folder.write("scans/c.txt", "");
  EXPECT_EQ(names_in(scans, ".bin"), (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_THAT(message_of<FileError>([&] { names_in(scans + "/c.txt", ""); }),
              HasSubstr("c.txt: cannot be listed: "));
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_THAT(message_of<FileError>([&] { names_in(folder / "link", ""); }),
              HasSubstr("link: cannot be listed: "));
  std::filesystem::create_symlink("nowhere", folder / "scans/d.bin");
  EXPECT_EQ(names_in(scans, ".txt").size(), 1U);
  EXPECT_THAT(message_of<DataError>([&] { names_in(scans, ".bin"); }),
              mentions("d.bin:", "link to nothing"));
  std::filesystem::permissions(scans, std::filesystem::perms::none);
  const testing::Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_THAT(message_of<FileError>([&] { names_in(scans, ".bin"); }),
              mentions("scans:", "Permission denied"));
}

TEST(ScanFiles, ShowAZeroByteOfANameAndGoOnBehindIt) {
  const std::string path("/nowhere/a\0b.bin", 16);
  EXPECT_THAT(message_of<DataError>([&] { rows_of_scan(path, 4); }),
              AllOf(HasSubstr("/nowhere/a\\x00b.bin: "), EndsWith("the set is not complete")));
}

}  // namespace
}  // namespace attnlab::scan_files_test
