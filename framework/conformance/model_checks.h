// One function a check of kModelChecks. Each throws Failure, NotApplicable or Skipped, and returns
// a remark, mostly an empty one. What they do: docs/conformance.md.
#pragma once

#include "framework/conformance/model_fixture.h"

namespace attnlab::conformance {

// model_output_checks.cpp
std::string check_outputs(const ModelFixture& fixture);
std::string check_parameters(const ModelFixture& fixture);
std::string check_trace(const ModelFixture& fixture);
std::string check_places(const ModelFixture& fixture);
std::string check_carried(const ModelFixture& fixture);

// model_batch_checks.cpp
std::string check_batch(const ModelFixture& fixture);
std::string check_padding(const ModelFixture& fixture);
std::string check_members(const ModelFixture& fixture);

// model_conduct_checks.cpp
std::string check_determinism(const ModelFixture& fixture);
std::string check_modes(const ModelFixture& fixture);
std::string check_save_and_load(const ModelFixture& fixture);
std::string check_inputs_unchanged(const ModelFixture& fixture);
std::string check_device(const ModelFixture& fixture);
std::string check_process_state(const ModelFixture& fixture);
std::string check_memory(const ModelFixture& fixture);

}  // namespace attnlab::conformance
