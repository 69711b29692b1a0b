#include "framework/nn/attention/attention_kernel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/kernels/cpu_attention.h"
#include "framework/nn/kernels/dispatch.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/ragged_attention.h"
#include "framework/tensor/torch_compat.h"

namespace attnlab {
namespace {

constexpr std::pair<AttentionKernel, const char*> kNames[] = {
    {AttentionKernel::explicit_form, "explicit"},
    {AttentionKernel::fused, "fused"},
    {AttentionKernel::headwise, "headwise"},
    {AttentionKernel::own, "own"},
};

AttentionKernel from_environment() {
  const std::string text = asked_attention_kernel();
  if (text == "automatic") return AttentionKernel::automatic;
  for (const auto& [kernel, name] : kNames) {
    if (text == name) return kernel;
  }
  throw ConfigError("environment variable ATTNLAB_ATTENTION_KERNEL is '" + text +
                    "'; it must be explicit, fused, headwise or own, or not be set");
}

std::atomic<AttentionKernel>& chosen() {
  static std::atomic<AttentionKernel> kernel = from_environment();
  return kernel;
}

/// What LibTorch's kernel is told: a mask, or the causal rule where it means what the contract's
/// does (LibTorch aligns the first query with the first key; the contract aligns the last ones).
struct FusedMask {
  Tensor visible;
  bool causal = false;

  FusedMask(const Visibility& rules, std::int64_t rows, std::int64_t columns,
            const at::Device& device)
      : causal(rules.causal && rules.window == 0 && rows == columns) {
    if (!causal) visible = visible_pairs(rules, rows, columns, device);
  }
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// LibTorch's fused kernels are differentiable once. Here the graph of their own backward pass is
/// kept beside the result, and a second derivative is taken through composed operations.
struct FusedSoftmax : public torch::autograd::Function<FusedSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const FusedMask& mask, double scale) {
    variable_list inner;
    for (const Tensor* x : {&q, &k, &v}) inner.push_back(x->detach().requires_grad_());
    Tensor out;
    {
      const at::AutoGradMode record(true);
      out = compat::fused_attention(inner[0], inner[1], inner[2], mask.visible, 0, mask.causal,
                                    scale);
    }
    context->save_for_backward({q, k, v, mask.visible});
    context->saved_data["inner"] = inner;
    context->saved_data["out"] = out;
    context->saved_data["causal"] = mask.causal;
    context->saved_data["scale"] = scale;
    return out.detach();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (!at::GradMode::is_enabled()) {
      variable_list result = torch::autograd::grad({context->saved_data["out"].toTensor()},
                                                   context->saved_data["inner"].toTensorVector(),
                                                   {gradients[0]}, /*retain_graph=*/true);
      result.resize(5);
      return result;
    }
    const variable_list saved = context->get_saved_variables();
    Tensor hidden = saved[3].defined() ? saved[3].logical_not() : Tensor();
    if (context->saved_data["causal"].toBool()) {
      const std::int64_t length = saved[0].size(2);
      hidden = at::ones({length, length}, saved[0].options().dtype(at::kBool)).triu(1);
    }
    const ComposedGradients all =
        composed_softmax_gradients(saved[0], saved[1], saved[2], gradients[0],
                                   {context->saved_data["scale"].toDouble(), hidden});
    return {all.q, all.k, all.v, Tensor(), Tensor()};
  }
};

Tensor attend_fused(const SoftmaxCall& call) {
  const AttentionInput& input = call.input;
  // Its products are rounded where products are; its softmax has float32 inside.
  const bool rounds = rounds_products(call.queries) && !call.queries.device().is_cpu();
  const auto factor = [&](const Tensor& x) { return rounds ? rounded_factor(x) : x; };
  const Tensor queries = factor(call.queries), values = factor(input.values);
  const Tensor keys = factor(call.unit_keys ? unit(call.keys, *call.unit_keys) : call.keys);
  const FusedMask mask(input.visible, input.query_count(), input.key_count(), keys.device());
  const bool gradients =
      at::GradMode::is_enabled() &&
      (queries.requires_grad() || keys.requires_grad() || values.requires_grad());
  const Tensor out = gradients ? FusedSoftmax::apply(queries, keys, values, mask, call.scale)
                               : compat::fused_attention(queries, keys, values, mask.visible, 0,
                                                         mask.causal, call.scale);
  return rounds ? out.to(at::kFloat) : out;
}

Tensor attend_headwise(const SoftmaxCall& call) {
  // Rules are handed on as they are: a tensor of all pairs may not fit.
  const Visibility& visible = call.input.visible;
  return cpu_softmax_attention(call.queries, call.keys, call.input.values,
                               {.pairs = visible.pairs,
                                .key_valid = visible.key_valid,
                                .rules = {visible.causal, visible.window},
                                .scale = call.scale,
                                .unit_keys = call.unit_keys,
                                .dropout = call.dropout,
                                .bias = call.input.bias,
                                .relative_queries = call.relative_queries,
                                .relative_keys = call.relative_keys,
                                .terms = call.terms,
                                .each = call.each});
}

Tensor attend_sequences(const SoftmaxCall& call) {
  const Visibility& visible = call.input.visible;
  return cpu_ragged_attention(call.queries, call.keys, call.input.values,
                              {.query_offsets = visible.query_offsets,
                               .key_offsets = visible.key_offsets,
                               .rules = {visible.causal, visible.window},
                               .scale = call.scale,
                               .unit_keys = call.unit_keys,
                               .dropout = call.dropout});
}

constexpr const char* kNoFloat16 = "it has no products in float16";

constexpr SoftmaxKernel kSoftmaxKernels[] = {
    {AttentionKernel::headwise,
     [](const AttentionInput& in, bool) -> const char* {
       if (rounds_to_float16(in.queries)) return kNoFloat16;
       return cpu_softmax_attention_takes(in.queries, in.keys, in.values)
                  ? nullptr
                  : "it takes float32 and float64 on the CPU alone";
     },
     true, attend_headwise, attend_sequences},
    {AttentionKernel::fused,
     [](const AttentionInput& in, bool plain) -> const char* {
       if (in.queries.device().is_cpu() && rounds_to_float16(in.queries)) return kNoFloat16;
       if (in.bias.defined()) return "the logits have a bias";
       if (!plain) return "there is more to the weights than softmax of products";
       if (in.relative.defined()) return "positions are relative";
       return fused_attention_serves(in) ? nullptr
                                         : "this LibTorch has none, or a query may see no key";
     },
     false, attend_fused, nullptr},
};

}  // namespace

