// Molecules: OGB's features on published values, targets, splits, and tables that are wrong.
#include <algorithm>
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/pickles.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::molecules_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

class Molecules : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::is_installed(Kind::dataset, "molecules")) GTEST_SKIP() << "built without RDKit";
  }

  std::shared_ptr<Dataset> open(const std::string& table, const std::string& more = "",
                                std::uint64_t seed = 0) const {
    folder_.write("molecules.csv", table);
    std::string options = "{name: table, file: molecules.csv, root: " + folder_.path() + more;
    for (const std::string other : {", targets: [y]", ", validation: 0", ", test: 0"}) {
      const std::string key = other.substr(0, other.find(':') + 1);
      if (more.find(key) == std::string::npos) options += other;
    }
    return make_dataset("molecules", options + "}", seed);
  }
  std::string refusal(const std::string& table, const std::string& more = "") const {
    return message_of<Error>([&] { open(table, more); });
  }
  NamedTensors one(const std::string& smiles) const {
    return open("smiles,y\n" + smiles + ",1\n")->example(Split::train, 0, nullptr);
  }
  /// OGB's own values: without what each column is moved by.
  static Tensor atoms_of(const NamedTensors& graph) {
    return graph.at("atom@node") -
           at::tensor({0, 119, 124, 136, 148, 158, 164, 170, 172}, at::kLong);
  }
  static Tensor bonds_of(const NamedTensors& graph) {
    return graph.at("bond@edge") - at::tensor({0, 5, 11}, at::kLong);
  }
  static Tensor rows(const std::vector<std::int64_t>& values, std::int64_t columns) {
    return at::tensor(values, at::kLong).view({-1, columns});
  }

  testing::TempFolder folder_;
};

TEST_F(Molecules, HaveTheFeaturesThatOgbPublishes) {
  // The assertions in ogb/utils/features.py.
  const NamedTensors chiral = one("Cl[C@H](/C=C/C)Br");
  EXPECT_TRUE(atoms_of(chiral)[1].equal(at::tensor({5, 2, 4, 5, 1, 0, 2, 0, 0}, at::kLong)));
  const Tensor edges = chiral.at("edges@edge>node");
  bool found = false;
  for (std::int64_t e = 0; e < edges.size(0); ++e) {
    if (edges[e].equal(at::tensor({2, 3}, at::kLong))) {  // bond 2, a double bond with stereo
      found = true;
      EXPECT_TRUE(bonds_of(chiral)[e].equal(at::tensor({1, 2, 0}, at::kLong)));
    }
  }
  EXPECT_TRUE(found);
  // Methanol, as users of smiles2graph print it.
  const NamedTensors methanol = one("CO");
  EXPECT_TRUE(
      atoms_of(methanol).equal(rows({5, 0, 4, 5, 3, 0, 2, 0, 0, 7, 0, 2, 5, 1, 0, 2, 0, 0}, 9)));
  EXPECT_TRUE(bonds_of(methanol).equal(rows({0, 0, 0, 0, 0, 0}, 3)));
  EXPECT_TRUE(methanol.at("edges@edge>node").equal(rows({1, 0, 0, 1}, 2)));
}

