// Commands that tests disturb, and what they leave: a disturbed one, gone on with, leaves the same.
#pragma once

#include "tests/integration/workspace.h"

namespace attnlab::testing {

struct Sequence {
  const char* name;
  std::vector<Words> before;  ///< commands that make what it needs
  Words command;              ///< goes on where it was disturbed when it is called again
};

/// A run, a suite, a sweep, an evaluation, a report. (Members of an ensemble that part go on alone
/// with the same numbers up to rounding, not to the last bit.)
std::vector<Sequence> sequences();

/// What all runs below a folder hold: files and what is in them, without times.
using Outcome = std::map<std::string, std::string>;
Outcome outcome_of(const std::string& folder);

/// Tests that take sequences through something. Each works in a folder of its own.
class Sequences : public Workspace {
 protected:
  Sequences();

  /// A copy of the experiments below this name, as `before` leaves it. @returns the folder.
  std::string prepared(const Sequence& sequence, const std::string& name);
  Invocation in(const std::string& folder, const Words& words, Environment environment = {}) const;
  /// Calls the command until it ends with 0; fails the test where it does not. (Runs whose suite is
  /// gone may be at work still.)
  void finish(const Sequence& sequence, const std::string& folder) const;
  /// The folder holds the outcome, and nothing half-written.
  static void expect_outcome(const std::string& folder, const Outcome& expected);
};

/// A variable's number, or the one given.
std::int64_t number_from(const char* variable, std::int64_t otherwise);

}  // namespace attnlab::testing
