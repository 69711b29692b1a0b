#include "framework/suites/suite_keys.h"

#include "framework/comparison/comparison.h"
#include "framework/experiment/keys.h"
#include "framework/experiment/match.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

/// The keys of `reference` (suite_reference.h); its values are a map of the user's own names.
Schema reference_keys() {
  return {
      make_option("source", OptionSpec::Type::string, "where the numbers stand"),
      make_option("metric", OptionSpec::Type::string, "what they are numbers of; else accuracy")};
}

Schema relative_keys() {
  return {make_option("to", OptionSpec::Type::string, "the experiment whose value is 100 %"),
          make_option("metric", OptionSpec::Type::string, "what is compared; else accuracy")};
}

}  // namespace

Schema suite_keys(const Catalogue& catalogue) {
  const Schema experiment = experiment_keys(Node(), catalogue);
  const auto key = [&](const char* name) { return *find_option(experiment, name); };
  const auto text = [](const char* name, const char* help, bool list) {
    OptionSpec spec = make_option(name, OptionSpec::Type::string, help);
    spec.list = list;
    return spec;
  };
  OptionSpec missing =
      text("missing_data", "what to do where an experiment's data are missing", false);
  missing.choices = {"error", "skip"};
  OptionSpec plugins = text("missing_plugins",
                            "what to do where an experiment's model, task or dataset is not "
                            "installed",
                            false);
  plugins.choices = missing.choices;
  return {key("schema"),
          text("name", "of the suite's folder; else the file's name", false),
          text("baseline", "label of the attention to compare with; else the first", false),
          text("attentions", "names, or maps with use, options and as, the label", true),
          text("experiments", "files relative to this one, or names", true),
          key("seeds"),
          make_group("grid", {}, "values of keys: each experiment at every combination of them"),
          text("pool", "what tables are pooled by; else all that the grid varies", true),
          make_group("set", experiment, "what to change in every experiment"),
          make_group("fallback", experiment, "what else to change where data are missing"),
          text("skip", "cells left out: experiment, attention, seeds, reason", true),
          missing,
          plugins,
          text("stored", "folders of stored results, relative to this file", true),
          text("warning", "said loudly before and after, and part of every table", false),
          make_group("page", {}, "the page over domains: title, columns, claims"),
          make_group("reference", reference_keys(), "a publication's numbers, shown beside these"),
          make_group("relative", relative_keys(), "what tables give as a share of one value"),
          make_group("match", schema_of<MatchOptions>(), "what every attention has alike"),
          make_group("compare", schema_of<CompareOptions>(), "how the attentions are compared")};
}

}  // namespace attnlab
