// The pages of docs/tutorials/ show the files that are built and tested here, to the letter, and
// the plugins among them keep their contracts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "framework/base/files.h"
#include "framework/conformance/check_plugin.h"
#include "tests/support/plugins.h"

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

TEST(Pages, NameATestForEachWallAroundForeignCode) {
  const std::string tests = read_text(ATTNLAB_SOURCES "/tests/unit/sharing/confine_test.cpp");
  std::istringstream page(read_text(ATTNLAB_SOURCES "/docs/sharing.md"));
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| It cannot |")) continue;
  std::getline(page, line);  // |---|---|---|
  int rows = 0;
  for (; std::getline(page, line) && line.starts_with("|"); ++rows) {
    std::string names = line.substr(line.rfind('|', line.size() - 2));
    int found = 0;
    for (std::size_t at = names.find('`'); at != names.npos; at = names.find('`', at + 1)) {
      const std::size_t end = names.find('`', at + 1);
      const std::string name = names.substr(at + 1, end - at - 1);
      const std::string test = "TEST_F(ConfineTest, " + name.substr(0, name.find("..."));
      EXPECT_NE(tests.find(test), std::string::npos) << line;
      ++found;
      at = end;
    }
    EXPECT_GT(found, 0) << line;
  }
  EXPECT_GT(rows, 10);
}

/// Lines of a page that stand in a block of code and belong outside, as after a lost "```".
std::vector<std::string> misplaced_lines(const std::string& page) {
  std::vector<std::string> found;
  bool code = false;
  std::istringstream lines(read_text(page));
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```"), begins = fence && line != "```";
    if (code && (begins || line.starts_with("## "))) found.push_back(line);
    if (fence) code = begins || !code;
  }
  if (code) found.push_back("its end");
  return found;
}

std::vector<std::string> all_pages() {
  std::vector<std::string> pages;
  for (const auto& file : fs::recursive_directory_iterator(ATTNLAB_SOURCES "/docs")) {
    if (file.path().extension() == ".md") pages.push_back(file.path());
  }
  for (const char* page : {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "configs/README.md",
                           "tests/benchmarks/README.md", "third_party/README.md"}) {
    pages.push_back(std::string(ATTNLAB_SOURCES "/") + page);
  }
  return pages;
}

TEST(Pages, EndTheirBlocksOfCode) {
  EXPECT_GT(all_pages().size(), 30U);
  for (const std::string& page : all_pages()) {
    EXPECT_THAT(misplaced_lines(page), ::testing::IsEmpty()) << page;
  }
}

/// What stands behind '#' in links to a page's headings, as GitHub makes it.
std::set<std::string> anchors(const std::string& page) {
  std::set<std::string> found;
  bool code = false;
  std::istringstream lines(read_text(page));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    if (code || !line.starts_with('#')) continue;
    std::string anchor;
    for (const char c : line.substr(line.find(' ') + 1)) {
      if (c == ' ') anchor += '-';
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) || c == '-' || c == '_' || byte > 127) {
        anchor += static_cast<char>(std::tolower(byte));
      }
    }
    found.insert(anchor);
  }
  return found;
}

TEST(Pages, LinkToPagesAndHeadingsThatAreThere) {
  int links = 0;
  for (const std::string& page : all_pages()) {
    const std::string text = read_text(page);
    for (std::size_t at = text.find("]("); at != text.npos; at = text.find("](", at + 1)) {
      const std::string link = text.substr(at + 2, text.find(')', at) - at - 2);
      if (link.find_first_of(" \n:,`'") != link.npos) continue;  // an address, or code
      const std::string to = link.substr(0, link.find('#'));
      const std::string target = to.empty() ? page : (fs::path(page).parent_path() / to).string();
      ++links;
      ASSERT_TRUE(fs::exists(target)) << page << ": " << link;
      if (link.size() == to.size()) continue;
      EXPECT_EQ(anchors(target).count(link.substr(to.size() + 1)), 1U) << page << ": " << link;
    }
  }
  EXPECT_GT(links, 200);
}

// (Not `average`, which shows the contract's shape alone: it looks at no key and drops no weight,
// which the kit rightly calls ignored.)
TEST(TutorialPlugins, KeepTheirContracts) {
  Registry& registry = testing::registry();
  for (const auto& [kind, name] : {std::pair{Kind::attention, "key_power"},
                                   {Kind::model, "series_encoder"},
                                   {Kind::task, "focal_classification"}}) {
    const std::string options = kind == Kind::model ? "{dim: 8, heads: 2, hidden: 8}" : "{}";
    const Part part = testing::make_part(kind, name, options);
    for (const conformance::CheckInfo& check : conformance::checks_of(kind)) {
      const auto result = conformance::check_plugin(registry, part, check.name);
      EXPECT_NE(result.outcome, conformance::Outcome::failed)
          << name << ": " << check.name << ": " << result.message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TutorialPage,
                         ::testing::Values("attention", "model", "task", "dataset"),
                         [](const auto& page) { return page.param; });

}  // namespace
}  // namespace attnlab
