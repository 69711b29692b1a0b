// Suites over made-up parts, and cells that have run.
#pragma once

#include "framework/suites/suite.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::testing {

class SuiteTest : public WithMadeParts {
 protected:
  SuiteTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: {use: quest, eps: 0.5}\n"
                "task: sorting\ndataset: {use: pictures, root: real}\nseeds: [0, 1]\n");
    temp_.write("large.yaml", "extends: small.yaml\nmodel: {dim: 32}\n");
  }

  Suite load(const std::string& yaml, bool use_fallback = false,
             const std::vector<std::string>& overrides = {}) const {
    return load_suite(temp_.write("s.yaml", yaml), overrides, parts().catalogue(), temp_ / "runs",
                      use_fallback);
  }

  /// Why the suite is refused, with the temporary folder's name removed.
  std::string refusal(const std::string& yaml) const {
    return temp_.without(message_of<ConfigError>([&] { load(yaml); }));
  }

  static void finish(const Cell& cell, RunState state, const std::map<std::string, double>& metrics,
                     const std::string& reason = "") {
    cell.folder.freeze(cell.experiment, cell.seed);
    cell.folder.write_status({state, 1, 1, 1, 2, metrics, reason});
    write_environment(cell.folder);
  }

  const TempFolder temp_;
};

inline const std::string kBoth =
    "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\n";

}  // namespace attnlab::testing
