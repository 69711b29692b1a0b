// What reading molecules does to the environment, which every thread shares.
#include "plugins/datasets/graphs/molecules/chemistry.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "framework/base/error.h"

namespace attnlab::molecules_test {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    found.push_back(text.substr(0, text.find('=')));
  }
  return found;
}

// RDKit sets a variable with every molecule that it reads. Threads that read others look into the
// environment at the same time: it must stay where it is.
TEST(Chemistry, MoleculesNeitherMoveNorExtendTheEnvironment) {
  const std::vector<std::string> at_first = names();
  {
    const ChemistryEnvironment as_before;
    char** const place = environ;
    const std::vector<std::string> before = names();
    ogb_graph("C[C@H](N)C(=O)O");  // a chiral centre
    EXPECT_EQ(environ, place);
    EXPECT_EQ(names(), before);
  }
  EXPECT_EQ(names(), at_first);
}

// Graphs in the cache are found by it.
TEST(Chemistry, OfAnotherSettingIsAnotherVersion) {
  const std::string usual = chemistry_version();
  for (const char* variable :
       {"RDK_USE_LEGACY_STEREO_PERCEPTION", "RDK_ENABLE_NONTETRAHEDRAL_STEREO"}) {
    if (std::getenv(variable) != nullptr) GTEST_SKIP() << variable << " is set";
    // RDKits from 2023 on may look at it but once, when they are loaded.
    ::setenv(variable, "0", 1);
    const std::string other = chemistry_version();
    ::unsetenv(variable);
    EXPECT_TRUE(other != usual || usual >= "2023") << variable;
    EXPECT_EQ(chemistry_version(), usual);
  }
}

TEST(Chemistry, RefusesASmilesOfAnyLength) {
  EXPECT_EQ(ogb_graph(std::string(500, 'C')).at("atom@node").size(0), 500);
  EXPECT_THROW(ogb_graph(std::string(300'000, 'C')), DataError);
}

}  // namespace
}  // namespace attnlab::molecules_test
