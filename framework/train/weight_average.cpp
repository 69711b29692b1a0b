#include "framework/train/weight_average.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/train/schedule.h"

namespace attnlab {
namespace {

using List = torch::OrderedDict<std::string, Tensor>;

template <class Item>
void add_all(const List& live, const List& mean, std::vector<Item>& items) {
  if (live.size() != mean.size()) {
    throw ShapeError(fmt::format("weight average: {} tensors are trained, {} hold their mean",
                                 live.size(), mean.size()));
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Tensor &one = live[i].value(), &other = mean[i].value();
    if (live[i].key() != mean[i].key() || one.sizes() != other.sizes() ||
        one.scalar_type() != other.scalar_type()) {
      throw ShapeError(fmt::format("weight average: {} {} has no mean of its kind: {} {}",
                                   live[i].key(), describe(one), mean[i].key(), describe(other)));
    }
    items.push_back({one, other});
  }
}

}  // namespace

void WeightAverage::add(const torch::nn::Module& live, torch::nn::Module& mean) {
  add_all(live.named_parameters(), mean.named_parameters(), parameters_);
  add_all(live.named_buffers(), mean.named_buffers(), buffers_);
}

void WeightAverage::start() {
  const at::NoGradGuard no_gradients;
  for (const Item& item : parameters_) item.mean.copy_(item.live);
  for (const Item& item : buffers_) item.mean.copy_(item.live);
}

void WeightAverage::update(double decay) {
  const at::NoGradGuard no_gradients;
  for (const Item& item : parameters_) item.mean.mul_(decay).add_(item.live, 1 - decay);
  for (const Item& item : buffers_) item.mean.copy_(item.live);
}

double average_decay(const AverageOptions& options, std::int64_t step, std::int64_t steps) {
  if (options.end < 0) return options.decay;
  return cosine_between(options.decay, options.end, step, steps);
}

}  // namespace attnlab
