#include "plugins/datasets/graphs/molecules/chemistry.h"

#include <GraphMol/ChemTransforms/ChemTransforms.h>
#include <GraphMol/Chirality.h>
#include <GraphMol/GraphMol.h>
#include <GraphMol/MolOps.h>
#include <GraphMol/SanitException.h>
#include <GraphMol/SmilesParse/SmilesParse.h>
#include <GraphMol/SmilesParse/SmilesWrite.h>
#include <RDGeneral/versions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/data/graph/graph_table.h"

namespace attnlab {
namespace {

constexpr const char* kStereoVariable = "RDK_USE_LEGACY_STEREO_PERCEPTION";

using RDKit::Atom;
using RDKit::Bond;

/// Whether RDKits differ about how many bonds an atom may have: those from 2024.09 on allow charged
/// atoms and some elements fewer than those before.
bool bonds_depend_on_version(const Atom& atom) {
  constexpr int kSettled[] = {1, 6, 7, 8, 9, 17, 35, 53};  // H C N O F Cl Br I
  const bool settled = std::find(std::begin(kSettled), std::end(kSettled), atom.getAtomicNum()) !=
                       std::end(kSettled);
  return !settled || atom.getFormalCharge() != 0;
}

/// "U+200B", or "byte ff" for what is not UTF-8.
std::string name_of_character(std::string_view bytes) {
  if (character_size(bytes) == 0) return fmt::format("byte {:02x}", std::uint8_t(bytes[0]));
  return fmt::format("U+{:04X}", code_point(bytes));
}

/// What RDKits before 2024.09 took: MoleculeNet's tables hold such molecules, and OGB's features of
/// them come from those.
/// @returns null where anything else is wrong with the molecule, or this RDKit is such a one.
std::unique_ptr<RDKit::ROMol> as_before_2024(const std::string& smiles) {
  if (std::string_view(RDKit::rdkitVersion) < "2024.09") return nullptr;
  RDKit::SmilesParserParams as_written;
  as_written.sanitize = as_written.removeHs = false;
  std::unique_ptr<RDKit::RWMol> molecule(RDKit::SmilesToMol(smiles, as_written));
  if (molecule == nullptr) return nullptr;
  molecule->updatePropertyCache(/*strict=*/false);
  for (const auto& problem : RDKit::MolOps::detectChemistryProblems(*molecule)) {
    const auto* valence = dynamic_cast<const RDKit::AtomValenceException*>(problem.get());
    if (valence == nullptr) return nullptr;
    if (!bonds_depend_on_version(*molecule->getAtomWithIdx(valence->getAtomIdx()))) return nullptr;
  }
  unsigned int failed = 0;
  RDKit::MolOps::sanitizeMol(*molecule, failed,
                             RDKit::MolOps::SANITIZE_ALL ^ RDKit::MolOps::SANITIZE_PROPERTIES);
  RDKit::MolOps::removeHs(*molecule, RDKit::MolOps::RemoveHsParameters(), /*sanitize=*/false);
  RDKit::MolOps::assignStereochemistry(*molecule, /*cleanIt=*/true);
  return molecule;
}

bool is_plain(char c) { return c > ' ' && c <= '~'; }

/// A text in which characters that cannot be seen, or that look like others, are named:
/// CC<U+200B>O.
std::string readable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = std::max<std::size_t>(1, character_size(text));
    const std::string_view one = text.substr(0, size);
    out += is_plain(one[0]) || one == " " ? std::string(one) : "<" + name_of_character(one) + ">";
    text.remove_prefix(size);
  }
  return out;
}

