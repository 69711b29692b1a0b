// Molecules as graphs with OGB's features, by RDKit; nothing of RDKit's is seen outside.
//
// Atoms, a column each: atomic number, chirality, neighbours with hydrogens, charge, hydrogens,
// radical electrons, hybridisation, aromatic, in a ring. Bonds: kind, stereo, conjugated. A value
// that OGB's lists lack counts as the last of its column. Source: Hu et al. 2020
// (arXiv:2005.00687), ogb/utils/features.py and mol.py.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "framework/contracts/batch.h"

namespace attnlab {

/// How many values each column has.
inline constexpr std::array<std::int64_t, 9> kAtomSizes = {119, 5, 12, 12, 10, 6, 6, 2, 2};
inline constexpr std::array<std::int64_t, 3> kBondSizes = {5, 6, 2};

/// `atom@node` [N, 9], `edges@edge>node` [E, 2] sorted, `bond@edge` [E, 3]; int64. Column c holds
/// its value plus the sizes of the columns before it, so that one table serves all columns.
/// Hydrogens are not atoms. Thread-safe.
/// @throws DataError with RDKit's reason where it refuses the text, or where it has no atoms.
NamedTensors ogb_graph(const std::string& smiles);

/// The Bemis-Murcko scaffold (rings and what links them) as canonical SMILES; empty without rings.
/// @param chirality  whether mirror images differ
/// @throws DataError as above.
std::string scaffold_of(const std::string& smiles, bool chirality);

/// RDKit 2022.09 writes a variable into the environment with every molecule. While this object is
/// there, many threads may read molecules: the variable exists from the beginning. The destructor
/// puts back what stood there. Make and destroy it where no other thread runs.
class ChemistryEnvironment {
 public:
  ChemistryEnvironment();
  ~ChemistryEnvironment();
  ChemistryEnvironment(const ChemistryEnvironment&) = delete;
  ChemistryEnvironment& operator=(const ChemistryEnvironment&) = delete;

 private:
  std::optional<std::string> before_;
};

/// RDKit's, and what its variables of the environment switch: part of what features depend on.
std::string chemistry_version();

}  // namespace attnlab
