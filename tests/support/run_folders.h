// Tests of runs that were never trained: frozen experiments of made-up parts with a status.
#pragma once

#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::testing {

class WithRunFolders : public WithMadeParts {
 protected:
  /// A run's folder below runs/. @param changes  YAML over the usual experiment
  RunFolder frozen_run(const std::string& experiment, const std::string& attention,
                       std::int64_t seed, const std::string& changes = "") const {
    const bool language = experiment == "lm";
    Node composed =
        parse_yaml("schema: 1\nname: " + experiment + "\nmodel: " + (language ? "lm" : "vit") +
                       "\nattention: " + attention +
                       "\ntask: sorting\ndataset: " + (language ? "texts" : "pictures") + "\n",
                   "made.yaml");
    if (!changes.empty()) merge(composed, parse_yaml(changes, "changes.yaml"));
    const Experiment made = resolve_experiment(composed, parts().catalogue(), experiment);
    const RunFolder folder = RunFolder::of(root(), made, seed);
    folder.freeze(made, seed);
    return folder;
  }
  RunFolder write_run(const std::string& experiment, const std::string& attention,
                      std::int64_t seed, const RunStatus& status,
                      const std::string& changes = "") const {
    const RunFolder folder = frozen_run(experiment, attention, seed, changes);
    if (status.state == RunState::pending) return folder;
    folder.write_status(status);
    write_environment(folder);
    return folder;
  }
  static RunStatus ended(RunState state, const std::string& reason = "") {
    RunStatus status;
    status.state = state;
    status.reason = reason;
    return status;
  }
  std::string root() const { return temp_ / "runs"; }

  const TempFolder temp_;
};

/// How often `part` stands in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace attnlab::testing
