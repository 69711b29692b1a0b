// The test that fits a suite's planned seeds.
#pragma once

#include <cstdint>
#include <utility>

#include "framework/suites/suite.h"

namespace attnlab {

/// Most seeds of an experiment, and tests in all.
std::pair<std::int64_t, std::int64_t> pairs_and_tests(const Suite& suite);

/// Chooses the test of a suite that names none, by its planned seeds (`test_for_plan`).
/// @param named  whether the suite names one
void plan_test(Suite& suite, bool named);

}  // namespace attnlab
