// Negative log-likelihood of many classes: see the header.
#include "framework/nn/modules/linear_nll.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "framework/nn/kernels/linear.h"
#include "framework/nn/kernels/precision.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Logits of one chunk.
constexpr std::int64_t kChunkBytes = 16 * 1024 * 1024;

std::int64_t rows_of_chunk(const Tensor& x, const Tensor& weight) {
  return std::max<std::int64_t>(1, kChunkBytes / (weight.size(0) * x.element_size()));
}

Tensor composed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets) {
  return -attnlab::linear(x, weight, bias)
              .log_softmax(1)
              .gather(1, targets.unsqueeze(1))
              .squeeze(1);
}

/// Calls work(first row, how many) for all chunks.
template <class Work>
void each_chunk(const Tensor& x, const Tensor& weight, const Work& work) {
  const std::int64_t rows = x.size(0), step = rows_of_chunk(x, weight);
  for (std::int64_t row = 0; row < rows; row += step) work(row, std::min(step, rows - row));
}

Tensor in_chunks(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets) {
  const at::NoGradGuard no_gradients;
  Tensor nll = at::empty({x.size(0)}, x.options());
  each_chunk(x, weight, [&](std::int64_t row, std::int64_t rows) {
    nll.narrow(0, row, rows)
        .copy_(composed(x.narrow(0, row, rows), weight, bias, targets.narrow(0, row, rows)));
  });
  return nll;
}

/// The gradient of the logits, (softmax - one at the target) times that of the rows.
Tensor logit_gradient(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& targets, const Tensor& grad) {
  const Tensor rows = grad.unsqueeze(1), at_target = targets.unsqueeze(1);
  const Tensor weights = attnlab::linear(x, weight, bias).softmax(1);
  if (at::GradMode::is_enabled()) return (weights * rows).scatter_add(1, at_target, -rows);
  return Tensor(weights).mul_(rows).scatter_add_(1, at_target, -rows);
}

struct ChunkedNll : public torch::autograd::Function<ChunkedNll> {
  /// @param bias  of no elements: none; autograd takes no undefined tensor here
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& targets) {
    context->save_for_backward({x, weight, bias, targets});
    return in_chunks(x, weight, bias.numel() > 0 ? bias : Tensor(), targets);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &targets = saved[3], &grad = gradients[0];
    const Tensor bias = saved[2].numel() > 0 ? saved[2] : Tensor();
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this pass
      const Tensor dl = logit_gradient(x, weight, bias, targets, grad);
      return {product(dl, weight), product(dl.t(), x), bias.defined() ? dl.sum(0) : Tensor(), {}};
    }
    const Tensor dx = at::empty_like(x), dw = at::zeros_like(weight);
    const Tensor db = bias.defined() ? at::zeros_like(bias) : Tensor();
    each_chunk(x, weight, [&](std::int64_t row, std::int64_t rows) {
      const Tensor part = x.narrow(0, row, rows);
      const Tensor dl = logit_gradient(part, weight, bias, targets.narrow(0, row, rows),
                                       grad.narrow(0, row, rows));
      Tensor dx_part = dx.narrow(0, row, rows);
      if (rounds_products(dl)) {
        dx_part.copy_(product(dl, weight));
        Tensor(dw).add_(product(dl.t(), part));
      } else {
        at::mm_out(dx_part, dl, weight);
        Tensor(dw).addmm_(dl.t(), part);
      }
      if (db.defined()) Tensor(db).add_(dl.sum(0));
    });
    return {dx, dw, db, {}};
  }
};

}  // namespace

Tensor linear_nll(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& targets) {
  if (is_narrow(x)) {
    return linear_nll(wide(x), wide(weight), wide(bias), targets).to(x.scalar_type());
  }
  if (x.size(0) <= rows_of_chunk(x, weight)) return composed(x, weight, bias, targets);
  const bool gradients =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!gradients) return in_chunks(x, weight, bias, targets);
  return ChunkedNll::apply(x, weight, bias.defined() ? bias : at::empty({0}, x.options()), targets);
}

}  // namespace attnlab