/// RDKit's parser ends where a byte is not ASCII, at a zero byte and at a line's end, and takes
/// what stands before for the whole.
/// @param end  where a name may begin, which holds what it likes within a line
void check_characters(std::string_view smiles, std::size_t end) {
  std::size_t number = 0;
  for (std::size_t at = 0, size; at < smiles.size(); at += size) {
    ++number;
    size = std::max<std::size_t>(1, character_size(smiles.substr(at)));
    const char c = smiles[at];
    if (at < end ? is_plain(c) : c != '\0' && c != '\n' && c != '\r') continue;
    throw DataError(
        fmt::format("'{}' is not SMILES: its character {} is {}, which is not part of one",
                    readable(smiles), number, name_of_character(smiles.substr(at, size))));
  }
}

/// Numbers in brackets are counted in few bits: RDKit reads [#300] as ruthenium, [C+300] as +44,
/// [70000C] as isotope 4464.
void check_numbers(std::string_view smiles) {
  bool inside = false;
  for (std::size_t at = 1; at < smiles.size(); ++at) {
    const char before = smiles[at - 1];
    if (before == '[' || before == ']') inside = before == '[';
    const std::size_t end = std::min(smiles.find_first_not_of("0123456789", at), smiles.size());
    if (!inside || end == at) continue;
    const std::size_t most = before == '[' ? 65535 : before == '#' ? 118 : 127;
    const std::string digits(smiles.substr(at, end - at));
    if (before != ':' && std::strtoull(digits.c_str(), nullptr, 10) > most) {
      throw DataError(fmt::format("'{}' is not a molecule: {} is too large, {} is the most there",
                                  readable(smiles), digits, most));
    }
    at = end;
  }
}

/// As Python's MolFromSmiles reads it.
std::unique_ptr<RDKit::ROMol> molecule_of(const std::string& text) {
  const std::string smiles(trimmed(text));
  // RDKit's time grows with a power of the length, its stack with the length.
  constexpr std::size_t kLongest = 5000;  // the longest of the published peptides has 1043
  if (smiles.size() > kLongest) {
    throw DataError(fmt::format("a SMILES of {} characters is longer than the {} that are read",
                                smiles.size(), kLongest));
  }
  const std::size_t end = std::min(smiles.find_first_of(" \t"), smiles.size());  // then a name
  check_characters(smiles, end);
  check_numbers(std::string_view(smiles).substr(0, end));
  std::unique_ptr<RDKit::ROMol> molecule;
  std::string reason = "it is not SMILES";
  try {
    molecule.reset(RDKit::SmilesToMol(smiles, RDKit::SmilesParserParams()));
  } catch (const RDKit::AtomValenceException& error) {
    reason = error.what();
    try {
      molecule = as_before_2024(smiles);
    } catch (const std::exception&) {  // what was wrong first is said
    }
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (molecule == nullptr)
    throw DataError(fmt::format("RDKit refuses '{}': {}", readable(smiles), reason));
  if (molecule->getNumAtoms() == 0) throw DataError(fmt::format("'{}' has no atoms", smiles));
  return molecule;
}

/// The place of a number among first, first + 1, ...; behind the last: misc.
std::int64_t place(std::int64_t value, std::int64_t first, std::int64_t size) {
  const std::int64_t last = size - 1;
  return value < first || value - first >= last ? last : value - first;
}

std::int64_t hybridisation(const Atom& atom) {
  switch (atom.getHybridization()) {
    case Atom::SP:
      return 0;
    case Atom::SP2:
      return 1;
    case Atom::SP3:
      return 2;
    case Atom::SP3D:
      return 3;
    case Atom::SP3D2:
      return 4;
    default:
      return 5;
  }
}

std::int64_t kind(const Bond& bond) {
  switch (bond.getBondType()) {
    case Bond::SINGLE:
      return 0;
    case Bond::DOUBLE:
      return 1;
    case Bond::TRIPLE:
      return 2;
    case Bond::AROMATIC:
      return 3;
    default:
      return 4;
  }
}

std::int64_t stereo(const Bond& bond) {
  switch (bond.getStereo()) {
    case Bond::STEREONONE:
      return 0;
    case Bond::STEREOZ:
      return 1;
    case Bond::STEREOE:
      return 2;
    case Bond::STEREOCIS:
      return 3;
    case Bond::STEREOTRANS:
      return 4;
    default:
      return 5;
  }
}

std::array<std::int64_t, 9> features(const RDKit::ROMol& molecule, const Atom& atom) {
  return {place(atom.getAtomicNum(), 1, 119),
          place(atom.getChiralTag(), 0, 5),
          place(atom.getTotalDegree(), 0, 12),
          place(atom.getFormalCharge(), -5, 12),
          place(atom.getTotalNumHs(), 0, 10),
          place(atom.getNumRadicalElectrons(), 0, 6),
          hybridisation(atom),
          atom.getIsAromatic() ? 1 : 0,
          molecule.getRingInfo()->numAtomRings(atom.getIdx()) > 0 ? 1 : 0};
}

/// Writes a row, each value behind those of the columns before.
template <std::size_t columns>
void write(const std::array<std::int64_t, columns>& values,
           const std::array<std::int64_t, columns>& sizes, std::int64_t*& out) {
  std::int64_t before = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    *out++ = before + values[c];
    before += sizes[c];
  }
}

}  // namespace

