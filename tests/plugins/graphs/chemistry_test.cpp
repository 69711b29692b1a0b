// What reading molecules does to the environment, which every thread shares.
#include "plugins/datasets/graphs/molecules/chemistry.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
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

/// What the row of each atom says of rings: its last number.
std::vector<std::int64_t> in_ring(const std::string& smiles) {
  const Tensor ring = ogb_graph(smiles).at("atom@node").select(1, 8) - 172;
  return {ring.data_ptr<std::int64_t>(), ring.data_ptr<std::int64_t>() + ring.numel()};
}

// RDKit's smallest rings (GetSSSR) are 5 or 6 of cubane, by what was asked before; which atoms are
// in one is the same with either.
TEST(Chemistry, RingsDoNotDependOnWhatWasAskedBefore) {
  const std::string cubane = "CC12C3C4C1C5C2C3C45";
  const std::vector<std::int64_t> all_but_methyl = {0, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(in_ring(cubane), all_but_methyl);
  const NamedTensors before = ogb_graph(cubane);
  const std::string scaffold = scaffold_of(cubane, false);
  const NamedTensors after = ogb_graph(cubane);
  for (const auto& [name, tensor] : before) EXPECT_TRUE(tensor.equal(after.at(name))) << name;
  EXPECT_EQ(scaffold_of(cubane, false), scaffold);
}

// Splits compare scaffolds with each other alone, never with another RDKit's text: it is enough
// that one scaffold has one text, in whatever order its atoms come and whatever hangs on it.
TEST(Chemistry, OneScaffoldHasOneTextHoweverItIsWritten) {
  const std::vector<std::vector<std::string>> alike = {
      {"CC12C3C4C1C5C2C3C45", "C12C3C4C1C5C2C3C45", "OC12C3C4C1C5C2C3C45"},
      {"c1ccc2ccccc2c1", "Cc1ccc2ccccc2c1", "C1=CC=C2C=CC=CC2=C1", "c1ccc2c(c1)cccc2N"},
      {"c1ccccc1Oc1ccccn1", "Cc1ccc(Oc2ccccn2)cc1", "n1c(Oc2ccccc2)cccc1C"},
      {"C1CC2CCC1C2", "CC1CC2CCC1C2", "C1(O)C2CCC(C2)C1"},
      {"CCO", "C", "CC(=O)[O-].[Na+]"}};
  std::set<std::string> texts;
  for (const std::vector<std::string>& group : alike) {
    const std::string first = scaffold_of(group[0], false);
    texts.insert(first);
    for (const std::string& smiles : group) EXPECT_EQ(scaffold_of(smiles, false), first) << smiles;
  }
  EXPECT_EQ(texts.size(), alike.size());
}

TEST(Chemistry, RefusesASmilesOfAnyLength) {
  EXPECT_EQ(ogb_graph(std::string(500, 'C')).at("atom@node").size(0), 500);
  EXPECT_THROW(ogb_graph(std::string(300'000, 'C')), DataError);
}

}  // namespace
}  // namespace attnlab::molecules_test
