#include "framework/eval/task.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "framework/core/text.h"

namespace attnlab {

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
