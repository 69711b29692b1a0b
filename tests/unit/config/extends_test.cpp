// `extends:`: which files are read, in which order, and what is refused.
#include "tests/unit/config/composed.h"

namespace attnlab::extends_test {
namespace {

using namespace testing;

TEST(Extends, AppliesFilesLeftToRightAndThenTheFileItself) {
  EXPECT_EQ(composed({{"main.yaml", "extends: [a.yaml, b.yaml]\nz: main\n"},
                      {"a.yaml", "x: a\ny: a\nz: a\n"},
                      {"b.yaml", "y: b\nz: b\n"}}),
            "{x: a, y: b, z: main}");
}

TEST(Extends, FollowsFilesRelativeToTheFileThatNamesThem) {
  EXPECT_EQ(composed({{"main.yaml", "extends: sub/a.yaml\n"},
                      {"sub/a.yaml", "extends: ../other/b.yaml\nx: a\n"},
                      {"other/b.yaml", "x: b\ny: b\n"}}),
            "{x: a, y: b}");
}

TEST(Extends, WorksInsideNestedMaps) {
  EXPECT_EQ(composed({{"main.yaml", "train: {extends: t.yaml, lr: 2}\n"},
                      {"t.yaml", "lr: 1\nepochs: 5\noptimizer: {extends: o.yaml}\n"},
                      {"o.yaml", "use: adamw\n"}}),
            "{train: {lr: 2, epochs: 5, optimizer: {use: adamw}}}");
}

TEST(Extends, TakesTheSameFileByTwoWays) {
  EXPECT_EQ(composed({{"main.yaml", "extends: [a.yaml, b.yaml]\n"},
                      {"a.yaml", "extends: c.yaml\na: 1\n"},
                      {"b.yaml", "extends: c.yaml\nb: 1\n"},
                      {"c.yaml", "c: 1\n"}}),
            "{c: 1, a: 1, b: 1}");
}

TEST(Extends, ShowsTheWholeChainOfACycle) {
  EXPECT_THAT(refusal({{"main.yaml", "extends: a.yaml\n"},
                       {"a.yaml", "x: 1\nextends: [./sub/../b.yaml]\n"},
                       {"b.yaml", "extends: a.yaml\n"}}),
              says({"b.yaml:1:10:", "main.yaml -> a.yaml -> b.yaml -> a.yaml"}));
  EXPECT_THAT(refusal({{"main.yaml", "extends: main.yaml\n"}}),
              says({"main.yaml:1:10:", "main.yaml -> main.yaml"}));
}

TEST(Extends, NamesThePlaceThatExtendsAMissingFile) {
  EXPECT_THAT(refusal({{"main.yaml", "x: 1\nextends:\n  - gone.yaml\n"}}),
              says({"main.yaml:3:5:", "gone.yaml:"}));
}

TEST(Extends, RefusesAnythingButFilesAndFilesWithoutAMap) {
  EXPECT_THAT(refusal({{"main.yaml", "extends: {a: 1}\n"}}),
              says({"main.yaml:1:10:", "extends:", "list of files", "found {a: 1}"}));
  EXPECT_THAT(refusal({{"main.yaml", "extends: a.yaml\n"}, {"a.yaml", "[1, 2]\n"}}),
              says({"a.yaml:1:1:", "map at the top", "found [1, 2]"}));
  EXPECT_THAT(refusal({{"main.yaml", ""}}),
              says({"main.yaml:1:1:", "map at the top", "found null"}));
}

TEST(Extends, WorksInItemsOfLists) {
  EXPECT_EQ(
      composed({{"main.yaml", "l: [{extends: a.yaml, y: 2}, 3]\n"}, {"a.yaml", "x: 1\ny: 1\n"}}),
      "{l: [{x: 1, y: 2}, 3]}");
}

TEST(Extends, ReadsTheEnvironmentInPathsAndNothingElse) {
  const Environment set("ATTNLAB_TEST_SET", "sub");
  EXPECT_EQ(composed({{"main.yaml", "extends: \"${env:ATTNLAB_TEST_SET}/a.yaml\"\n"},
                      {"sub/a.yaml", "x: 1\n"}}),
            "{x: 1}");
  EXPECT_THAT(refusal({{"main.yaml", "extends: ${where}/a.yaml\nwhere: sub\n"}}),
              says({"main.yaml:1:10:", "extends:", "${where}", "${env:NAME}"}));
}

TEST(Extends, ReportsEveryFileThatIsMissingOrDamaged) {
  EXPECT_THAT(refusal({{"main.yaml", "extends: [gone.yaml, a.yaml]\nm: {extends: lost.yaml}\n"},
                       {"a.yaml", "x: 1\nx: 2\ny: 1\ny: 2\n"}}),
              says_lines({{"main.yaml:1:11:", "gone.yaml:"},
                          {"a.yaml:2:1:", "'x'", "a.yaml:1:1"},
                          {"a.yaml:4:1:", "'y'", "a.yaml:3:1"},
                          {"main.yaml:2:14:", "lost.yaml:"}}));
}

/// A file that extends another one so many times.
std::string extending(const std::string& file, int times) {
  std::string text = "extends: [";
  for (int i = 0; i < times; ++i) text += (i == 0 ? "" : ", ") + file;
  return text + "]\n";
}

TEST(Extends, ReadsAThousandFilesAtMost) {
  EXPECT_EQ(composed({{"main.yaml", extending("a.yaml", 999)}, {"a.yaml", "x: 1\n"}}), "{x: 1}");
  EXPECT_THAT(refusal({{"main.yaml", extending("a.yaml", 5000)}, {"a.yaml", "x: 1\n"}}),
              AllOf(StartsWith("main.yaml:1:"), mentions("a.yaml:", "1000 files")));
}

TEST(Extends, ReadsNothingMoreWhereWaysToAFileDoubleWithEachOfMany) {
  const TempFolder folder;
  constexpr int kFiles = 40;
  for (int i = 0; i < kFiles; ++i) {
    folder.write("f" + std::to_string(i) + ".yaml",
                 extending("f" + std::to_string(i + 1) + ".yaml", 2));
  }
  folder.write("f" + std::to_string(kFiles) + ".yaml", "x: 1\n");
  const Composition composition = compose(folder / "f0.yaml");
  EXPECT_THAT(composition.problems, ElementsAre(HasSubstr("more than 1000 files")));
  EXPECT_FALSE(composition.whole);
}

TEST(Extends, RefusesAListThatIsChangedSoOftenThatWhatItWasFillsTheMemory) {
  std::string items = "l+: [0";
  for (int i = 1; i < 100; ++i) items += ", " + std::to_string(i);
  EXPECT_THAT(refusal({{"main.yaml", extending("a.yaml", 990)}, {"a.yaml", items + "]\n"}}),
              mentions("a.yaml:1:5:", "'l+'", "256 MiB", "write the list out"));
}

TEST(Extends, RefusesAChainThatTheStackHasNoRoomFor) {
  std::vector<std::pair<std::string, std::string>> files = {{"f0.yaml", "x: 1\n"}};
  const auto chain = [&](int length) {
    for (int i = static_cast<int>(files.size()); i < length; ++i) {
      files.insert(files.begin(), {"f" + std::to_string(i) + ".yaml",
                                   "extends: f" + std::to_string(i - 1) + ".yaml\n"});
    }
  };
  chain(101);
  EXPECT_EQ(composed(files), "{x: 1}");
  chain(2000);
  EXPECT_THAT(refusal(files), HasSubstr("more than 100 files"));
}

TEST(Extends, RefusesMoreTextAndMoreValuesThanACompositionMayHave) {
  const TempFolder folder;
  const std::string large = folder.write("large.yaml", "x: 1\n");
  std::filesystem::resize_file(large, 65 << 20);
  EXPECT_THAT(message_of<ConfigError>([&] { compose_file(large); }),
              says({large, "64 MiB", "smaller"}));
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { compose_file(folder.write("main.yaml", "extends: large.yaml\n")); }),
              AllOf(HasSubstr("main.yaml:1:10: "), HasSubstr("more than 64 MiB of text")));
  std::string zeros = "x: &a [0", copies = "y: [*a";
  for (int i = 1; i < 1000; ++i) zeros += ", 0";
  for (int i = 1; i < 100; ++i) copies += ", *a";
  EXPECT_THAT(
      refusal({{"main.yaml", extending("a.yaml", 10)}, {"a.yaml", zeros + "]\n" + copies + "]\n"}}),
      HasSubstr("more than 1000000 values"));
}

TEST(ComposeFile, RefusesAFileThatCannotBeRead) {
  const TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { compose_file(folder / "gone.yaml"); }),
              says({folder / "gone.yaml", "cannot read", "No such file or directory"}));
  EXPECT_THAT(message_of<FileError>([&] { compose_file(folder.path()); }),
              says({folder.path(), "cannot read", "is a folder"}));
}

}  // namespace
}  // namespace attnlab::extends_test
