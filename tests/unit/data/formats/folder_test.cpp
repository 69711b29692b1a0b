// What a folder of data holds: nothing that programs left in it.
#include "framework/data/formats/folder.h"

#include <gmock/gmock.h>

#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::folder_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : visible_entries(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(DataFolders, HoldWhatPeoplePutThereInOrderOfNames) {
  const testing::TempFolder folder;
  for (const char* name :
       {"b.png", "a/x", "B.png", "c", ".ipynb_checkpoints/c.png", "._b.png", ".DS_Store",
        "__MACOSX/._b.png", "Thumbs.db", "thumbs.db", "desktop.ini", "Desktop.ini", "@eaDir/b"}) {
    folder.write(name, "");
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("B.png", "a", "b.png", "c"));
  EXPECT_FALSE(is_hidden("thumbs.db.png"));
}

TEST(DataFolders, AreEmptyWhereTheyAreNotThereAndRefusedWhereTheyLeadNowhere) {
  const testing::TempFolder folder;
  EXPECT_THAT(names_in(folder / "none"), IsEmpty());
  std::filesystem::create_symlink("none", folder / "link");
  EXPECT_THAT(testing::message_of<FileError>([&] { visible_entries(folder / "link"); }),
              HasSubstr("/link: cannot be listed"));
  EXPECT_THAT(testing::message_of<DataError>(
                  [&] { refuse_link_to_nothing(visible_entries(folder.path()).at(0)); }),
              mentions("/link:", "link to nothing"));
}

}  // namespace
}  // namespace attnlab::folder_test