TEST_F(Molecules, HaveTheFeaturesThatOgbComputesOfAromaticRings) {
  // The molecule that ogb/utils/mol.py takes as its example. No printed values of a molecule with
  // aromatic rings were found; sought were rows of aromatic carbons in OGB's repository,
  // documentation and paper, and in public code, notebooks and issues that use it. So these are
  // what OGB's own code (1.3.6, commit 61e9784) gives with RDKit 2022.09.3 for Python.
  const NamedTensors graph = one("O1C=C[C@H]([C@H]1O2)c3c2cc(OC)c4c3OC(=O)C5=C4CCC(=O)5");
  const std::vector<std::int64_t> atoms = {
      7, 0, 2, 5, 0, 0, 1, 0, 1, 5, 0, 3, 5, 1, 0, 1, 0, 1, 5, 0, 3, 5, 1, 0, 1, 0, 1, 5, 2, 4,
      5, 1, 0, 2, 0, 1, 5, 1, 4, 5, 1, 0, 2, 0, 1, 7, 0, 2, 5, 0, 0, 1, 0, 1, 5, 0, 3, 5, 0, 0,
      1, 1, 1, 5, 0, 3, 5, 0, 0, 1, 1, 1, 5, 0, 3, 5, 1, 0, 1, 1, 1, 5, 0, 3, 5, 0, 0, 1, 1, 1,
      7, 0, 2, 5, 0, 0, 1, 0, 0, 5, 0, 4, 5, 3, 0, 2, 0, 0, 5, 0, 3, 5, 0, 0, 1, 1, 1, 5, 0, 3,
      5, 0, 0, 1, 1, 1, 7, 0, 2, 5, 0, 0, 1, 1, 1, 5, 0, 3, 5, 0, 0, 1, 1, 1, 7, 0, 1, 5, 0, 0,
      1, 0, 0, 5, 0, 3, 5, 0, 0, 1, 1, 1, 5, 0, 3, 5, 0, 0, 1, 1, 1, 5, 0, 4, 5, 2, 0, 2, 0, 1,
      5, 0, 4, 5, 2, 0, 2, 0, 1, 5, 0, 3, 5, 0, 0, 1, 0, 1, 7, 0, 1, 5, 0, 0, 1, 0, 0};
  // Of each edge source, target, and the three features of its bond.
  const std::vector<std::int64_t> bonds = {
      1,  0,  0, 0, 1, 4,  0,  0, 0, 0, 0,  1,  0, 0, 1, 2,  1,  1, 0, 1, 1,  2,  1, 0, 1,
      3,  2,  0, 0, 0, 2,  3,  0, 0, 0, 4,  3,  0, 0, 0, 6,  3,  0, 0, 0, 0,  4,  0, 0, 0,
      3,  4,  0, 0, 0, 5,  4,  0, 0, 0, 4,  5,  0, 0, 0, 7,  5,  0, 0, 1, 3,  6,  0, 0, 0,
      7,  6,  3, 0, 1, 13, 6,  3, 0, 1, 5,  7,  0, 0, 1, 6,  7,  3, 0, 1, 8,  7,  3, 0, 1,
      7,  8,  3, 0, 1, 9,  8,  3, 0, 1, 8,  9,  3, 0, 1, 10, 9,  0, 0, 1, 12, 9,  3, 0, 1,
      9,  10, 0, 0, 1, 11, 10, 0, 0, 0, 10, 11, 0, 0, 0, 9,  12, 3, 0, 1, 13, 12, 3, 0, 1,
      18, 12, 3, 0, 1, 6,  13, 3, 0, 1, 12, 13, 3, 0, 1, 14, 13, 3, 0, 1, 13, 14, 3, 0, 1,
      15, 14, 3, 0, 1, 14, 15, 3, 0, 1, 16, 15, 1, 0, 1, 17, 15, 3, 0, 1, 15, 16, 1, 0, 1,
      15, 17, 3, 0, 1, 18, 17, 3, 0, 1, 21, 17, 0, 0, 1, 12, 18, 3, 0, 1, 17, 18, 3, 0, 1,
      19, 18, 0, 0, 0, 18, 19, 0, 0, 0, 20, 19, 0, 0, 0, 19, 20, 0, 0, 0, 21, 20, 0, 0, 0,
      17, 21, 0, 0, 1, 20, 21, 0, 0, 0, 22, 21, 1, 0, 1, 21, 22, 1, 0, 1};
  EXPECT_TRUE(atoms_of(graph).equal(rows(atoms, 9)));
  EXPECT_TRUE(at::cat({graph.at("edges@edge>node"), bonds_of(graph)}, 1).equal(rows(bonds, 5)));
}

