// A stranger's run is data: its configuration names no file and nothing of the environment.
#include "framework/config/frozen.h"

#include "framework/config/compose.h"
#include "tests/support/compositions.h"

namespace attnlab::frozen_test {
namespace {

using namespace testing;

std::string frozen(const std::string& yaml) {
  return to_flow(frozen_tree(yaml, "run/config.yaml"));
}

std::string refusal(const std::string& yaml) {
  return message_of<ConfigError>([&] { frozen(yaml); });
}

TEST(FrozenTree, ReadsWhatWasFrozen) {
  for (const std::string text : {"plain", "${env:HOME}", "$${x} and ${y", "$", "$$", "a: #"}) {
    Node root = Node::map();
    root.set("note", Node::scalar(text));
    EXPECT_EQ(frozen_tree(to_yaml(root), "f").at("note").text(), text);
  }
}

TEST(FrozenTree, RefusesToFollowAnythingAndNamesEveryPlace) {
  const Environment secret("ATTNLAB_TEST_SECRET", "s3cret");
  const std::string found = refusal(
      "extends: /etc/hostname\n"
      "name: ${env:ATTNLAB_TEST_SECRET}\n"
      "model: {use: vit, extends: [a.yaml]}\n"
      "seeds: [1, \"$${a} ${name}\"]\n"
      "evaluate: {fog: {set: {dataset: {root: \"x${env:ATTNLAB_TEST_SECRET,y}\"}}}}\n");
  EXPECT_THAT(found, AllOf(HasSubstr("run/config.yaml:1:1: extends: "),
                           HasSubstr("run/config.yaml:2:7: ${env:ATTNLAB_TEST_SECRET}: "),
                           HasSubstr("run/config.yaml:3:19: extends: "),
                           HasSubstr("run/config.yaml:4:12: $${a} ${name}: "),
                           HasSubstr("run/config.yaml:5:"), HasSubstr("holds values alone")));
  EXPECT_THAT(found, Not(HasSubstr("s3cret")));
}

TEST(FrozenTree, RefusesAReferenceThatIsCutOff) {
  EXPECT_THAT(refusal("name: \"${env:HOME\"\n"), HasSubstr("run/config.yaml:1:7: ${env:HOME: "));
}

TEST(FrozenTree, RefusesWhatIsNoMap) {
  EXPECT_THAT(refusal("[1, 2]"), mentions("a map at the top", "[1, 2]"));
}

TEST(FrozenFile, IsReadByItsName) {
  const TempFolder folder;
  EXPECT_EQ(to_flow(frozen_file(folder.write("config.yaml", "a: 1\n"))), "{a: 1}");
  EXPECT_THROW(frozen_file(folder / "none.yaml"), FileError);
}

TEST(ComposeFile, FollowsNothingThatARunsFrozenConfigurationNames) {
  const TempFolder folder;
  folder.write("own.yaml", "secret: 1\n");
  folder.write("run/identity.json", "{}");
  const std::string run =
      folder.write("run/config.yaml", "extends: ../own.yaml\nlr: ${env:HOME}\n");
  const std::string mine = folder.write("mine.yaml", "extends: run/config.yaml\n");
  for (const std::string& file : {run, mine}) {
    EXPECT_THAT(message_of<ConfigError>([&] { compose_file(file); }),
                AllOf(HasSubstr("config.yaml:1:1: extends: "),
                      HasSubstr("config.yaml:2:5: ${env:HOME}: ")));
  }
  folder.write("run/config.yaml", "note: $${env:HOME}\nseeds: [0]\n");
  EXPECT_EQ(compose_file(run, {"seeds=[1]"}).at("note").text(), "${env:HOME}");
  EXPECT_EQ(compose_file(mine).at("note").text(), "${env:HOME}");
}

TEST(ComposeFile, ComposesAFileOfThatNameThatIsNoRuns) {
  const TempFolder folder;
  folder.write("own.yaml", "a: 1\n");
  EXPECT_EQ(to_flow(compose_file(folder.write("config.yaml", "extends: own.yaml\n"))), "{a: 1}");
}

}  // namespace
}  // namespace attnlab::frozen_test
