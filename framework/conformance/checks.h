// One function a check of check_list.h. Each throws Failure, NotApplicable or Skipped, and returns
// a remark, mostly an empty one. What they do: docs/conformance.md.
#pragma once

#include "framework/conformance/fixture.h"

namespace attnlab::conformance {

// basic_checks.cpp
std::string check_shapes(const Fixture& fixture);
std::string check_dtypes(const Fixture& fixture);
std::string check_narrow_sums(const Fixture& fixture);
std::string check_device(const Fixture& fixture);
std::string check_determinism(const Fixture& fixture);
std::string check_dropout(const Fixture& fixture);
std::string check_save_and_load(const Fixture& fixture);
std::string check_strides(const Fixture& fixture);
std::string check_batch(const Fixture& fixture);

// member_checks.cpp
std::string check_members(const Fixture& fixture);
std::string check_queries(const Fixture& fixture);
std::string check_writing(const Fixture& fixture);

// gradient_checks.cpp
std::string check_gradients(const Fixture& fixture);
std::string check_second_gradients(const Fixture& fixture);

// visibility_checks.cpp
std::string check_causality(const Fixture& fixture);
std::string check_window(const Fixture& fixture);
std::string check_pair_mask(const Fixture& fixture);

// absence_checks.cpp
std::string check_padding(const Fixture& fixture);
std::string check_ragged(const Fixture& fixture);
std::string check_empty_rows(const Fixture& fixture);

// input_checks.cpp
std::string check_refusals(const Fixture& fixture);
std::string check_bias(const Fixture& fixture);
std::string check_broadcasting(const Fixture& fixture);
std::string check_relative_positions(const Fixture& fixture);
std::string check_different_lengths(const Fixture& fixture);
std::string check_different_source(const Fixture& fixture);
std::string check_positions(const Fixture& fixture);
std::string check_permutation(const Fixture& fixture);

// conduct_checks.cpp
std::string check_state(const Fixture& fixture);
std::string check_large_logits(const Fixture& fixture);
std::string check_single_token(const Fixture& fixture);
std::string check_trace(const Fixture& fixture);
std::string check_linear_cost(const Fixture& fixture);
std::string check_inputs_unchanged(const Fixture& fixture);
std::string check_process_state(const Fixture& fixture);
std::string check_memory(const Fixture& fixture);

// training_checks.cpp
std::string check_losses(const Fixture& fixture);
std::string check_after_step(const Fixture& fixture);

}  // namespace attnlab::conformance
