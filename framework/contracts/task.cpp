#include "framework/contracts/task.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "framework/base/text.h"

namespace attnlab {

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

Metrics Task::evaluate(const std::string& protocol, Model& model,
                       const BatchSource& batches) const {
  if (protocol != "clean") {
    const std::vector<std::string> known = protocols();
    const bool listed = std::find(known.begin(), known.end(), protocol) != known.end();
    throw ConfigError("evaluation protocol '" + protocol + "' is not known to this task" +
                      (listed ? ", although it lists it" : "; it knows " + join(known, ", ")));
  }
  const at::NoGradGuard no_gradients;
  const std::unique_ptr<Meter> meter = this->meter();
  batches([&](const Batch& batch) {
    ForwardPass pass;
    meter->add(model.forward(batch, pass), batch);
  });
  return meter->result();
}

Metrics Task::conclude(const std::function<Metrics()>&, const Metrics&) const { return {}; }

}  // namespace attnlab
