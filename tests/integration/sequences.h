// Commands that tests disturb, and what they leave: a disturbed one, gone on with, leaves the same.
#pragma once

#include "tests/integration/workspace.h"

namespace attnlab::testing {

struct Sequence {
  const char* name;
  std::vector<Words> before;  ///< commands that make what it needs
  Words command;              ///< goes on where it was disturbed when it is called again
  /// The command itself was begun before, and has not ended.
  bool begun = false;
  /// By which metrics may differ. 0: they, and all else, are the same to the last bit. (Members of
  /// an ensemble that part go on alone with the same numbers up to rounding.)
  double tolerance = 0;
};

/// A run, the resuming of one, a suite, a sweep, an ensemble, an evaluation, a report, and the
/// packing of results where this build has it.
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
  /// What the command needs in its environment so that a call below reading and writing fails.
  /// @param fault  "enospc:7+", as tests/faulty_io says
  Environment with_fault(const std::string& folder, const std::string& fault) const;
  /// Calls that the last command with a fault counted.
  std::int64_t calls() const;
  /// The folder holds the outcome, and nothing half-written.
  static void expect_outcome(const std::string& folder, const Outcome& expected,
                             double tolerance = 0);
  /// The runs of which a command has said that they are done, the evaluations whose numbers it has
  /// shown, and the files that it has named, are there as they were expected.
  /// @returns how many these are.
  static std::size_t expect_reported(const Ended& ended, const std::string& folder,
                                     const Outcome& expected, double tolerance = 0);

 private:
  void begin(const Sequence& sequence, const std::string& folder);

  const std::string calls_ = at("calls");
};

/// Labels of the runs that a command said are done: "tiny/standard/0".
std::vector<std::string> reported_done(const std::string& output);

/// A variable's number, or the one given.
std::int64_t number_from(const char* variable, std::int64_t otherwise);

}  // namespace attnlab::testing
