// Two linear maps with an activation between: see the header.
#include "framework/nn/kernels/mlp.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "framework/nn/kernels/gelu.h"
#include "framework/nn/kernels/large_product.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/rounded_rows.h"
#include "framework/nn/kernels/row_kernels.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Bytes of a block of H: with those of X, Y and the weights it stays in a second level of cache.
constexpr std::int64_t kBlockBytes = 256 * 1024;

/// Rows of numbers, from one on.
float* from_row(const Tensor& x, std::int64_t row) { return x.data_ptr<float>() + row * x.size(1); }

/// Calls work(first row, how many) for blocks of all rows, in parallel.
template <class Work>
void each_block(std::int64_t rows, std::int64_t hidden, const Work& work) {
  const std::int64_t fit = kBlockBytes / (hidden * std::int64_t(sizeof(float)));
  const std::int64_t block = std::clamp<std::int64_t>(fit / 16 * 16, 32, 512);
  const std::int64_t blocks = (rows + block - 1) / block;
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      work(b * block, std::min(block, rows - b * block));
    }
  });
}

void start_rows(const Tensor& bias, float* rows, std::int64_t count) {
  if (bias.numel() == 0) return;
  const float* from = bias.data_ptr<float>();
  for (std::int64_t r = 0; r < count; ++r) {
    std::copy_n(from, bias.numel(), rows + r * bias.numel());
  }
}

/// H becomes G, in place. @param slope  what dG is multiplied by, where that is kept; or null
void activate(Activation activation, float* h, float* slope, std::int64_t n) {
  if (activation == Activation::gelu) {
    return slope != nullptr ? rows::gelu_and_slope(h, h, slope, n) : rows::gelu(h, h, n);
  }
  for (std::int64_t i = 0; i < n; ++i) h[i] = h[i] < 0 ? 0 : h[i];  // NaN stays
}

/// dG becomes dH, in place.
void deactivate(Activation activation, const float* g, const float* slope, float* grad,
                std::int64_t n) {
  if (activation == Activation::gelu) return rows::multiply(slope, grad, n);
  for (std::int64_t i = 0; i < n; ++i) grad[i] = g[i] <= 0 ? 0 : grad[i];
}

/// G, [N, hidden], and Y [N, out], dense.
struct Passed {
  Tensor g, y;
  Tensor slope = {};  ///< of GELU, [N, hidden]; of no elements: not kept
};

float* from_row_or_null(const Tensor& x, std::int64_t row) {
  return x.numel() > 0 ? from_row(x, row) : nullptr;
}

/// @param keep  what the backward pass reads
Passed pass(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
            const Tensor& down_bias, Activation activation, bool keep) {
  const std::int64_t rows = x.size(0), in = x.size(1), hidden = up.size(0), out = down.size(0);
  const OwnKernelFlops flops("attnlab::MLP", rows * hidden * (in + out));
  const auto room = [&](std::int64_t columns) { return at::empty({rows, columns}, x.options()); };
  const bool slopes = keep && activation == Activation::gelu;
  Passed to{room(hidden), room(out), room(slopes ? hidden : 0)};
  each_block(rows, hidden, [&](std::int64_t first, std::int64_t count) {
    float *const g = from_row(to.g, first), *const y = from_row(to.y, first);
    start_rows(up_bias, g, count);
    large_product({from_row(x, first), in}, dense_factor(up, true), g, count, in, hidden,
                  up_bias.numel() > 0);
    activate(activation, g, from_row_or_null(to.slope, first), count * hidden);
    start_rows(down_bias, y, count);
    large_product({g, hidden}, dense_factor(down, true), y, count, hidden, out,
                  down_bias.numel() > 0);
  });
  return to;
}

Tensor sum_of_rows(const Tensor& x) {
  Tensor sum = at::empty({x.size(1)}, x.options());
  rows::add_rows(x.data_ptr<float>(), x.size(0), x.size(1), {sum.data_ptr<float>(), x.size(1)}, 1);
  return sum;
}