NamedTensors ogb_graph(const std::string& smiles) {
  const std::unique_ptr<RDKit::ROMol> molecule = molecule_of(smiles);
  const std::int64_t atoms = molecule->getNumAtoms(), bonds = molecule->getNumBonds();
  const Tensor nodes = at::empty({atoms, 9}, at::kLong);
  auto* node = nodes.data_ptr<std::int64_t>();
  for (const Atom* atom : molecule->atoms()) write(features(*molecule, *atom), kAtomSizes, node);
  const Tensor edges = at::empty({2 * bonds, 2}, at::kLong);
  const Tensor kinds = at::empty({2 * bonds, 3}, at::kLong);
  auto* end = edges.data_ptr<std::int64_t>();
  auto* edge = kinds.data_ptr<std::int64_t>();
  for (const Bond* bond : molecule->bonds()) {
    const std::int64_t a = bond->getBeginAtomIdx(), b = bond->getEndAtomIdx();
    for (const std::int64_t one : {a, b, b, a}) *end++ = one;
    const std::array<std::int64_t, 3> values = {kind(*bond), stereo(*bond),
                                                bond->getIsConjugated() ? 1 : 0};
    for (int direction = 0; direction < 2; ++direction) write(values, kBondSizes, edge);
  }
  return with_sorted_edges({{"atom@node", nodes}, {"edges@edge>node", edges}, {"bond@edge", kinds}},
                           smiles);
}

std::string scaffold_of(const std::string& smiles, bool chirality) {
  const std::unique_ptr<RDKit::ROMol> scaffold(RDKit::MurckoDecompose(*molecule_of(smiles)));
  scaffold->clearComputedProps();
  scaffold->updatePropertyCache(/*strict=*/false);
  RDKit::MolOps::symmetrizeSSSR(*scaffold);
  return RDKit::MolToSmiles(*scaffold, chirality);
}

ChemistryEnvironment::ChemistryEnvironment() {
  if (const char* value = std::getenv(kStereoVariable)) before_ = value;
  // Once there, the variable is only changed in place: adding it, which many threads would do at
  // once, moves the whole environment under those that look into it.
  RDKit::Chirality::setUseLegacyStereoPerception(RDKit::Chirality::getUseLegacyStereoPerception());
}

ChemistryEnvironment::~ChemistryEnvironment() {
  if (before_) {
    ::setenv(kStereoVariable, before_->c_str(), 1);
  } else {
    ::unsetenv(kStereoVariable);
  }
}

std::string chemistry_version() {
  std::string version = RDKit::rdkitVersion;
  if (!RDKit::Chirality::getUseLegacyStereoPerception()) version += ", new stereo perception";
  if (!RDKit::Chirality::getAllowNontetrahedralChirality()) version += ", tetrahedral stereo alone";
  return version;
}

}  // namespace attnlab
