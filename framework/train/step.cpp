#include "framework/train/step.h"

#include <algorithm>
#include <cmath>

namespace attnlab {

std::vector<Batch> parts_of(const Batch& batch, std::int64_t count) {
  if (count == 1) return {batch};
  const std::int64_t size = (batch.size + count - 1) / count;
  std::vector<Batch> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t begin = 0; begin < batch.size; begin += size) {
    parts.push_back(slice(batch, begin, std::min(size, batch.size - begin)));
  }
  return parts;
}

double backward(BuiltRun& run, const Batch& batch) {
  const std::int64_t parts = run.experiment.train.accumulate;
  double total = 0;
  for (const Batch& examples : parts_of(batch, parts)) {
    ForwardPass pass;
    Tensor loss = run.task->loss(run.model->forward(examples, pass), examples);
    if (parts > 1) {
      loss = loss * (static_cast<double>(examples.size) / static_cast<double>(batch.size));
    }
    const double value = loss.item<double>();
    total += value;
    if (!std::isfinite(value)) break;
    loss.backward();
  }
  return total;
}

}  // namespace attnlab