/// A^T B of dense matrices.
Tensor transposed_product(const Tensor& a, const Tensor& b) {
  Tensor c = at::empty({a.size(1), b.size(1)}, a.options());
  large_product(dense_factor(a, true), dense_factor(b), c.data_ptr<float>(), a.size(1), a.size(0),
                b.size(1));
  return c;
}

/// The gradients as operations that autograd can follow.
variable_list composed_gradients(const Tensor& x, const Tensor& up, const Tensor& up_bias,
                                 const Tensor& down, const Tensor& dy, Activation activation,
                                 bool down_biased) {
  Tensor h = product(x, up.t());
  if (up_bias.numel() > 0) h = h + up_bias;
  const bool gelu = activation == Activation::gelu;
  const Tensor g = gelu ? attnlab::gelu(h) : at::relu(h);
  const Tensor dg = product(dy, down);
  const Tensor dh = gelu ? composed_gelu_gradient(h, dg) : dg * (h > 0);
  return {product(dh, up),
          product(dh.t(), x),
          up_bias.numel() > 0 ? dh.sum(0) : Tensor(),
          product(dy.t(), g),
          down_biased ? dy.sum(0) : Tensor(),
          Tensor()};
}

struct BlockMlp : public torch::autograd::Function<BlockMlp> {
  /// @param x          [N, in] dense, as all others
  /// @param up_bias    of no elements: none; autograd takes no undefined tensor here
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& up,
                        const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                        std::int64_t activation) {
    const Passed passed = pass(x, up, up_bias, down, down_bias, Activation(activation), true);
    context->save_for_backward({x, up, up_bias, down, passed.g, passed.slope});
    context->saved_data["activation"] = activation;
    context->saved_data["down_bias"] = down_bias.numel() > 0;
    return passed.y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &up = saved[1], &up_bias = saved[2], &down = saved[3];
    const Tensor &g = saved[4], &slope = saved[5];
    const auto activation = Activation(context->saved_data["activation"].toInt());
    const bool down_biased = context->saved_data["down_bias"].toBool();
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      return composed_gradients(x, up, up_bias, down, gradients[0], activation, down_biased);
    }
    const Tensor dy = gradients[0].contiguous();
    const std::int64_t rows = x.size(0), in = x.size(1), hidden = up.size(0), out = down.size(0);
    const bool wants_x = context->needs_input_grad(0);
    const OwnKernelFlops flops("attnlab::MLP", rows * hidden * ((wants_x ? 2 : 1) * in + 2 * out));
    const Tensor dh = at::empty(g.sizes(), g.options());
    const Tensor dx = wants_x ? at::empty(x.sizes(), g.options()) : Tensor();
    each_block(rows, hidden, [&](std::int64_t first, std::int64_t count) {
      float* const block = from_row(dh, first);
      large_product({from_row(dy, first), out}, dense_factor(down), block, count, out, hidden);
      deactivate(activation, from_row(g, first), from_row_or_null(slope, first), block,
                 count * hidden);
      if (!wants_x) return;
      large_product({block, hidden}, dense_factor(up), from_row(dx, first), count, hidden, in);
    });
    return {dx,
            transposed_product(dh, x),
            up_bias.numel() > 0 ? sum_of_rows(dh) : Tensor(),
            transposed_product(dy, g),
            down_biased ? sum_of_rows(dy) : Tensor(),
            Tensor()};
  }
};

