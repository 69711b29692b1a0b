// The page about the papers' tables: made by a script of what the compositions say, and true.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::papers_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string source(const std::string& name) {
  return (fs::path(ATTNLAB_TEST_CONFIGS).parent_path() / name).string();
}

class Papers : public Workspace {
 protected:
  void SetUp() override {
    if (run({.words = {"python3", "-c", ""}}).exit_code != 0) GTEST_SKIP() << "needs python3";
  }

  static Ended script(const Words& more) {
    Words words = {"python3", source("scripts/papers_table.py")};
    words.insert(words.end(), more.begin(), more.end());
    return run({.words = words});
  }

  /// A copy of what the page is made of, and of the page.
  void copy_sources() const {
    for (const char* part : {"configs/suites/paper", "configs/experiments/paper"}) {
      fs::create_directories(at(part));
      fs::copy(source(part), at(part), fs::copy_options::recursive);
    }
    folder_.write("docs/papers.md", read_text(source("docs/papers.md")));
  }

  /// What the script says of the copy, which it must refuse.
  std::string refusal() const {
    const Ended ended = script({"--root", folder_.path(), "--check"});
    EXPECT_EQ(ended.exit_code, 1) << ended.story();
    return ended.err;
  }

  /// Changes a text of one of the files where it first stands.
  void change(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read_text(at(file));
    const std::size_t found = text.find(from);
    ASSERT_NE(found, std::string::npos) << file << ": " << from;
    folder_.write(file, text.replace(found, from.size(), to));
  }
};

TEST_F(Papers, PageIsWhatTheScriptMakes) {
  const Ended ended = script({"--check"});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
}

TEST_F(Papers, PageThatLagsBehindIsRefused) {
  copy_sources();
  change("configs/suites/paper/quest_table_3.yaml", "# Runs here: reduced", "# Runs here: whole");
  EXPECT_THAT(refusal(), mentions("docs/papers.md: ", "not up to date", "papers_table.py"));
  EXPECT_EQ(script({"--root", folder_.path()}).exit_code, 0);
  EXPECT_EQ(script({"--root", folder_.path(), "--check"}).exit_code, 0);
  EXPECT_THAT(read_text(at("docs/papers.md")), HasSubstr("whole, as suite `attacks`"));
}

TEST_F(Papers, SuiteThatDoesNotSayWhatItNeedsIsRefused) {
  copy_sources();
  change("configs/suites/paper/quest_table_3.yaml", "# Needs: ", "# Wants: ");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("quest_table_3.yaml"), HasSubstr("Needs:")));
}

TEST_F(Papers, TableWithoutASuiteIsRefused) {
  copy_sources();
  fs::remove(at("configs/suites/paper/yam_table_2.yaml"));
  EXPECT_THAT(refusal(), mentions("yam_table_2.yaml: ", "missing", "write"));
}

TEST_F(Papers, TableThatGotASuiteIsTakenFromTheOthers) {
  copy_sources();
  fs::copy(at("configs/suites/paper/quest_table_6.yaml"),
           at("configs/suites/paper/quest_table_a13.yaml"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("quest_table_a13.yaml"), HasSubstr("take it out")));
}

TEST_F(Papers, CountThatIsNoNumberIsRefused) {
  copy_sources();
  change("configs/experiments/paper/graphs/zinc.yaml", "{parameters: 423717}",
         "{parameters: many}");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("zinc.yaml"), HasSubstr("published: {parameters: N}")));
}

/// "5,717,416".
std::string with_commas(std::string digits) {
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

TEST_F(Papers, PageHasTheParametersThatADryRunCounts) {
  struct Case {
    std::string experiment, size, classes, parameters;
  };
  const std::string page = read_text(source("docs/papers.md"));
  for (const Case& one :
       {Case{"deit_ti", "224", "1000", "5717416"}, Case{"yam_cifar10", "32", "10", "6268810"}}) {
    const Ended ended =
        must({"run", one.experiment, "dataset=synthetic_images", "dataset.size=" + one.size,
              "dataset.classes=" + one.classes, "dataset.channels=3", "dataset.train=1100",
              "--dry-run", "--progress", "plain"});
    EXPECT_THAT(ended.out + ended.err,
                AllOf(HasSubstr(one.parameters + " parameters"), HasSubstr("(published: ")))
        << one.experiment;
    EXPECT_THAT(page, HasSubstr(" " + with_commas(one.parameters) + " ")) << one.experiment;
  }
}

}  // namespace
}  // namespace attnlab::testing::papers_test
