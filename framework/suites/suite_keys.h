// The keys of a suite's file, each with its type, range, default and help: what it is checked
// against, and what explanations, completion, the JSON schema and docs/suites.md say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"
#include "framework/experiment/match.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/schema.h"
#include "framework/suites/suite_page.h"
#include "framework/suites/suite_reference.h"
#include "framework/suites/suite_relative.h"
#include "framework/suites/suite_skip.h"

namespace attnlab {

/// What is `NoOptions` here has keys of an experiment, or of the user's choice.
struct SuiteKeys {
  std::int64_t schema = 1;
  std::optional<std::string> name, baseline;
  std::vector<NoOptions> attentions;
  std::vector<std::string> experiments;
  std::optional<std::vector<std::int64_t>> seeds;
  NoOptions set;
  std::optional<NoOptions> grid, tune, fallback;
  std::optional<std::vector<std::string>> pool;
  std::string missing_data = "error", missing_plugins = "error";
  std::optional<PageKeys> page;
  std::vector<std::string> stored;
  std::string warning;
  std::vector<ReferenceKeys> reference;
  std::optional<RelativeTo> relative;
  std::vector<SkipRule> skip;
  std::optional<CompareOptions> compare;
  std::optional<MatchOptions> match;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("schema", schema, required(range(1, 1)), "version of the file's format");
    v("name", name, "name of the suite's folder; default: the file's name");
    v("attentions", attentions, filled(),
      "names of plugins or of files in `configs/attention/`, or maps with `use`, options, `as` "
      "(the label) and `set` (other changes to experiments with this attention); labels must "
      "differ");
    v("baseline", baseline, "label of the attention to compare with; default: the first");
    v("experiments", experiments, filled(),
      "files relative to this one, or names below `configs/experiments`");
    v("seeds", seeds, at_least(0), "seeds of all experiments; default: each experiment's own");
    v("set", set, "what to change in every experiment, by the rules of composition");
    v("grid", grid, "values of keys: each experiment runs at every combination of them");
    v("pool", pool, "keys whose values tables pool by; default: all that `grid` varies");
    v("tune", tune,
      "values of keys to tune: each attention has equally many tries, and its seeds run with the "
      "best; not with `grid`");
    v("fallback", fallback, "what else to change if an experiment's data are missing");
    v("missing_data", missing_data, one_of("error", "skip"),
      "skip: an experiment whose data are missing is absent as `no data`; not with `fallback`");
    v("missing_plugins", missing_plugins, one_of("error", "skip"),
      "skip: an experiment whose model, task or dataset is not installed is absent as `no plugin`");
    v("page", page, "the page over domains");
    v("stored", stored,
      "folders of stored results, relative to this file, used in place of runs where all agrees");
    v("warning", warning,
      "a warning that is printed before and after the runs, and with every table");
    v("reference", reference, one_or_more(),
      "a publication's numbers, in their own column; for several metrics a list");
    v("relative", relative, "metrics as shares of one experiment's value");
    v("skip", skip, "cells that are left out");
    v("compare", compare, "how the attentions are compared when the runs are done");
    v("match", match, "parameters or FLOPs that are equal for all attentions");
  }
};

/// A suite's keys; `set` and `fallback` hold an experiment's (experiment/keys.h).
Schema suite_keys(const Catalogue& catalogue);

}  // namespace attnlab
