// Linear maps: see the header.
#include "framework/nn/kernels/linear.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "framework/nn/kernels/large_product.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/rounded_rows.h"
#include "framework/nn/kernels/row_kernels.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<std::int64_t> with_last(const Tensor& x, std::int64_t last) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

Tensor as_matrix(const Tensor& x) { return x.contiguous().view({-1, x.size(-1)}); }

struct LargeLinear : public torch::autograd::Function<LargeLinear> {
  /// @param bias    of no elements: none; autograd takes no undefined tensor here
  /// @param before  [B, M, in], of no elements: none
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& before) {
    const Tensor all = before.numel() > 0 ? at::cat({before, x}, 1) : x;
    context->save_for_backward({x, weight, all});
    context->saved_data["bias"] = bias.numel() > 0;
    context->saved_data["before"] = before.numel() > 0 ? before.size(1) : std::int64_t{0};
    return mapped(all, weight, bias);
  }

  static Tensor mapped(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const std::int64_t out = weight.size(0), in = weight.size(1);
    const OwnKernelFlops flops("attnlab::linear", x.numel() * out);
    const Tensor rows = as_matrix(x), dense = weight.contiguous();
    // Not a view of a matrix: autograd lets nobody write into a view that comes from here.
    Tensor y = at::empty(with_last(x, out), x.options().requires_grad(false));
    const bool biased = bias.numel() > 0;
    if (biased) y.copy_(bias.expand(y.sizes()));
    large_product(dense_factor(rows), dense_factor(dense, true), y.data_ptr<float>(), rows.size(0),
                  in, out, biased);
    return y;
  }

  static void differentiate_tokens(const Tensor& dy, const Tensor& weight, std::int64_t before,
                                   const Tensor& to);

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &all = saved[2];
    const bool biased = context->saved_data["bias"].toBool();
    const std::int64_t before = context->saved_data["before"].toInt();
    variable_list to(4);
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      const Tensor whole = before > 0 ? at::cat({all.narrow(1, 0, before), x}, 1) : x;
      const Tensor rows = whole.reshape({-1, x.size(-1)});
      const Tensor dy = gradients[0].reshape({-1, weight.size(0)});
      to[0] = at::mm(dy, weight).view(whole.sizes());
      if (before > 0) to[0] = to[0].narrow(1, before, x.size(1));
      to[1] = at::mm(dy.t(), rows);
      if (biased) to[2] = dy.sum(0);
      return to;
    }
    const Tensor rows = as_matrix(all), dy = as_matrix(gradients[0]), dense = weight.contiguous();
    const std::int64_t count = rows.size(0), out = weight.size(0), in = weight.size(1);
    const OwnKernelFlops flops("attnlab::linear",
                               (context->needs_input_grad(0) ? x.numel() * out : 0) +
                                   (context->needs_input_grad(1) ? all.numel() * out : 0));
    if (context->needs_input_grad(0)) {
      to[0] = at::empty(x.sizes(), rows.options());
      if (before > 0) {
        differentiate_tokens(dy, dense, before, to[0]);
      } else {
        large_product(dense_factor(dy), dense_factor(dense), to[0].data_ptr<float>(), count, out,
                      in);
      }
    }
    if (context->needs_input_grad(1)) {
      to[1] = at::empty(weight.sizes(), dense.options());
      large_product(dense_factor(dy, true), dense_factor(rows), to[1].data_ptr<float>(), out, count,
                    in);
    }
    if (biased && context->needs_input_grad(2)) {
      to[2] = at::empty({out}, dy.options());
      rows::add_rows(dy.data_ptr<float>(), count, out, {to[2].data_ptr<float>(), out}, 1);
    }
    return to;
  }
};

/// Gradients by the tokens behind `before` others of each example.
/// @param dy  [B * (before + L), out]   @param to  [B, L, in]
void LargeLinear::differentiate_tokens(const Tensor& dy, const Tensor& weight, std::int64_t before,
                                       const Tensor& to) {
  const std::int64_t length = to.size(1), in = to.size(2), out = weight.size(0);
  const float* const from = dy.data_ptr<float>();
  float* const dx = to.data_ptr<float>();
  at::parallel_for(0, to.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const float* const rows = from + (b * (before + length) + before) * out;
      large_product({rows, out}, dense_factor(weight), dx + b * length * in, length, out, in);
    }
  });
}

