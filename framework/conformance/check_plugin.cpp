#include "framework/conformance/check_plugin.h"

#include "framework/conformance/check_table.h"
#include "framework/conformance/dataset_conformance.h"
#include "framework/conformance/fixture.h"
#include "framework/conformance/model_fixture.h"
#include "framework/conformance/task_fixture.h"
#include "framework/manifest/python_file.h"

namespace attnlab::conformance {
namespace {

CheckResult loaded() {
  CheckResult result;
  result.check = kLoad;
  return result;
}

CheckResult check_attention(Registry& registry, const Part& part, std::string_view check,
                            const PluginCheck& how) {
  Subject subject;
  subject.build = [&](const AttentionShape& shape) { return registry.attention(part, shape); };
  const AttentionShape shape = Fixture::shape();
  if (check == "members" && is_python_name(part.path)) {
    return judged(check, []() -> std::string {
      throw NotApplicable("a class in Python holds one run's parameters");
    });
  }
  if (check == kProcessState) {  // the first object may change what later ones leave alone
    const CheckResult built = judged(check, [&] {
      with_seed(1, [&] { subject.build(shape); });
      return std::string();
    });
    if (built.outcome != Outcome::passed) return built;
  }
  // The registry has compared them with the manifest's.
  subject.declared = subject.build(shape)->traits();
  subject.may_refuse = how.options_given;
  return check == kLoad ? loaded() : run_check(check, subject);
}

CheckResult check_dataset(Registry& registry, const Part& part, std::string_view check,
                          const PluginCheck& how) {
  const DatasetSubject subject = subject_of(registry, part, how.trying);
  if (check != kLoad) return run_check(check, subject);
  subject.open(DatasetSubject::kSeed);
  return loaded();
}

std::shared_ptr<const Dataset> data_of(const Experiment& experiment, Registry& registry) {
  return registry.dataset(experiment.dataset, {RandomStreams(DatasetSubject::kSeed)});
}

CheckResult check_model(Registry& registry, const Part& part, std::string_view check,
                        const PluginCheck& how) {
  Registry& others = how.others == nullptr ? registry : *how.others;
  std::shared_ptr<const Dataset> data;
  if (how.experiment != nullptr) data = data_of(*how.experiment, others);
  const ModelSubject subject = model_subject_of(registry, part, others, std::move(data));
  if (check != kLoad) return run_check(check, subject);
  const ModelFixture built(subject);
  return loaded();
}

/// The experiment's own data and model.
Problem problem_of(const Experiment& experiment, Registry& registry) {
  Problem problem;
  problem.data = data_of(experiment, registry);
  problem.model = [&experiment, &registry, data = problem.data] {
    return registry.model(
        experiment.model,
        {data->info(), registry.attention_builder(experiment.attention, RandomStreams(1))});
  };
  return problem;
}

CheckResult check_task(Registry& registry, const Part& part, std::string_view check,
                       const PluginCheck& how) {
  Registry& others = how.others == nullptr ? registry : *how.others;
  Problem problem;
  if (how.experiment != nullptr) problem = problem_of(*how.experiment, others);
  const TaskSubject subject = task_subject_of(registry, part, std::move(problem));
  if (check != kLoad) return run_check(check, subject);
  const TaskFixture built(subject);
  return loaded();
}

}  // namespace

CheckResult check_plugin(Registry& registry, const Part& part, std::string_view check,
                         const PluginCheck& how) {
  switch (part.kind) {
    case Kind::attention:
      return check_attention(registry, part, check, how);
    case Kind::dataset:
      return check_dataset(registry, part, check, how);
    case Kind::model:
      return check_model(registry, part, check, how);
    case Kind::task:
      return check_task(registry, part, check, how);
  }
  throw PluginError(part.path + ": is of a kind that this program does not know");
}

}  // namespace attnlab::conformance
