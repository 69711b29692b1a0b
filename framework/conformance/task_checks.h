// One function a check of kTaskChecks. Each throws Failure, NotApplicable or Skipped, and returns a
// remark, mostly an empty one. What they do: docs/conformance.md.
#pragma once

#include "framework/conformance/task_fixture.h"

namespace attnlab::conformance {

// task_loss_checks.cpp
std::string check_loss(const TaskFixture& fixture);
std::string check_learning(const TaskFixture& fixture);
std::string check_weights(const TaskFixture& fixture);
std::string check_members(const TaskFixture& fixture);
std::string check_parameters(const TaskFixture& fixture);
std::string check_save_and_load(const TaskFixture& fixture);

// task_metric_checks.cpp
std::string check_metrics(const TaskFixture& fixture);
std::string check_batches(const TaskFixture& fixture);
std::string check_evaluation(const TaskFixture& fixture);
std::string check_labels(const TaskFixture& fixture);
std::string check_inputs_unchanged(const TaskFixture& fixture);
std::string check_process_state(const TaskFixture& fixture);
std::string check_memory(const TaskFixture& fixture);

}  // namespace attnlab::conformance