/// The same with products in bfloat16: as product() makes them, with each factor rounded once.
struct RoundedLinear : public torch::autograd::Function<RoundedLinear> {
  /// @param bias  of no elements: none
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    const Tensor rows = rounded(x), narrow = rounded(weight);
    context->save_for_backward({x, weight, rows, narrow});
    context->saved_data["bias"] = bias.numel() > 0;
    return widened(at::mm(rows, narrow.t()), bias, with_last(x, weight.size(0)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &rows = saved[2], &narrow = saved[3];
    const bool biased = context->saved_data["bias"].toBool();
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      const Tensor dy = gradients[0].reshape({-1, weight.size(0)});
      return {product(dy, weight).view(x.sizes()), product(dy.t(), x.reshape({-1, x.size(-1)})),
              biased ? dy.sum(0) : Tensor()};
    }
    variable_list to(3);
    if (biased && context->needs_input_grad(2)) {
      to[2] = at::empty({weight.size(0)}, weight.options().requires_grad(false));
    }
    const Tensor dy = rounded(gradients[0], to[2]);
    if (context->needs_input_grad(0)) to[0] = widened(at::mm(dy, narrow), {}, x.sizes());
    if (context->needs_input_grad(1)) to[1] = widened(at::mm(dy.t(), rows), {}, weight.sizes());
    return to;
  }
};

/// Whether all are float32 on the CPU and the product is large.
bool is_large(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto plain = [](const Tensor& t) {
    return t.device().is_cpu() && t.scalar_type() == at::kFloat && t.layout() == at::kStrided;
  };
  return plain(x) && plain(weight) && (!bias.defined() || plain(bias)) && weight.dim() == 2 &&
         x.dim() > 0 && x.size(-1) == weight.size(1) &&
         (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0))) &&
         x.numel() * weight.size(0) >= kLargeProduct;
}

bool served(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return has_large_products() && !rounds_products(x) && is_large(x, weight, bias);
}

Tensor rounded_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (rounds_to_bfloat16(x) && has_bfloat16_products(x.device()) && is_large(x, weight, bias)) {
    return RoundedLinear::apply(
        x, weight, bias.defined() ? bias : at::empty({0}, x.options().requires_grad(false)));
  }
  // One matrix, in whatever order x lies: the weight's gradient is one sum, rounded once.
  const Tensor y =
      product(x.reshape({-1, x.size(-1)}), weight.t()).view(with_last(x, weight.size(0)));
  return bias.defined() ? y + bias : y;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_narrow(x) && adds_up_narrow(x, weight.t())) {
    return at::linear(wide(x), wide(weight), wide(bias)).to(x.scalar_type());
  }
  if (rounds_products(x) && rounds_products(weight)) return rounded_linear(x, weight, bias);
  if (!served(x, weight, bias)) return at::linear(x, weight, bias);
  const Tensor start = bias.defined() ? bias : at::empty({0}, x.options().requires_grad(false));
  const bool gradients = at::GradMode::is_enabled() &&
                         (x.requires_grad() || weight.requires_grad() || start.requires_grad());
  return gradients ? LargeLinear::apply(x, weight, start, at::empty({0}))
                   : LargeLinear::mapped(x, weight, start);
}

Tensor linear_after(const Tensor& before, const Tensor& x, const Tensor& weight,
                    const Tensor& bias) {
  const bool gradients =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!gradients || before.numel() == 0 || before.dtype() != x.dtype() || before.requires_grad() ||
      !served(x, weight, bias)) {
    return linear(at::cat({before, x}, 1), weight, bias);
  }
  return LargeLinear::apply(x, weight, bias.defined() ? bias : at::empty({0}, x.options()), before);
}

}  // namespace attnlab
