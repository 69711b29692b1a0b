#include "framework/contracts/task.h"

#include <ATen/core/grad_mode.h>

namespace attnlab {

Tensor Task::step(TrainingStep& step) {
  ForwardPass pass;
  pass.carried = step.carried;
  return loss(step.model.forward(step.batch, pass), step.batch);
}

Tensor Task::loss(const NamedTensors&, const Batch&) const {
  throw Error("this task has no loss of a forward pass: its plugin must override loss() or step()");
}

Tensor Task::losses(const NamedTensors& outputs, const Batch& batch, std::int64_t members) const {
  std::vector<Tensor> all;
  all.reserve(static_cast<std::size_t>(members));
  for (std::int64_t m = 0; m < members; ++m) {
    NamedTensors own;
    for (const auto& [name, output] : outputs) {
      const std::int64_t rows = output.size(0) / members;
      own.set(name, output.narrow(0, m * rows, rows));
    }
    const std::int64_t examples = batch.size / members;
    all.push_back(loss(own, slice(batch, m * examples, examples)));
  }
  return at::stack(all);
}

std::unique_ptr<Meter> Task::meter() const {
  throw Error("this task has no meter: its plugin must override meter() or evaluate()");
}

Metrics Task::evaluate(Evaluation& evaluation) const {
  const at::NoGradGuard no_gradients;
  const std::unique_ptr<Meter> meter = this->meter();
  if (evaluation.passes) {
    evaluation.passes(evaluation.split, [&](const Batch& batch, const NamedTensors& outputs) {
      meter->add(outputs, batch);
    });
    return meter->result();
  }
  NamedTensors carried;
  evaluation.batches(evaluation.split, [&](const Batch& batch) {
    if (!batch.continues) carried = {};
    ForwardPass pass;
    pass.carried = &carried;
    meter->add(evaluation.model.forward(batch, pass), batch);
  });
  return meter->result();
}

Metrics Task::conclude(const std::function<Metrics()>&, const Metrics&) const { return {}; }

}  // namespace attnlab
