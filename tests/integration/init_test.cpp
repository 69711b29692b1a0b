// attnlab init: a project that runs as it is, and overwrites nothing.
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing::init_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Init : public Workspace {};

TEST_F(Init, MakesAProjectWhoseNamesAreFoundAndWhichRuns) {
  must({"init"});
  must({"validate", "first", "first_suite"});
  EXPECT_THAT(must({"run", "first", "--dry-run"}).out, HasSubstr("runs/first/standard"));
  must({"suite", "first_suite", "set.train.epochs=1", "seeds=[0]", "set.dataset.train=64",
        "--progress", "none"});
  EXPECT_TRUE(exists("runs/first_suite/table.md"));
}

TEST_F(Init, NamesInItsReadmeCommandsThatThereAre) {
  must({"init", "project"});
  std::istringstream readme(file_text(at("project/README.md")));
  int commands = 0;
  for (std::string line; std::getline(readme, line);) {
    std::istringstream words(line);
    std::string program, command;
    if (!(words >> program >> command) || program != "attnlab") continue;
    must({command, "--help"});
    ++commands;
  }
  EXPECT_GE(commands, 5);
}

TEST_F(Init, OverwritesNothingAndWritesNothingBesideIt) {
  folder_.write("configs/experiments/first.yaml", "mine");
  EXPECT_THAT(refusal({"init", "."}), AllOf(HasSubstr("configs/experiments/first.yaml"),
                                            HasSubstr("nothing is overwritten")));
  EXPECT_EQ(file_text(at("configs/experiments/first.yaml")), "mine");
  EXPECT_FALSE(exists("README.md"));
  EXPECT_FALSE(exists("configs/suites"));
}

}  // namespace
}  // namespace attnlab::testing::init_test