TEST_F(Molecules, AreReadUnderEveryRdkit) {
  // Two of MoleculeNet's HIV; RDKit refuses their aluminium and boron from 2024.09 on.
  const NamedTensors graph = one("O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3");
  const Tensor atoms = atoms_of(graph);
  ASSERT_EQ(atoms.size(0), 19);
  EXPECT_EQ(graph.at("edges@edge>node").size(0), 2 * 21);
  const Tensor aluminium = atoms[3];
  EXPECT_EQ(aluminium[0].item<std::int64_t>(), 12);
  EXPECT_EQ(aluminium[2].item<std::int64_t>(), 6);  // neighbours
  EXPECT_EQ(aluminium[4].item<std::int64_t>(), 0);  // hydrogens
  EXPECT_EQ(aluminium[8].item<std::int64_t>(), 1);  // in a ring
  EXPECT_EQ(one("Cc1ccc([B-2]2(c3ccc(C)cc3)=NCCO2)cc1").at("atom@node").size(0), 19);
}

TEST_F(Molecules, CountWhatIsRareAsTheLastOfItsColumn) {
  const Tensor dummy = atoms_of(one("*[U+8]"));
  EXPECT_EQ(dummy[0][0].item<std::int64_t>(), 118);  // no element
  EXPECT_EQ(dummy[1][3].item<std::int64_t>(), 11);   // charge above 5
  const NamedTensors dative = one("[NH3]->[Fe]");
  EXPECT_EQ(bonds_of(dative)[0][0].item<std::int64_t>(), 4);
}

TEST_F(Molecules, MayHaveNoBonds) {
  const NamedTensors ion = one("[Na+]");
  EXPECT_EQ(ion.at("edges@edge>node").sizes(), (at::IntArrayRef{0, 2}));
  EXPECT_EQ(ion.at("bond@edge").sizes(), (at::IntArrayRef{0, 3}));
  // RDKit's hybridisation of a bare ion is S, which OGB's list lacks: the last of the column.
  EXPECT_TRUE(atoms_of(ion).equal(rows({10, 0, 0, 6, 0, 0, 5, 0, 0}, 9)));
}

