// One attention layer at work, and the memory it takes.
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "framework/nn/attention/attention_kernel.h"
#include "framework/tensor/memory_meter.h"
#include "runner/engine/bench.h"

namespace attnlab {
namespace {

/// [batch, heads, length, dim] that lies in memory by token, as projections give it.
Tensor drawn(const BenchShape& shape) {
  return at::randn({shape.batch, shape.length, shape.heads, shape.dim}).transpose(1, 2);
}

AttentionInput drawn_input(const BenchShape& shape, bool causal, const AttentionTraits& traits) {
  AttentionInput input;
  input.queries = drawn(shape);
  input.keys = drawn(shape);
  input.values = drawn(shape);
  input.visible.causal = causal;
  if (traits.sources) {
    input.query_source = at::randn({shape.batch, shape.length, shape.heads * shape.dim});
    input.key_source = input.value_source = input.query_source;
  }
  return input;
}

class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

class KernelAsked {
 public:
  explicit KernelAsked(AttentionKernel kernel) : before_(attention_kernel()) {
    set_attention_kernel(kernel);
  }
  ~KernelAsked() { set_attention_kernel(before_); }
  KernelAsked(const KernelAsked&) = delete;
  KernelAsked& operator=(const KernelAsked&) = delete;

 private:
  AttentionKernel before_;
};

/// The number after a key in a file of /proc, or the first of a file of one number.
std::optional<std::int64_t> number_in(const char* file, const std::string& key = "") {
  std::ifstream in(file);
  for (std::string word; !key.empty() && word != key;) {
    if (!(in >> word)) return {};
  }
  std::int64_t number = 0;
  if (!(in >> number)) return {};
  return number;
}

}  // namespace

BenchLayer::BenchLayer(Registry& registry, const Part& part, const BenchShape& shape, bool causal) {
  AttentionShape layer;
  layer.heads = shape.heads;
  layer.head_dim = shape.dim;
  layer.layers = 2;
  layer.query_width = layer.key_width = layer.value_width = shape.heads * shape.dim;
  const std::shared_ptr<Attention> first = registry.attention(part, layer);
  layer.layer = 1;
  attention_ = registry.attention(part, layer);
  at::manual_seed(0);  // the same input, whatever the mechanism
  const AttentionInput first_input = drawn_input(shape, causal, attention_->traits());
  input_ = drawn_input(shape, causal, attention_->traits());
  gradient_ = drawn(shape);
  {
    const at::NoGradGuard no_gradients;
    AttentionContext context{0, &before_, nullptr};
    first->forward(first_input, context);
  }
  for (Tensor* x : {&input_.queries, &input_.keys, &input_.values, &input_.query_source}) {
    if (x->defined()) x->requires_grad_();
  }
}

Tensor BenchLayer::attend() const {
  ForwardState state = before_;  // every pass goes on from where the first layer ended
  AttentionContext context{1, &state, nullptr};
  return attention_->forward(input_, context);
}

void BenchLayer::run(Pass pass) {
  attention_->train(pass == Pass::training);
  if (pass == Pass::forward) {
    const at::NoGradGuard no_gradients;
    attend();
    return;
  }
  attend().backward(gradient_);
  for (const Tensor* x : {&input_.queries, &input_.keys, &input_.values, &input_.query_source}) {
    if (x->defined()) x->mutable_grad().reset();
  }
  for (const Tensor& parameter : attention_->parameters()) parameter.mutable_grad().reset();
}

std::string BenchLayer::kernel() {
  if (attention_kernel() != AttentionKernel::automatic) return name_of(attention_kernel());
  // In the order of preference: a kernel that cannot serve says so when it is asked for.
  for (const AttentionKernel kernel :
       {AttentionKernel::own, AttentionKernel::headwise, AttentionKernel::fused}) {
    const KernelAsked asked(kernel);
    try {
      run(Pass::forward);
      return name_of(kernel);
    } catch (const ConfigError&) {
    }
  }
  return name_of(AttentionKernel::explicit_form);
}

std::int64_t BenchLayer::peak_bytes() {
  const OneThread one;
  const MemoryMeter meter;
  run(Pass::training);
  return meter.peak();
}

std::int64_t estimated_peak(Registry& registry, const Part& part, const BenchShape& shape,
                            bool causal) {
  constexpr std::int64_t kShort = 256, kLonger = 512;
  const auto each = [&](std::int64_t length) {  // bytes for each token of one example
    BenchShape one = shape;
    one.batch = 1;
    one.length = length;
    return static_cast<double>(BenchLayer(registry, part, one, causal).peak_bytes()) /
           static_cast<double>(length);
  };
  // No machine has more; beyond it no integer holds the estimate.
  const auto bytes = [](double size) { return static_cast<std::int64_t>(std::min(size, 0x1p62)); };
  const auto length = static_cast<double>(shape.length);
  const double tokens = static_cast<double>(shape.batch) * length;
  if (shape.length <= kLonger) return bytes(tokens * each(shape.length));
  // A line through two lengths: what is per pair of tokens grows with the length.
  const double longer = each(kLonger);
  const double slope = std::max(0.0, (longer - each(kShort)) / (kLonger - kShort));
  return bytes(tokens * (longer + slope * (length - kLonger)));
}

std::int64_t available_memory() {
  ::malloc_trim(0);  // what this process keeps for later is free too
  std::int64_t bytes = 1024 * number_in("/proc/meminfo", "MemAvailable:").value_or(0);
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) bytes = std::min(bytes, *limit - *used);
  return bytes;
}

}  // namespace attnlab
