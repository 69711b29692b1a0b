// Which files of a folder go into its bundle.
#include "framework/sharing/source_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace attnlab::testing::source_files_test {
namespace {

using ::testing::HasSubstr;

class SourceFilesTest : public ::testing::Test {
 protected:
  /// The paths, or why there are none.
  std::string answer() const {
    try {
      std::string all;
      for (const auto& file : sharing::source_files(folder_.path()).source) all += file.path + " ";
      return all;
    } catch (const Error& error) {
      return error.what();
    }
  }
  TempFolder folder_;
};

TEST_F(SourceFilesTest, LeaveOutWhatIsHiddenOrBuilt) {
  for (const char* name : {"CMakeLists.txt", "LICENSE-MIT", "x.cpp", ".git/config",
                           "build/CMakeCache.txt", "build/x.o", "old.attnlab"}) {
    folder_.write(name, "");
  }
  EXPECT_EQ(answer(), "CMakeLists.txt LICENSE-MIT x.cpp ");
}

TEST_F(SourceFilesTest, NeedTheBuildFileItself) {
  folder_.write("LICENSE", "");
  folder_.write("CMakeLists.txt.bak", "");
  EXPECT_THAT(answer(), HasSubstr("has no CMakeLists.txt"));
}

TEST_F(SourceFilesTest, NeedALicence) {
  folder_.write("CMakeLists.txt", "");
  folder_.write("LICENSEE_LIST.csv", "");
  folder_.write("below/LICENSE", "");
  EXPECT_THAT(answer(), HasSubstr("has no licence"));
  folder_.write("COPYING.txt", "");
  EXPECT_THAT(answer(), HasSubstr("COPYING.txt"));
}

}  // namespace
}  // namespace attnlab::testing::source_files_test