TEST_F(Molecules, GiveTargetsAsValuesLabelsOrClasses) {
  const auto values = open("smiles,y,z\nC,1.5,\nCC,2,-1\n", ", targets: [y, z]");
  EXPECT_EQ(values->info().field("labels").shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(values->info().field("labels").values, (std::vector<std::string>{"y", "z"}));
  const Tensor first = values->example(Split::train, 0, nullptr).at("labels");
  EXPECT_EQ(first[0].item<float>(), 1.5f);
  EXPECT_TRUE(first[1].isnan().item<bool>());
  const auto labels = open("smiles,y\nC,\"[0, 1, 0]\"\nCC,\"[1, , 0]\"\n", ", target: labels");
  EXPECT_EQ(labels->info().field("labels").shape, std::vector<std::int64_t>{3});
  const auto classes = open("smiles,y\nC,1\nCC,0\n", ", target: class");
  EXPECT_EQ(classes->info().classes, 2);
  EXPECT_EQ(classes->example(Split::train, 0, nullptr).at("class").item<std::int64_t>(), 1);
}

TEST_F(Molecules, ScaleTargetsByTrainingRows) {
  std::string table = "smiles,y\n";
  for (int i = 0; i < 20; ++i)
    table += std::string(std::size_t(i + 1), 'C') + "," + std::to_string(3 * i) + "\n";
  const auto raw = open(table, ", test: 0.25"),
             scaled = open(table, ", test: 0.25, scale_targets: true");
  const FieldInfo& info = scaled->info().field("labels");
  ASSERT_EQ(info.mean.size(), 1U);
  std::vector<double> values;
  for (std::int64_t i = 0; i < raw->size(Split::train); ++i) {
    values.push_back(raw->example(Split::train, i, nullptr).at("labels").item<double>());
  }
  const Tensor all = at::tensor(values, at::kDouble);
  EXPECT_NEAR(info.mean[0], all.mean().item<double>(), 1e-9);
  EXPECT_NEAR(info.deviation[0], all.std(false).item<double>(), 1e-9);
  for (const Split split : {Split::train, Split::test}) {
    for (std::int64_t i = 0; i < raw->size(split); ++i) {
      const double found = scaled->example(split, i, nullptr).at("labels").item<double>();
      EXPECT_NEAR(found * info.deviation[0] + info.mean[0],
                  raw->example(split, i, nullptr).at("labels").item<double>(), 1e-4);
    }
  }
  // Equal targets, of which rounding leaves a deviation of 1e-17, and one training row alone.
  for (const char* rows : {"C,2\nCC,2\n", "C,0.1\nCC,0.1\nCCC,0.1\n", "C,2\n"}) {
    EXPECT_THAT(refusal(std::string("smiles,y\n") + rows, ", scale_targets: true"),
                mentions("target 0", "the same", "scale_targets: false"))
        << rows;
  }
}

TEST_F(Molecules, NameTheLineThatRdkitRefuses) {
  const std::string table = "smiles,y\nCC,1\nC1CC,2\nc1ccccc1,3\nC(C)(C)(C)(C)C,4\n";
  EXPECT_THAT(refusal(table), AllOf(HasSubstr("molecules.csv:3: RDKit refuses 'C1CC'"),
                                    HasSubstr("refused: skip")));
  EXPECT_THAT(refusal("smiles,y\nC(C)(C)(C)(C)C,4\n"), HasSubstr("molecules.csv:2: RDKit refuses"));
  EXPECT_THAT(refusal("smiles,y\nC,1\n,4\n"), HasSubstr("molecules.csv:3:"));
  const auto left = open(table, ", refused: skip");
  ASSERT_EQ(left->size(Split::train), 2);
  EXPECT_EQ(left->example(Split::train, 1, nullptr).at("labels").item<float>(), 3);
  EXPECT_EQ(left->example(Split::train, 1, nullptr).at("atom@node").size(0), 6);
  EXPECT_THAT(refusal("smiles,y\nC1,1\n", ", refused: skip"), HasSubstr("refuses every SMILES"));
}

TEST_F(Molecules, AreReadWholeOrNamed) {
  const auto refused = [&](const std::string& smiles) {
    return refusal("smiles,y\nCC,1\n" + smiles + ",2\n");
  };
  EXPECT_THAT(refused("CC\u200bO"), mentions("molecules.csv:3:", "'CC<U+200B>O'", "SMILES",
                                             "character 3 is U+200B", "repair the line"));
  EXPECT_THAT(refused("CCl\u2082OZr"), HasSubstr("character 4 is U+2082"));
  EXPECT_THAT(refused("CCO\u03b1"), mentions("'CCO<U+03B1>'", "SMILES", "character 4"));
  EXPECT_THAT(refused("CCO\u00a0"), HasSubstr("character 4 is U+00A0"));
  EXPECT_THAT(refused("\ufeffCCO"), HasSubstr("character 1 is U+FEFF"));
  EXPECT_THAT(refused("CC\xffO"), HasSubstr("'CC<byte ff>O'"));
  EXPECT_THAT(refused(std::string("CC\0O", 4)), HasSubstr("'CC<U+0000>O'"));
  EXPECT_THAT(refused("\"CC\nO\""), HasSubstr("character 3 is U+000A"));
  EXPECT_THAT(refused("\"CC name\nCCO,9\""), HasSubstr("character 8 is U+000A"))
      << "a quote that was not closed swallows the next row";
  for (const char* other : {"CC&amp;O", "CCO>>CC=O", "C2H6O", "\"CCO,CC\"", "CCO;", "   ",
                            " \"CCO\"", "\"CCO |garbage|\""}) {
    EXPECT_THAT(refused(other), HasSubstr("molecules.csv:3:")) << other;
  }
  EXPECT_EQ(open("smiles,y\nCC,1\nCC\u200bO,2\n", ", refused: skip")->size(Split::train), 1);
}

TEST_F(Molecules, MayHaveBlanksAroundAndANameBehind) {
  for (const std::string smiles :
       {"CCO", "  CCO  ", "\"  CCO\"", "CCO\t", "CCO ethanol", "CCO\tethanol", "CCO \u03b1-name",
        "\"CCO\r\n\"", "\"CCO |$;;x$|\"", "[12CH3][CH2:1234]O"}) {
    EXPECT_EQ(one(smiles).at("atom@node").size(0), 3) << smiles;
  }
  EXPECT_EQ(one("*CCO").at("atom@node").size(0), 4);
}

// RDKit 2022.09 keeps such numbers in a byte or two: ruthenium, C+44, isotope 4464, 44 hydrogens.
TEST_F(Molecules, HaveNoNumbersThatRdkitCutsOff) {
  EXPECT_THAT(refusal("smiles,y\n[#300],1\n"),
              mentions("molecules.csv:2:", "'[#300]'", "300", "118"));
  for (const char* smiles : {"[C+300]", "[C-200]", "[70000C]", "[UH300]", "CC[O-4294967297]"}) {
    EXPECT_THAT(refusal(std::string("smiles,y\n") + smiles + ",1\n"), HasSubstr("is too large"))
        << smiles;
  }
}

TEST_F(Molecules, NameTheLineOfATargetThatIsNone) {
  EXPECT_THAT(refusal("smiles,y\nC,1\nC,x\n"), mentions("molecules.csv:3:", "'x'", "number"));
  EXPECT_THAT(refusal(std::string("smiles,y\nC,1\nC,1\0002\n", 19)),
              mentions("molecules.csv:3:", "'1\\x002'", "repair the line"));
  EXPECT_THAT(refusal("smiles,y\nC,3e38\nC,1e300\n"),
              mentions("molecules.csv:3:", "'1e300'", "float32"));
  EXPECT_THAT(refusal("smiles,y\nC,\"[1, 2]\"\nC,\"[1]\"\n"),
              mentions("molecules.csv:3:", "1 targets", "has 2"));
  EXPECT_THAT(refusal("smiles,y\nC,\"[1\"\n"), mentions("molecules.csv:2:", "list does not end"));
  EXPECT_THAT(refusal("smiles,y\nC,1\nC,0.5\n", ", target: class"),
              HasSubstr("molecules.csv:3: the class"));
  EXPECT_THAT(refusal("smiles,y\nC,1\nC,\n", ", target: class"),
              HasSubstr("molecules.csv:3: the class"));
  EXPECT_THAT(refusal("smiles,y\nC,1\nC,2\n", ", target: labels"),
              HasSubstr("molecules.csv:3: 2 is not a label"));
  EXPECT_THAT(refusal("smile,y\nC,1\n"), mentions("no column 'smiles'", "'smile'"));
  EXPECT_THAT(refusal("smiles,y\nC,1\n", ", targets: []"), HasSubstr("targets: is empty"));
}

TEST_F(Molecules, AreSplitByScaffold) {
  // Five benzenes, three pyridines, two cyclohexanes, and chains, which have no scaffold.
  const std::string table =
      "smiles,y\nc1ccccc1C,0\nn1ccccc1,1\nCCC,2\nc1ccccc1CC,3\nC1CCCCC1,4\nc1ccccc1O,5\n"
      "n1ccccc1C,6\nc1ccccc1N,7\nn1ccccc1CC,8\nC1CCCCC1O,9\nc1ccccc1Cl,10\nCCCC,11\n";
  // The same with the two pairs exchanged.
  const std::string exchanged =
      "smiles,y\nc1ccccc1C,0\nn1ccccc1,1\nC1CCCCC1,2\nc1ccccc1CC,3\nCCC,4\nc1ccccc1O,5\n"
      "n1ccccc1C,6\nc1ccccc1N,7\nn1ccccc1CC,8\nCCCC,9\nc1ccccc1Cl,10\nC1CCCCC1O,11\n";
  for (const std::string& molecules : {table, exchanged}) {
    const auto dataset = open(molecules, ", split: scaffold, validation: 0.2, test: 0.2");
    const auto rows_in = [&](Split split) {
      std::set<int> rows;
      for (std::int64_t i = 0; i < dataset->size(split); ++i) {
        rows.insert(dataset->example(split, i, nullptr).at("labels").item<int>());
      }
      return rows;
    };
    // 7.2 rows train and 9.6 train or validate: benzenes (5) train; pyridines (3) do not fit, so
    // they validate; of the two pairs, that with the later first row comes first and trains,
    // whatever the texts of the scaffolds, which differ between RDKits.
    EXPECT_EQ(rows_in(Split::train), (std::set<int>{0, 3, 5, 7, 10, 4, 9}));
    EXPECT_EQ(rows_in(Split::validation), (std::set<int>{1, 6, 8}));
    EXPECT_EQ(rows_in(Split::test), (std::set<int>{2, 11}));
  }
}

TEST_F(Molecules, OfOneScaffoldAreWhatPretrainGnnsSays) {
  // Its example: Cc1cc(Oc2nccc(CCC)c2)ccc1 has the scaffold c1ccc(Oc2ccccn2)cc1. The two stay
  // together.
  std::string table = "smiles,y\nCc1cc(Oc2nccc(CCC)c2)ccc1,0\nc1ccc(Oc2ccccn2)cc1,1\n";
  for (int i = 0; i < 4; ++i) table += "C1CCCCC1" + std::string(std::size_t(i), 'C') + ",2\n";
  const auto dataset = open(table, ", split: scaffold, test: 0.3");
  EXPECT_EQ(dataset->size(Split::train), 4);
  EXPECT_EQ(dataset->size(Split::test), 2);
}

TEST_F(Molecules, AreSplitAtRandomBySeed) {
  std::string table = "smiles,y\n";
  for (int i = 0; i < 50; ++i) table += "C," + std::to_string(i) + "\n";
  const auto test_rows = [&](std::uint64_t seed, const std::string& more) {
    const auto dataset = open(table, ", test: 0.2, validation: 0.1" + more, seed);
    EXPECT_EQ(dataset->size(Split::train), 35);
    EXPECT_EQ(dataset->size(Split::validation), 5);
    std::vector<float> rows;
    for (std::int64_t i = 0; i < 10; ++i) {
      rows.push_back(dataset->example(Split::test, i, nullptr).at("labels").item<float>());
    }
    return rows;
  };
  EXPECT_NE(test_rows(0, ""), test_rows(1, ""));
  EXPECT_EQ(test_rows(0, ""), test_rows(0, ""));
  EXPECT_EQ(test_rows(0, ", split_seed: 3"), test_rows(1, ", split_seed: 3"));
}

TEST_F(Molecules, HoldOutSomeWhereAShareIsAskedFor) {
  const std::string table = "smiles,y\nC,1\nCC,2\nCCC,3\nc1ccccc1,4\n";
  EXPECT_THAT(refusal(table, ", split: random, validation: 0.1"),
              mentions("validation:", "0.1 of 4", "0.125"));
  EXPECT_THAT(refusal(table, ", split: random, test: 0.1"), mentions("test:", "0.1 of 4"));
  EXPECT_THAT(refusal(table + "O,5\nCO,6\nOO,7\nc1ccccc1C,8\n",
                      ", split: scaffold, validation: 0.1, test: 0.1"),
              mentions("validation:", "0.1 of 8 molecules", "scaffolds"));
}

/// LRGB's layout with four peptides.
class Peptides : public Molecules {
 protected:
  std::shared_ptr<Dataset> open_with(const std::vector<std::vector<std::int64_t>>& split,
                                     const std::string& more = "") const {
    using namespace testing::pickles;
    folder_.write("raw/peptide_multi_class_dataset.csv.gz",
                  testing::gzipped(",smiles,peptide_seq,labels,identifier\n"
                                   "0,CC(N)C(=O)O,A,\"[0, 1]\",7\n1,NCC(=O)O,G,\"[1, 1]\",8\n"
                                   "2,C1C,X,\"[0, 0]\",9\n3,CC(C)C(N)C(=O)O,V,\"[1, 0]\",10\n"));
    std::vector<std::pair<std::string, std::string>> parts;
    for (std::size_t k = 0; k < 3; ++k) {
      const char* const names[] = {"train", "val", "test"};
      parts.emplace_back(text(names[k]), array("i8", {std::int64_t(split[k].size())}, split[k]));
    }
    folder_.write("splits_random_stratified_peptide.pickle", file(map(parts)));
    return make_dataset("molecules", "{name: peptides-func, root: " + folder_.path() + more + "}");
  }
};

TEST_F(Peptides, FollowTheOfficialSplit) {
  const auto dataset = open_with({{3, 1}, {}, {0, 2}}, ", refused: skip");
  ASSERT_EQ(dataset->size(Split::train), 2);
  ASSERT_EQ(dataset->size(Split::validation), 0);
  ASSERT_EQ(dataset->size(Split::test), 1);  // the other is not SMILES
  EXPECT_TRUE(
      dataset->example(Split::train, 0, nullptr).at("labels").equal(at::tensor({1.f, 0.f})));
  EXPECT_TRUE(dataset->example(Split::test, 0, nullptr).at("labels").equal(at::tensor({0.f, 1.f})));
}

TEST_F(Peptides, RefuseASplitOfOtherData) {
  const auto refusal = [&](const std::vector<std::vector<std::int64_t>>& split) {
    return message_of<DataError>([&] { open_with(split, ", refused: skip"); });
  };
  EXPECT_THAT(refusal({{0, 4}, {1}, {2}}), HasSubstr("train holds row 4"));
  EXPECT_THAT(refusal({{0, 1}, {1}, {2}}), mentions("val holds row 1", "already"));
  EXPECT_THAT(refusal({{}, {1}, {2}}), mentions("no graphs", "train on"));
}

/// A row of Peptides-struct: the number `i` a tenth apart in each of its 11 columns.
std::string struct_row(int i, const std::string& smiles) {
  std::string row = std::to_string(i) + "," + smiles;
  for (int t = 0; t < 11; ++t) row += "," + (i == 1 && t == 4 ? "" : std::to_string(i + 0.1 * t));
  return row + "\n";
}

TEST_F(Molecules, OfPeptidesStructHaveElevenNormalisedValues) {
  using namespace testing::pickles;
  std::string table =
      ",smiles,Inertia_mass_a,Inertia_mass_b,Inertia_mass_c,Inertia_valence_a,Inertia_valence_b,"
      "Inertia_valence_c,length_a,length_b,length_c,Spherocity,Plane_best_fit\n";
  for (const char* smiles : {"CC(N)C(=O)O", "NCC(=O)O", "CC(C)C(N)C(=O)O"}) {
    table += struct_row(int(std::count(table.begin(), table.end(), '\n')) - 1, smiles);
  }
  const auto open_set = [&] {
    return make_dataset("molecules", "{name: peptides-struct, root: " + folder_.path() + "}");
  };
  folder_.write("raw/peptide_structure_dataset.csv", table);  // LRGB's other file
  EXPECT_THAT(message_of<DataMissingError>(open_set),
              mentions("peptide_structure_dataset.csv", "\"normalized\""));
  folder_.write("raw/peptide_structure_normalized_dataset.csv", table);
  const auto rows = [](std::int64_t row) { return array("i8", {1}, std::vector{row}); };
  folder_.write(
      "splits_random_stratified_peptide_structure.pickle",
      file(map({{text("train"), rows(2)}, {text("val"), rows(0)}, {text("test"), rows(1)}})));
  const auto dataset = open_set();
  const FieldInfo& info = dataset->info().field("labels");
  EXPECT_EQ(info.shape, std::vector<std::int64_t>{11});
  EXPECT_EQ(info.values.at(9), "Spherocity");
  EXPECT_TRUE(info.mean.empty()) << "the file's values are normalised already";
  const NamedTensors last = dataset->example(Split::train, 0, nullptr);
  EXPECT_EQ(last.at("atom@node").size(0), 8);
  EXPECT_TRUE(last.at("labels").allclose(2 + 0.1 * at::arange(11), 0, 1e-6));
  const Tensor test = dataset->example(Split::test, 0, nullptr).at("labels");
  EXPECT_TRUE(test[4].isnan().item<bool>());
  EXPECT_NEAR(test[10].item<double>(), 2, 1e-6);
}

TEST_F(Molecules, OfFreeSolvAreReadFromTheirOwnColumns) {
  std::string table = "iupac,smiles,expt,calc\n";
  for (int i = 1; i <= 20; ++i) {
    table += "\"alkane, number " + std::to_string(i) + "\"," + std::string(std::size_t(i), 'C') +
             "," + std::to_string(-0.5 * i) + ",99\n";
  }
  folder_.write("SAMPL.csv", table);
  const auto dataset = make_dataset("molecules", "{name: freesolv, root: " + folder_.path() + "}");
  EXPECT_EQ(dataset->size(Split::train), 16);
  EXPECT_EQ(dataset->size(Split::validation), 2);
  EXPECT_EQ(dataset->size(Split::test), 2);
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    for (std::int64_t i = 0; i < dataset->size(split); ++i) {
      const NamedTensors graph = dataset->example(split, i, nullptr);
      EXPECT_EQ(graph.at("labels").sizes(), at::IntArrayRef{1});
      EXPECT_EQ(graph.at("labels").item<double>(), -0.5 * double(graph.at("atom@node").size(0)));
    }
  }
}

