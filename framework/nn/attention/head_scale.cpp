// Learned factors of each head's channels: see the header.
#include "framework/nn/attention/head_scale.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "framework/nn/kernels/row_kernels.h"

namespace attnlab {
namespace {

/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 32 * 1024;

using rows::Rows;

Tensor with_dense_rows(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

Rows rows_of(const Tensor& x, float* start, std::int64_t b, std::int64_t h) {
  return {start + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

/// Calls work(head, example) for all, heads in parallel.
template <class Work>
void each_head(const Tensor& x, const Work& work) {
  const std::int64_t batch = x.size(0);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kThreadWork / std::max<std::int64_t>(1, x.numel() / x.size(1)));
  at::parallel_for(0, x.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      for (std::int64_t b = 0; b < batch; ++b) work(h, b);
    }
  });
}

Tensor scaled(const Tensor& given, const Tensor& factors) {
  const Tensor x = with_dense_rows(given), c = factors.contiguous();
  // Dense in the order of x's memory; a row's numbers stay neighbours.
  Tensor y = with_dense_rows(at::empty_like(x));
  const std::int64_t length = x.size(2), dim = x.size(3);
  float *const from = x.data_ptr<float>(), *const to = y.data_ptr<float>();
  const float* const by = c.data_ptr<float>();
  each_head(x, [&](std::int64_t h, std::int64_t b) {
    rows::scale_rows(rows_of(x, from, b, h), by + h * dim, rows_of(y, to, b, h), length, dim);
  });
  return y;
}

/// dc, [H, 1, D].
Tensor factor_gradient(const Tensor& given, const Tensor& grad) {
  const Tensor x = with_dense_rows(given), dy = with_dense_rows(grad);
  Tensor sums = at::zeros({x.size(1), 1, x.size(3)}, x.options());
  const std::int64_t length = x.size(2), dim = x.size(3);
  float *const a = x.data_ptr<float>(), *const b = dy.data_ptr<float>();
  float* const to = sums.data_ptr<float>();
  each_head(x, [&](std::int64_t h, std::int64_t e) {
    rows::add_products(rows_of(x, a, e, h), rows_of(dy, b, e, h), to + h * dim, length, dim);
  });
  return sums;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ScaleHeads : public torch::autograd::Function<ScaleHeads> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& factors) {
    context->save_for_backward({x, factors});
    return scaled(x, factors);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &factors = saved[1], &grad = gradients[0];
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      return {grad * factors, (grad * x).sum(at::IntArrayRef({0, 2})).unsqueeze(1)};
    }
    return {context->needs_input_grad(0) ? scaled(grad, factors) : Tensor(),
            context->needs_input_grad(1) ? factor_gradient(x, grad) : Tensor()};
  }
};

}  // namespace

Tensor scale_heads(const Tensor& x, const Tensor& factors) {
  const bool own = x.device().is_cpu() && factors.device().is_cpu() && x.dim() == 4 &&
                   x.scalar_type() == at::kFloat && factors.scalar_type() == at::kFloat &&
                   x.numel() > 0;
  if (!own) return x * factors;
  if (at::GradMode::is_enabled() && (x.requires_grad() || factors.requires_grad())) {
    return ScaleHeads::apply(x, factors);
  }
  return scaled(x, factors);
}

}  // namespace attnlab