AttentionKernel attention_kernel() { return chosen(); }
void set_attention_kernel(AttentionKernel kernel) { chosen() = kernel; }

const char* name_of(AttentionKernel kernel) {
  for (const auto& [named, name] : kNames) {
    if (named == kernel) return name;
  }
  return "automatic";
}

bool rows_may_be_empty(const Visibility& visible, std::int64_t queries, std::int64_t keys) {
  if (visible.key_valid.defined() || visible.pairs.defined()) return true;
  return (visible.causal || visible.window > 0) && queries > keys;
}

bool fused_attention_serves(const AttentionInput& input) {
  return compat::kHasFusedAttention &&
         !rows_may_be_empty(input.visible, input.query_count(), input.key_count());
}

void refuse_kernel(AttentionKernel kernel, const std::string& obstacle) {
  throw ConfigError(
      fmt::format("the attention kernel '{}' was asked for (ATTNLAB_ATTENTION_KERNEL), but {}; "
                  "unset it, or set it to explicit",
                  name_of(kernel), obstacle));
}

const SoftmaxKernel* softmax_kernel(const AttentionInput& input, bool plain, bool refuse) {
  const AttentionKernel wanted = attention_kernel();
  for (const SoftmaxKernel& one : kSoftmaxKernels) {
    if (wanted != AttentionKernel::automatic && wanted != one.kernel) continue;
    const char* obstacle = one.obstacle(input, plain);
    if (obstacle == nullptr) return &one;
    if (wanted == one.kernel && refuse) refuse_kernel(wanted, obstacle);
  }
  return nullptr;
}

bool softmax_kernel_drops(const AttentionInput& input, bool plain) {
  for (const SoftmaxKernel& one : kSoftmaxKernels) {
    if (attention_kernel() == one.kernel) return one.drops;  // or it refuses this input
  }
  const SoftmaxKernel* taken = softmax_kernel(input, plain, false);
  return taken != nullptr && taken->drops;
}

}  // namespace attnlab
