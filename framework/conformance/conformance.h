// The conformance kit: does an attention keep the contract of framework/contracts/attention.h?
// (Datasets: dataset_conformance.h. A plugin of any kind, by its name: check_plugin.h.)
//
// Each check feeds tiny inputs to a stack of two layers that share a ForwardState, since mechanisms
// that read the previous layer may be wrong in the second layer alone. A check says what was fed
// and what came out, or which trait it would need. `attnlab plugin test` runs each in a process of
// its own; a lab's own tests may call them here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/conformance/check_list.h"
#include "framework/contracts/attention.h"

namespace attnlab::conformance {

/// The mechanism that is checked.
struct Subject {
  AttentionBuilder build;
  /// What its plugin declares (`kTraits`, the manifest).
  AttentionTraits declared;
  /// Its options are not the defaults: an object may then refuse, with a TraitError, what its class
  /// declares (two options that do not go together). Counts as not applicable instead of failed.
  bool may_refuse = false;
};

enum class Outcome {
  passed,
  failed,
  not_applicable,  ///< needs a trait that is not declared
  skipped,         ///< needs something that this machine lacks
};

/// "passed", "failed", "not applicable", "skipped".
std::string_view name_of(Outcome outcome);

struct CheckResult {
  std::string check;
  Outcome outcome = Outcome::passed;
  /// Why it failed (what was fed, what came out), why it was not run, or a remark.
  std::string message;
  double seconds = 0;
};

/// Runs one check. Exceptions of the mechanism are failures; the state of the process is put back.
/// A mechanism that crashes or hangs takes the caller with it.
/// @throws ConfigError when there is no check of that name.
CheckResult run_check(std::string_view check, const Subject& subject);

/// Every check of `kChecks`.
std::vector<CheckResult> run_checks(const Subject& subject);

}  // namespace attnlab::conformance
