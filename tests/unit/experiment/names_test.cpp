#include "framework/experiment/names.h"

#include "tests/support/made_parts.h"

namespace attnlab::names_test {
namespace {

using namespace testing;

TEST(Names, OfFoldersStayBelowTheFolderThatTheyAreIn) {
  for (const std::string name :
       {"..", ".", "", "a/b", "..\\a", "/tmp", "a\nb", "a\x1b[31m", "a\xc2\x9b", "a\xe2\x80\xae"}) {
    EXPECT_NE(name_problem(name), "") << name;
  }
  EXPECT_EQ(name_problem(std::string(200, 'a')), "");
  EXPECT_EQ(name_problem(std::string(201, 'a')),
            "a name of 201 bytes is too long to be a file's; at most 200");
  for (const std::string name : {"vit_small", "quest-eps=0.1", "...", "größe", "a b"}) {
    EXPECT_EQ(name_problem(name), "") << name;
  }
}

TEST(Names, OfExperimentsAndAttentionsAreRefusedWithTheirPlaces) {
  const MadeParts parts;
  const std::string head = "schema: 1\nmodel: vit\ntask: sorting\ndataset: pictures\n";
  EXPECT_EQ(message_of<ConfigError>(
                [&] { parts.resolve(head + "name: ..\nattention: {use: quest, as: ..}\n"); }),
            "f.yaml:5:7: name: '..' stands for a folder that is there already; choose another "
            "word\n"
            "f.yaml:6:29: attention.as: '..' stands for a folder that is there already; choose "
            "another word");
}

TEST(Names, ThatAreStillToBeGivenAreNone) {
  const MadeParts parts;
  const std::string head = "schema: 1\nmodel: vit\ntask: sorting\ndataset: pictures\n";
  EXPECT_EQ(message_of<ConfigError>(
                [&] { parts.resolve(head + "name: ???\nattention: {use: quest, as: \?\?\?}\n"); }),
            "f.yaml:5:7: name: a value must be given here (string)\n"
            "f.yaml:6:29: attention.as: a value must be given here");
  EXPECT_EQ(parts.resolve(head + "name: '\?\?\?'\nattention: quest\n").name, "\?\?\?");
}

}  // namespace
}  // namespace attnlab::names_test
