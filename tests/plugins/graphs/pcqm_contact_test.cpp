// PCQM-Contact in LRGB's files: made-up molecules in their layout, and damaged ones.
#include <torch/serialize.h>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::pcqm_contact_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

/// What a file has of a molecule: x, edge_attr, edge_index, edge_index_labeled, edge_label.
using Molecule = std::vector<Tensor>;

/// Three atoms in a row, whose ends touch.
Molecule made_molecule() {
  const Tensor x = at::zeros({3, 9}, at::kLong);
  x[0][0] = 118;
  x[1][1] = 4;
  x[2][8] = 1;
  const Tensor e = at::zeros({4, 3}, at::kLong);
  e[0][0] = 3;
  e[1][0] = 3;
  e[2][2] = 1;
  e[3][2] = 1;
  return {x, e, longs({0, 1, 1, 2, 1, 0, 2, 1}).view({2, 4}),
          longs({0, 2, 0, 2, 0, 1}).view({2, 3}), at::tensor({1, 1, 0}, at::kInt)};
}

class PcqmContact : public ::testing::Test {
 protected:
  void write(const std::string& part, const std::vector<Molecule>& molecules) const {
    c10::impl::GenericList all(c10::AnyType::get());
    for (const Molecule& molecule : molecules) {
      std::vector<c10::IValue> fields(molecule.begin(), molecule.end());
      all.push_back(c10::ivalue::Tuple::create(fields));
    }
    const std::vector<char> bytes = torch::pickle_save(all);
    folder_.write(part + ".pt", std::string(bytes.begin(), bytes.end()));
  }
  std::shared_ptr<Dataset> open() const {
    return make_dataset("benchmark_graphs", "{name: pcqm-contact, root: " + folder_.path() + "}");
  }
  std::string refusal(const Molecule& molecule) const {
    write("val", {made_molecule(), molecule});
    return message_of<DataError>([&] { open(); });
  }

  testing::TempFolder folder_;
};

TEST_F(PcqmContact, IsMoleculesWithPairsOfAtoms) {
  write("train", {made_molecule(), made_molecule()});
  write("val", {made_molecule()});
  write("test", {made_molecule()});
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::train), 2);
  EXPECT_EQ(dataset->size(Split::test), 1);
  const NamedTensors graph = dataset->example(Split::train, 1, nullptr);
  // A column's values stand behind those of the columns before: 119 elements, then 5 chiralities.
  const std::vector<std::int64_t> starts = {0, 119, 124, 136, 148, 158, 164, 170, 172};
  const Tensor atoms = longs(starts).unsqueeze(0).repeat({3, 1});
  atoms[0][0] = 118;
  atoms[1][1] = 119 + 4;
  atoms[2][8] = 172 + 1;
  EXPECT_TRUE(graph.at("atom@node").equal(atoms));
  EXPECT_EQ(dataset->info().field("atom@node").categories, 174);
  EXPECT_EQ(dataset->info().field("bond@edge").categories, 13);
  // Edges by target, then source, with their bonds.
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_TRUE(
      graph.at("bond@edge").equal(longs({3, 5, 11, 3, 5, 11, 0, 5, 12, 0, 5, 12}).view({4, 3})));
  EXPECT_TRUE(graph.at("pairs@pair>node").equal(longs({0, 2, 2, 0, 0, 1}).view({3, 2})));
  EXPECT_TRUE(graph.at("link@pair").equal(longs({1, 1, 0})));
  EXPECT_EQ(dataset->info().field("link@pair").categories, 2);
}

TEST_F(PcqmContact, ThatDoesNotFitIsNamed) {
  for (const char* part : {"train", "test"}) write(part, {made_molecule()});
  Molecule bad = made_molecule();
  bad[0][1][1] = 5;
  EXPECT_THAT(refusal(bad),
              AllOf(HasSubstr("val.pt: graph 1: x: row 1 holds 5"), HasSubstr("expected 0 to 4")));
  bad = made_molecule();
  bad[1][3][2] = -1;
  EXPECT_THAT(refusal(bad), HasSubstr("graph 1: edge_attr: row 3 holds -1"));
  bad = made_molecule();
  bad[3][1][0] = 3;
  EXPECT_THAT(refusal(bad), mentions("edge_index_labeled", "not there"));
  bad = made_molecule();
  bad[4] = bad[4].slice(0, 0, 2);
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("graph 1"), HasSubstr("edge_label [2]")));
  bad = made_molecule();
  bad[0] = bad[0].slice(1, 0, 8);
  EXPECT_THAT(refusal(bad), HasSubstr("x is [3, 8]"));
}

}  // namespace
}  // namespace attnlab::pcqm_contact_test
