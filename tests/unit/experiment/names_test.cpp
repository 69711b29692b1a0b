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
  EXPECT_THAT(name_problem(std::string(201, 'a')), says({"201 bytes", "at most 200"}));
  for (const std::string name : {"vit_small", "quest-eps=0.1", "...", "größe", "a b"}) {
    EXPECT_EQ(name_problem(name), "") << name;
  }
}

TEST(Names, OfExperimentsAndAttentionsAreRefusedWithTheirPlaces) {
  const MadeParts parts;
  const std::string head = "schema: 1\nmodel: vit\ntask: sorting\ndataset: pictures\n";
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { parts.resolve(head + "name: ..\nattention: {use: quest, as: ..}\n"); }),
              says_lines({{"f.yaml:5:7:", "name:", "'..'", "another word"},
                          {"f.yaml:6:29:", "attention.as:", "'..'", "another word"}}));
}

TEST(Names, ThatAreStillToBeGivenAreNone) {
  const MadeParts parts;
  const std::string head = "schema: 1\nmodel: vit\ntask: sorting\ndataset: pictures\n";
  EXPECT_THAT(message_of<ConfigError>([&] {
                parts.resolve(head + "name: ???\nattention: {use: quest, as: \?\?\?}\n");
              }),
              says_lines({{"f.yaml:5:7:", "name:", "must be given", "(string)"},
                          {"f.yaml:6:29:", "attention.as:", "must be given"}}));
  EXPECT_EQ(parts.resolve(head + "name: '\?\?\?'\nattention: quest\n").name, "\?\?\?");
}

}  // namespace
}  // namespace attnlab::names_test
