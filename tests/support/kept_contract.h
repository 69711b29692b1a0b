// The conformance kit over a part, for the tests of that part.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "framework/conformance/check_plugin.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

/// Every check of the kit: one that fails, fails the test.
/// @param but  a check that is left out
/// @returns outcomes by check.
inline std::map<std::string, conformance::Outcome> expect_contract_kept(
    const std::string& id, const std::string& options, const std::string& but = "") {
  const Part part = make_part(Kind::dataset, id, options);
  std::map<std::string, conformance::Outcome> outcomes;
  for (const conformance::CheckInfo& check : conformance::checks_of(Kind::dataset)) {
    if (check.name == but) continue;
    const conformance::CheckResult result =
        conformance::check_plugin(registry(), part, check.name, {.options_given = true});
    EXPECT_NE(result.outcome, conformance::Outcome::failed) << check.name << ": " << result.message;
    outcomes[std::string(check.name)] = result.outcome;
  }
  return outcomes;
}

/// Every check of the kit over the model or the task of an experiment.
inline void expect_contract_kept(Kind kind, const Experiment& given) {
  const Part& part = kind == Kind::model ? given.model : given.task;
  int passed = 0;
  for (const conformance::CheckInfo& check : conformance::checks_of(kind)) {
    const conformance::CheckResult result = conformance::check_plugin(
        registry(), part, check.name, {.options_given = true, .experiment = &given});
    EXPECT_NE(result.outcome, conformance::Outcome::failed) << check.name << ": " << result.message;
    passed += result.outcome == conformance::Outcome::passed ? 1 : 0;
  }
  EXPECT_GE(passed, 8);
}

}  // namespace attnlab::testing