/// Published sets, where they are on this machine.
class PublishedMolecules : public Molecules {
 protected:
  void SetUp() override {
    Molecules::SetUp();
    if (IsSkipped()) return;
    if (!testing::has_data("graphs")) GTEST_SKIP() << "$ATTNLAB_DATA/graphs is not there";
  }
};

TEST_F(PublishedMolecules, PeptidesAreAsManyAsLrgbCounts) {
  if (!testing::has_data("graphs/peptides_functional")) GTEST_SKIP() << "no peptides_functional";
  const auto dataset = make_dataset("molecules", "{name: peptides-func}");
  EXPECT_EQ(dataset->size(Split::train), 10873);
  EXPECT_EQ(dataset->size(Split::validation), 2331);
  EXPECT_EQ(dataset->size(Split::test), 2331);
  std::int64_t nodes = 0;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    for (std::int64_t i = 0; i < dataset->size(split); ++i) nodes += dataset->cost(split, i);
  }
  EXPECT_EQ(nodes, 2344859);  // the paper's 150.94 per graph
}

TEST_F(PublishedMolecules, OfHivAreSplitAsOgbSplitsThem) {
  if (!testing::has_data("graphs/molhiv")) GTEST_SKIP() << "no molhiv";
  const auto dataset = make_dataset("molecules", "{name: molhiv}");
  std::vector<std::int64_t> sizes, active;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    sizes.push_back(dataset->size(split));
    active.push_back(0);
    for (std::int64_t i = 0; i < dataset->size(split); ++i) {
      active.back() += dataset->example(split, i, nullptr).at("class").item<std::int64_t>();
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{32901, 4113, 4113}));  // OGB's
  EXPECT_EQ(active, (std::vector<std::int64_t>{1232, 81, 130}));     // OGB's
}

TEST_F(PublishedMolecules, OfMoleculeNetAreRead) {
  if (!testing::has_data("graphs/moleculenet")) GTEST_SKIP() << "no moleculenet";
  for (const auto& [name, count] : {std::pair{"esol", 1128}, std::pair{"lipophilicity", 4200}}) {
    const auto dataset = make_dataset("molecules", "{name: " + std::string(name) + "}");
    const std::int64_t all =
        dataset->size(Split::train) + dataset->size(Split::validation) + dataset->size(Split::test);
    EXPECT_EQ(all, count) << name;
    EXPECT_NEAR(double(dataset->size(Split::test)), 0.1 * count, 1) << name;
  }
}

}  // namespace
}  // namespace attnlab::molecules_test
