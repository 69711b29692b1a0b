// The keys of a suite's file: one declaration for checking, help, completion and the documentation.
#include "framework/suites/suite_keys.h"

#include "framework/manifest/option_lookup.h"
#include "tests/support/key_tables.h"
#include "tests/support/made_parts.h"

namespace attnlab::suite_keys_test {
namespace {

using namespace testing;

void expect_table(const std::string& page, const Schema& keys) {
  EXPECT_NE(read_text(ATTNLAB_SOURCES "/docs/" + page).find(key_table(keys)), std::string::npos)
      << page << " lacks\n"
      << key_table(keys);
}

TEST(SuiteKeys, AreWhatTheirPagesSay) {
  expect_table("suites.md", schema_of<SuiteKeys>());
  expect_table("suites.md", schema_of<SkipRule>());
  expect_table("suites.md", schema_of<ReferenceKeys>());
  expect_table("suites.md", schema_of<RelativeTo>());
  expect_table("cross_domain.md", schema_of<PageKeys>());
  expect_table("cross_domain.md", schema_of<ColumnKeys>());
  expect_table("cross_domain.md", schema_of<ClaimKeys>());
  expect_table("comparison.md", schema_of<MatchOptions>());
}

TEST(SuiteKeys, HoldAnExperimentsKeysWhereTheyChangeIt) {
  const MadeParts parts;
  const Schema keys = suite_keys(parts.catalogue());
  EXPECT_EQ(find_option(keys, "set.train.epochs")->type_text(), "int >= 1");
  EXPECT_EQ(find_option(keys, "fallback.dataset.use")->choices,
            parts.catalogue().names(Kind::dataset));
  EXPECT_THAT(option_keys(keys), ::testing::Contains("match.by"));
  EXPECT_THAT(option_keys(keys), ::testing::Not(::testing::Contains("skip.reason")))
      << "no key reaches into a list";
}

}  // namespace
}  // namespace attnlab::suite_keys_test
