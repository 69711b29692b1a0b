// The files of a page over domains.
#include "runner/domain_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/made_domains.h"
#include "tests/support/temp_folder.h"

namespace attnlab::domain_page_test {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(DomainPageFiles, KeepNoRanksOfAnEarlierPage) {
  const testing::TempFolder folder;
  testing::DomainRuns runs;
  testing::add_alike(runs, {"standard", "mine", "other"}, 3, 1);
  DomainPage page = runs.build();
  ASSERT_TRUE(page.ranking) << page.no_ranking;
  const std::string ranks = folder / "ranks.svg";
  EXPECT_THAT(write_domain_page(page, folder.path(), "attnlab page"), Contains(ranks));
  EXPECT_TRUE(std::filesystem::exists(ranks));
  page.ranking.reset();
  EXPECT_THAT(write_domain_page(page, folder.path(), "attnlab page"), Not(Contains(ranks)));
  EXPECT_FALSE(std::filesystem::exists(ranks));
  EXPECT_TRUE(std::filesystem::exists(folder / "page.html"));
  write_domain_page(page, folder.path(), "attnlab page");  // there is none to remove
}

TEST(DomainPageFiles, OfASuiteGoAndThoseOfAReaderStay) {
  const testing::TempFolder folder;
  testing::DomainRuns runs;
  testing::add_alike(runs, {"standard", "mine", "other"}, 3, 1);
  const DomainPage page = runs.build();
  remove_suite_page(folder.path());  // there is none
  for (const char* command : {"attnlab page runs/made", "attnlab suite made", "attnlab sweep a"}) {
    const bool own = std::string(command).starts_with("attnlab page");
    write_domain_page(page, folder.path(), command);
    remove_suite_page(folder.path());
    EXPECT_EQ(std::filesystem::is_empty(folder.path()), !own) << command;
  }
  std::ofstream(folder / "page.json") << "[1]";
  remove_suite_page(folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder / "page.json"));
}

}  // namespace
}  // namespace attnlab::domain_page_test