/// The same with products in bfloat16: as product() makes them. H and G are kept in it.
struct RoundedMlp : public torch::autograd::Function<RoundedMlp> {
  /// @param x  [N, in]; biases of no elements: none
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& up,
                        const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                        std::int64_t activation) {
    const Tensor rows = rounded(x), narrow_up = rounded(up), narrow_down = rounded(down);
    const Tensor h = at::mm(rows, narrow_up.t());
    const Tensor g = activated(Activation(activation), h, up_bias, false);
    context->save_for_backward({x, up, up_bias, down, rows, narrow_up, narrow_down, h, g});
    context->saved_data["activation"] = activation;
    context->saved_data["down_bias"] = down_bias.numel() > 0;
    return widened(at::mm(g, narrow_down.t()), down_bias, {x.size(0), down.size(0)});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &up = saved[1], &up_bias = saved[2], &down = saved[3];
    const Tensor &rows = saved[4], &narrow_up = saved[5], &narrow_down = saved[6];
    const Tensor &h = saved[7], &g = saved[8];
    const auto activation = Activation(context->saved_data["activation"].toInt());
    const bool down_biased = context->saved_data["down_bias"].toBool();
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      return composed_gradients(x, up, up_bias, down, gradients[0], activation, down_biased);
    }
    const auto sums = [&](bool asked, std::int64_t n) {
      return asked ? at::empty({n}, up.options().requires_grad(false)) : Tensor();
    };
    const Tensor of_up = sums(up_bias.numel() > 0, up.size(0));
    const Tensor of_down = sums(down_biased, down.size(0));
    const Tensor dy = rounded(gradients[0], of_down);
    const Tensor dh = at::mm(dy, narrow_down);
    deactivate(activation, h, up_bias, dh, of_up);
    return {context->needs_input_grad(0) ? widened(at::mm(dh, narrow_up), {}, x.sizes()) : Tensor(),
            widened(at::mm(dh.t(), rows), {}, up.sizes()),
            of_up,
            widened(at::mm(dy.t(), g), {}, down.sizes()),
            of_down,
            Tensor()};
  }
};

Tensor rounded_pass(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation) {
  const Tensor h = at::mm(rounded(x), rounded(up).t());
  const Tensor g = activated(activation, h, up_bias, true);
  return widened(at::mm(g, rounded(down).t()), down_bias, {x.size(0), down.size(0)});
}

}  // namespace

bool mlp_takes(const Tensor& x, const MlpWeights& weights) {
  const auto plain = [](const Tensor& t) {
    return !t.defined() ||
           (t.device().is_cpu() && t.scalar_type() == at::kFloat && t.layout() == at::kStrided);
  };
  const auto dense = [&](const Tensor& t) {
    return plain(t) && (!t.defined() || t.is_contiguous());
  };
  const Tensor &up = weights.up, &down = weights.down;
  if (x.dim() == 0 || x.size(-1) != up.size(1) || down.size(1) != up.size(0) ||
      x.numel() * up.size(0) < kLargeProduct ||
      x.numel() / x.size(-1) * down.numel() < kLargeProduct) {
    return false;
  }
  const bool are_plain =
      plain(x) && dense(up) && dense(weights.up_bias) && dense(down) && dense(weights.down_bias);
  if (!are_plain || rounds_to_float16(x)) return false;
  return rounds_to_bfloat16(x) ? has_bfloat16_products(x.device()) : has_large_products();
}

Tensor mlp(const Tensor& x, const MlpWeights& w, Activation activation) {
  const Tensor rows = x.contiguous().view({-1, x.size(-1)});
  const Tensor none = at::empty({0}, x.options().requires_grad(false));
  const Tensor up_bias = w.up_bias.defined() ? w.up_bias : none;
  const Tensor down_bias = w.down_bias.defined() ? w.down_bias : none;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = w.down.size(0);
  const bool gradients = at::GradMode::is_enabled() &&
                         (rows.requires_grad() || w.up.requires_grad() || up_bias.requires_grad() ||
                          w.down.requires_grad() || down_bias.requires_grad());
  const auto kind = std::int64_t(activation);
  Tensor y;
  if (rounds_products(x)) {
    y = gradients ? RoundedMlp::apply(rows, w.up, up_bias, w.down, down_bias, kind)
                  : rounded_pass(rows, w.up, up_bias, w.down, down_bias, activation);
  } else {
    y = gradients ? BlockMlp::apply(rows, w.up, up_bias, w.down, down_bias, kind)
                  : pass(rows, w.up, up_bias, w.down, down_bias, activation, false).y;
  }
  return y.view(sizes);
}

}  // namespace attnlab
