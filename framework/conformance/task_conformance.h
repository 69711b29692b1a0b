// The conformance kit for tasks: does one keep the contract of framework/contracts/task.h?
//
// A task is given a problem that a linear model can solve, made up from what its manifest takes, or
// the model and the data of an experiment; in float64.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/conformance/conformance.h"
#include "framework/contracts/task.h"
#include "framework/host/registry.h"

namespace attnlab::conformance {

/// What a task is tried on.
struct Problem {
  std::shared_ptr<const Dataset> data;
  /// A fresh model that gives what the task takes; float32, on the CPU.
  std::function<std::shared_ptr<Model>()> model;
};

/// A problem that a linear model can solve: each example, or each row of an axis, belongs to the
/// class whose number is largest among its first ones.
///
///   logits from x [8]; class or targets [3] int64; each may lie along an axis (logits@node,
///   class@node); features and tokens [8] for tasks with heads of their own
///
/// @param takes  of the task
/// @throws ConfigError for an entry that is none of these.
Problem made_problem_for(const std::vector<std::string>& takes);

/// The task that is checked.
struct TaskSubject {
  std::function<std::shared_ptr<Task>(const TaskSetup&)> build;
  std::vector<std::string> takes;  ///< what its plugin's manifest says
  bool ensemble = false;
  Problem problem{};  ///< no data: made up from `takes`
};

/// The subject of a plugin. @param registry  must outlive it
TaskSubject subject_of(Registry& registry, const Part& task, Problem problem = {});

/// As for attentions. @throws ConfigError when there is no check of that name.
CheckResult run_check(std::string_view check, const TaskSubject& subject);

/// Every check of `kTaskChecks`.
std::vector<CheckResult> run_checks(const TaskSubject& subject);

}  // namespace attnlab::conformance
