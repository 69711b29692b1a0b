#include "framework/train/parts.h"

#include <c10/core/GradMode.h>

namespace attnlab {

OwnParts own_parts(const World& world, std::int64_t parts) {
  const std::int64_t count = parts / world.size();
  return {world.rank() * count, count};
}

std::int64_t part_begin(std::int64_t size, std::int64_t part, std::int64_t parts) {
  return (part * size + parts - 1) / parts;
}

PartPlan cut_into_parts(const EpochPlan& plan, std::int64_t parts, const OwnParts& own) {
  PartPlan cut;
  cut.plan.order = plan.order;
  cut.plan.continues = plan.continues;
  std::int64_t begin = 0;
  for (const std::int64_t end : plan.ends) {
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t last = begin + part_begin(end - begin, part + 1, parts);
      if (last == begin + part_begin(end - begin, part, parts)) continue;
      if (part >= own.first && part < own.first + own.count) {
        cut.own.push_back(cut.plan.batches());
        cut.parts.push_back(part);
      }
      cut.plan.ends.push_back(last);
    }
    cut.ends.push_back(static_cast<std::int64_t>(cut.own.size()));
    begin = end;
  }
  return cut;
}

PartBuffers::PartBuffers(const std::vector<torch::nn::Module*>& modules) {
  for (const torch::nn::Module* module : modules) {
    for (const auto& item : module->named_buffers()) {
      const Tensor& live = item.value();
      if (!live.defined()) continue;
      buffers_.push_back({live, live.detach().clone(), {}});
    }
  }
}

void PartBuffers::end_part(std::int64_t part) {
  const c10::NoGradGuard no_gradients;
  parts_.push_back(part);
  for (Buffer& buffer : buffers_) {
    if (buffer.live.equal(buffer.before)) continue;
    buffer.after[part] = buffer.live.detach().to(at::kDouble, false, /*copy=*/true);
    buffer.live.copy_(buffer.before);
  }
}

std::vector<std::int64_t> PartBuffers::changed() const {
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].after.empty()) places.push_back(static_cast<std::int64_t>(i));
  }
  return places;
}

std::vector<Tensor> PartBuffers::sums(const std::vector<std::int64_t>& places) const {
  TreeSum sum;
  for (const std::int64_t part : parts_) {
    std::vector<Tensor> values;
    for (const std::int64_t place : places) {
      const Buffer& buffer = buffers_[static_cast<std::size_t>(place)];
      const auto found = buffer.after.find(part);
      const bool has = found != buffer.after.end();
      values.push_back(has ? found->second.clone()
                           : buffer.before.to(at::kDouble, false, /*copy=*/true));
    }
    sum.add(part, std::move(values));
  }
  if (!parts_.empty()) return sum.result();
  std::vector<Tensor> nothing;
  for (const std::int64_t place : places) {
    const Tensor& like = buffers_[static_cast<std::size_t>(place)].before;
    nothing.push_back(at::full_like(like, -0.0, like.options().dtype(at::kDouble)));
  }
  return nothing;
}

void PartBuffers::set_means(const std::vector<std::int64_t>& places,
                            const std::vector<Tensor>& sums, std::int64_t parts) {
  const c10::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(places[i])];
    Tensor mean = sums[i] / static_cast<double>(parts);
    if (!buffer.live.is_floating_point()) mean = mean.round();
    buffer.live.copy_(mean);
  }
}

}  // namespace attnlab
