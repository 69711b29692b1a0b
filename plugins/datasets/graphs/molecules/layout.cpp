#include "plugins/datasets/graphs/molecules/layout.h"

namespace attnlab {

Layout layout_of(const MoleculesOptions& options) {
  static const std::string kLrgb = "https://github.com/vijaydwivedi75/lrgb";
  static const std::string kNet = "https://moleculenet.org";
  const std::string& name = options.name;
  if (name == "peptides-func") {
    return {"peptides_functional",
            "raw/peptide_multi_class_dataset.csv",
            "smiles",
            {"labels"},
            "labels",
            "file",
            "splits_random_stratified_peptide.pickle",
            kLrgb};
  }
  if (name == "peptides-struct") {
    return {"peptides_structural",
            "raw/peptide_structure_normalized_dataset.csv",
            "smiles",
            {"Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a",
             "Inertia_valence_b", "Inertia_valence_c", "length_a", "length_b", "length_c",
             "Spherocity", "Plane_best_fit"},
            "values",
            "file",
            "splits_random_stratified_peptide_structure.pickle",
            kLrgb + " (peptide_structure_dataset.csv, without \"normalized\", has other values)"};
  }
  const auto moleculenet = [&](const char* file, const char* column) {
    return Layout{"moleculenet", file, "smiles", {column}, "values", "random", "", kNet};
  };
  if (name == "esol") {
    return moleculenet("delaney-processed.csv", "measured log solubility in mols per litre");
  }
  if (name == "freesolv") return moleculenet("SAMPL.csv", "expt");
  if (name == "lipophilicity") return moleculenet("Lipophilicity.csv", "exp");
  if (name == "molhiv") {
    return {"molhiv", "HIV.csv", "smiles", {"HIV_active"}, "class", "scaffold", "", kNet};
  }
  if (options.file.empty()) throw OptionError("file", "is empty; name the table's file");
  if (options.targets.empty()) throw OptionError("targets", "is empty; name columns of the table");
  return {"molecules", options.file, options.smiles, options.targets, options.target, "random",
          "",          kNet};
}

}  // namespace attnlab
