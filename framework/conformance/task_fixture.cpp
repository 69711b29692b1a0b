#include "framework/conformance/task_fixture.h"

#include <c10/core/GradMode.h>

#include <numeric>

namespace attnlab::conformance {

TaskFixture::TaskFixture(const TaskSubject& subject)
    : subject_(subject),
      problem_(subject.problem.data == nullptr ? made_problem_for(subject.takes)
                                               : subject.problem) {
  pair(false);
}

Pair TaskFixture::pair(bool training, std::uint64_t seed) const {
  Pair pair;
  with_seed(seed, [&] { pair.model = problem_.model(); });
  with_seed(seed + 1000, [&] {
    pair.task = subject_.build({problem_.data->info(), pair.model->outputs()});
  });
  expect(pair.task != nullptr, "the factory returned nothing");
  for (Trainable* part :
       {static_cast<Trainable*>(pair.model.get()), static_cast<Trainable*>(pair.task.get())}) {
    part->to(at::kDouble);
    part->train(training);
  }
  return pair;
}

Batch TaskFixture::batch(std::int64_t first, std::int64_t size) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), first);
  return in_double(batch_of(data(), indices));
}

Tensor TaskFixture::step(const Pair& pair, const Batch& batch, std::int64_t number) {
  Tensor loss;
  with_seed(static_cast<std::uint64_t>(number) + 3, [&] {
    TrainingStep step{.model = *pair.model,
                      .batch = batch,
                      .number = number,
                      .steps = 100,
                      .steps_per_epoch = 10,
                      .random = Random(static_cast<std::uint64_t>(number) + 5)};
    loss = pair.task->step(step);
  });
  return loss;
}

Metrics TaskFixture::evaluate(const Pair& pair, const std::vector<Batch>& batches) const {
  const at::NoGradGuard no_gradients;
  Evaluation evaluation{.model = *pair.model,
                        .data = data().info(),
                        .split = Split::test,
                        .streams = RandomStreams(1),
                        .batches = [&](Split, const std::function<void(const Batch&)>& use) {
                          for (const Batch& batch : batches) use(batch);
                        }};
  return pair.task->evaluate(evaluation);
}

std::vector<std::string> TaskFixture::labels() const {
  std::vector<std::string> names;
  for (const std::string& entry : subject_.takes) {
    for (const FieldInfo& field : data().info().fields) {
      if (field.name == field_of_entry(entry) && field.categories > 0) names.push_back(field.name);
    }
  }
  return names;
}

}  // namespace attnlab::conformance
