#include "framework/conformance/task_conformance.h"

#include "framework/conformance/check_table.h"
#include "framework/conformance/task_checks.h"

namespace attnlab::conformance {
namespace {

constexpr CheckEntry<TaskFixture> kTaskEntries[] = {
    {"loss", check_loss},
    {"metrics", check_metrics},
    {"batches", check_batches},
    {"learning", check_learning},
    {"weights", check_weights},
    {"members", check_members},
    {"labels", check_labels},
    {"parameters", check_parameters},
    {"save_and_load", check_save_and_load},
    {"evaluation", check_evaluation},
    {"inputs_unchanged", check_inputs_unchanged},
    {"process_state", check_process_state},
    {"memory", check_memory},
};

static_assert(lists_agree(kTaskEntries, kTaskChecks),
              "check_list.h and the functions must name the same checks");

}  // namespace

TaskSubject task_subject_of(Registry& registry, const Part& task, Problem problem) {
  const Manifest& manifest = *registry.catalogue().find(Kind::task, task.id).manifest;
  TaskSubject subject;
  subject.build = [&registry, task](const TaskSetup& setup) { return registry.task(task, setup); };
  subject.takes = manifest.takes;
  subject.ensemble = manifest.ensemble;
  subject.problem = std::move(problem);
  return subject;
}

CheckResult run_check(std::string_view check, const TaskSubject& subject) {
  const CheckEntry<TaskFixture>& entry = find_check(kTaskEntries, check, kTaskChecks);
  return judged(entry.name, [&] { return entry.run(TaskFixture(subject)); });
}

std::vector<CheckResult> run_checks(const TaskSubject& subject) {
  std::vector<CheckResult> results;
  for (const CheckInfo& info : kTaskChecks) results.push_back(run_check(info.name, subject));
  return results;
}

}  // namespace attnlab::conformance
