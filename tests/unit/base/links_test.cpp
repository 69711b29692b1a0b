// Links in folders of results: what is written there must not go to another place.
#include "framework/base/links.h"

#include <filesystem>

#include "framework/base/error.h"
#include "tests/support/compositions.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"

namespace attnlab::links_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::Unprivileged;

TEST(RefuseLink, NamesALinkWhetherOrNotItLeadsAnywhere) {
  const TempFolder folder;
  folder.write("file", "text");
  refuse_link(folder / "file");
  refuse_link(folder / "none");
  for (const char* target : {"file", "none", "."}) {
    fs::create_symlink(target, folder / "link");
    EXPECT_THAT(message_of<FileError>([&] { refuse_link(folder / "link"); }),
                AllOf(StartsWith(folder / "link"), mentions("cannot write", "link", "copy")));
    fs::remove(folder / "link");
  }
}

TEST(RefuseLinks, FindsThemBelowAFolder) {
  const TempFolder folder;
  refuse_links(folder / "none");
  folder.write("run/evaluations/fog.json", "{}");
  fs::create_symlink("me@here.1", folder / "run/.#config.yaml");  // an editor's lock
  refuse_links(folder / "run");
  for (const char* name : {"run/status.json", "run/evaluations/x", "run/tensorboard"}) {
    fs::create_symlink(folder.path(), folder / name);
    EXPECT_THAT(message_of<FileError>([&] { refuse_links(folder / "run"); }),
                StartsWith(folder / name + ": "));
    fs::remove(folder / name);
  }
}

TEST(RefuseLinks, GoesNoDeeperThanAttnlabsFolders) {
  const TempFolder folder;
  std::string deep = folder / "run";
  for (int level = 1; level < 8; ++level) deep += "/a";
  fs::create_directories(deep);
  refuse_links(folder / "run");
  fs::create_directories(deep + "/a");
  EXPECT_THAT(message_of<FileError>([&] { refuse_links(folder / "run"); }),
              AllOf(StartsWith(deep + "/a: "), HasSubstr("deeper")));
}

TEST(RefuseLinks, RefusesWhatItCannotLookThrough) {
  const TempFolder folder;
  fs::create_directories(folder / "run/closed");
  fs::permissions(folder / "run/closed", fs::perms::none);
  {
    const Unprivileged user(folder.path());
    if (!user.works()) GTEST_SKIP() << "no user with fewer rights can be had here";
    EXPECT_THAT(message_of<FileError>([&] { refuse_links(folder / "run"); }),
                mentions("run/closed:", "cannot be looked through"));
  }
  fs::permissions(folder / "run/closed", fs::perms::owner_all);
}

}  // namespace
}  // namespace attnlab::links_test
