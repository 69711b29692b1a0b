// The sets of molecules: what is said of one, where it lies, and what its columns mean.
#pragma once

#include "framework/data/graph/graph_dataset.h"
#include "framework/plugin.h"

namespace attnlab {

struct MoleculesOptions : EncodingOptions {
  std::string name;
  std::string archive = "graphs";
  std::string root;
  std::string file, smiles = "smiles", target = "values";
  std::vector<std::string> targets;
  std::string split = "published";
  double validation = 0.1, test = 0.1;
  std::int64_t split_seed = -1;
  bool scaffold_chirality = false;
  bool scale_targets = false;
  std::string refused = "error";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name,
      required(one_of("peptides-func", "peptides-struct", "esol", "freesolv", "lipophilicity",
                      "molhiv", "table")),
      "the set; table: your own, as file, smiles, targets and target say");
    v("archive", archive, "folder of the sets below $ATTNLAB_DATA; empty: $ATTNLAB_DATA itself");
    v("root", root, "folder with the files, or the one above it; empty: $ATTNLAB_DATA");
    v("file", file, "for name table: the file below the folder");
    v("smiles", smiles, "for name table: the column of SMILES");
    v("targets", targets, "for name table: the columns of targets");
    v("target", target, one_of("values", "labels", "class"),
      "for name table: numbers to predict; labels 0 and 1; or one column of classes 0, 1, ...");
    v("split", split, one_of("published", "random", "scaffold"),
      "published: the set's own; scaffold: DeepChem's and OGB's rule");
    v("validation", validation, range(0, 0.9), "share of a random or scaffold split");
    v("test", test, range(0, 0.9), "share of a random or scaffold split");
    v("split_seed", split_seed, at_least(-1), "seed of a random split; -1: the run's seed");
    v("scaffold_chirality", scaffold_chirality, "mirror images have different scaffolds");
    v("scale_targets", scale_targets,
      "standardise targets by mean and deviation of the training examples; metrics stay in raw "
      "units");
    v("refused", refused, one_of("error", "skip"), "what to do if RDKit refuses a SMILES");
    EncodingOptions::describe(v);
  }
};

/// Where a set lies, and what its columns mean.
struct Layout {
  std::string folder, file, smiles;
  std::vector<std::string> targets;
  std::string target, split, split_file, source;
};

/// @throws OptionError where a table of one's own lacks a file or targets.
Layout layout_of(const MoleculesOptions& options);

}  // namespace attnlab
