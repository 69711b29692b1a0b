// The pages of docs/tutorials/ show the files that are built and tested here, to the letter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/files.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

class TutorialPage : public ::testing::TestWithParam<std::string> {};

TEST_P(TutorialPage, ShowsTheFilesThatAreTested) {
  const std::string page = read_text(ATTNLAB_SOURCES "/docs/tutorials/" + GetParam() + ".md");
  int files = 0;
  for (const fs::directory_entry& file :
       fs::directory_iterator(ATTNLAB_SOURCES "/tests/tutorials/" + GetParam())) {
    const std::string text = read_text(file.path().string());
    EXPECT_NE(page.find("```cpp\n" + text + "```\n"), std::string::npos)
        << "the page shows another text than " << file.path();
    ++files;
  }
  EXPECT_GE(files, 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TutorialPage, ::testing::Values("dataset"),
                         [](const auto& page) { return page.param; });

}  // namespace
}  // namespace attnlab
