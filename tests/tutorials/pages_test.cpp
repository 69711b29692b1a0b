// The pages of docs/tutorials/ show the files that are built and tested here, to the letter, and
// the plugins among them keep their contracts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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
