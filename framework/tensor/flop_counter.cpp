#include "framework/tensor/flop_counter.h"

#include <string>
#include <unordered_map>
#include <utility>

namespace attnlab {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local FlopCounter* active = nullptr;

std::int64_t columns_of(const Tensor& matrix) { return matrix.size(-1); }

/// [.., n, k] times [.., k, m], matrices at `inputs[first]` and the next.
template <std::size_t first>
std::int64_t product(Inputs inputs) {
  return inputs[first].toTensor().numel() * columns_of(inputs[first + 1].toTensor());
}

/// A matrix at `inputs[first]` times a vector, or a vector times a vector.
template <std::size_t first>
std::int64_t numbers(Inputs inputs) {
  return inputs[first].toTensor().numel();
}

/// aten::linalg_solve_triangular(A [.., n, n], B [.., n, m]): half of a product.
std::int64_t substitution(Inputs inputs) {
  return inputs[1].toTensor().numel() * inputs[0].toTensor().size(-1) / 2;
}

/// Queries [.., Lq, D], keys [.., Lk, D], values [.., Lk, Dv]: logits and their weighted sum.
std::int64_t fused_attention(Inputs inputs) {
  const Tensor &queries = inputs[0].toTensor(), &keys = inputs[1].toTensor();
  const std::int64_t channels = queries.size(-1) + columns_of(inputs[2].toTensor());
  return queries.numel() / queries.size(-1) * keys.size(-2) * channels;
}

/// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, ...): each number
/// of the output (of the input, where it is transposed) meets its group's whole filter.
std::int64_t convolution(Inputs inputs) {
  const Tensor &input = inputs[0].toTensor(), &weight = inputs[1].toTensor();
  const std::int64_t filter = weight.numel() / weight.size(0);
  if (inputs[6].toBool()) return input.numel() * filter;
  const std::vector<std::int64_t> stride = inputs[3].toIntVector();
  const std::vector<std::int64_t> padding = inputs[4].toIntVector();
  const std::vector<std::int64_t> dilation = inputs[5].toIntVector();
  const auto value = [](const std::vector<std::int64_t>& list, std::size_t i) {
    return list.size() == 1 ? list[0] : list[i];
  };
  std::int64_t places = weight.size(0) * (input.dim() == weight.dim() ? input.size(0) : 1);
  const std::int64_t spatial = weight.dim() - 2;
  for (std::int64_t i = 0; i < spatial; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::int64_t reach = value(dilation, index) * (weight.size(i + 2) - 1);
    const std::int64_t length = input.size(input.dim() - spatial + i);
    places *= (length + 2 * value(padding, index) - reach - 1) / value(stride, index) + 1;
  }
  return places * filter;
}

using MultiplyAdds = std::int64_t (*)(Inputs);

/// What an operation multiplies; null for one that does not count.
MultiplyAdds rule_of(const char* name) {
  static const std::unordered_map<std::string, MultiplyAdds> rules = {
      {"aten::mm", product<0>},
      {"aten::bmm", product<0>},
      {"aten::addmm", product<1>},
      {"aten::addmm_", product<1>},
      {"aten::_addmm_activation", product<1>},
      {"aten::addbmm", product<1>},
      {"aten::addbmm_", product<1>},
      {"aten::baddbmm", product<1>},
      {"aten::baddbmm_", product<1>},
      {"aten::mv", numbers<0>},
      {"aten::addmv", numbers<1>},
      {"aten::addmv_", numbers<1>},
      {"aten::dot", numbers<0>},
      {"aten::linalg_solve_triangular", substitution},
      {"aten::vdot", numbers<0>},
      {"aten::convolution", convolution},
      {"aten::scaled_dot_product_attention", fused_attention},
  };
  const auto found = rules.find(name);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace

std::string sizes_text(const at::RecordFunction& operation) {
  std::string text;
  for (const c10::IValue& input : operation.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    if (!text.empty()) text += ' ';
    text += '[';
    const at::IntArrayRef sizes = input.toTensor().sizes();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
    }
    text += ']';
  }
  return text;
}

void FlopCounter::add(std::int64_t flops, const std::string& name) {
  total_ += flops;
  CountedFlops& counted = operations_[name];
  ++counted.times;
  counted.flops += flops;
}

/// Marks a counted operation until it ends.
struct FlopCounter::InOperation final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> FlopCounter::begin(const at::RecordFunction& operation) {
  const MultiplyAdds rule = active == nullptr ? nullptr : rule_of(operation.name());
  if (rule == nullptr) return nullptr;
  if (active->depth_ == 0) {
    active->add(2 * rule(operation.inputs()),
                std::string(operation.name()) + " " + sizes_text(operation));
  }
  ++active->depth_;
  return std::make_unique<InOperation>();
}

void FlopCounter::end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr && active != nullptr) --active->depth_;
}

FlopCounter::FlopCounter()
    : outer_(std::exchange(active, this)),
      handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}))) {}

FlopCounter::~FlopCounter() {
  at::removeCallback(handle_);
  active = outer_;
}

OwnKernelFlops::OwnKernelFlops(const char* name, std::int64_t multiply_adds) : counter_(active) {
  if (record_.isActive()) record_.before(name);
  if (counter_ == nullptr) return;
  if (counter_->depth_ == 0) counter_->add(2 * multiply_adds, name);
  ++counter_->depth_;
}

OwnKernelFlops::~OwnKernelFlops() {
  if (counter_ != nullptr) --counter_->depth_;
}

}  // namespace attnlab
