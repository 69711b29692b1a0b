// Layer normalisation in an ensemble: see the header.
#include "framework/nn/modules/member_norm.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "framework/base/vector_clones.h"
#include "framework/nn/kernels/small_pieces.h"
#include "framework/nn/modules/members.h"

namespace attnlab {
namespace {

using small::each_piece;
using small::piece_at;
using small::PieceSums;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;

/// One member's rows.
struct Rows {
  const float *x, *weight;
  float* moments;  ///< [rows, 2]: mean, 1 / deviation
  std::int64_t rows, dim;
};

ATTNLAB_VECTOR_CLONES
void normalise(const Rows& in, const float* bias, float eps, float* out) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float* const x = in.x + r * in.dim;
    float* const y = out + r * in.dim;
    PieceSums<float> sums;
    each_piece<float>(
        in.dim, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
          sums.of(kind) += piece_at<decltype(kind)>(x + i);
        });
    const float mean = sums.total() / count;
    PieceSums<float> squares;
    each_piece<float>(
        in.dim, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
          const auto away = piece_at<decltype(kind)>(x + i) - mean;
          squares.of(kind) += away * away;
        });
    const float inverse = 1 / std::sqrt(squares.total() / count + eps);
    in.moments[2 * r] = mean, in.moments[2 * r + 1] = inverse;
    each_piece<float>(
        in.dim, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
          using Kind = decltype(kind);
          piece_at<Kind>(y + i) =
              (piece_at<Kind>(x + i) - mean) * inverse * piece_at<Kind>(in.weight + i) +
              piece_at<Kind>(bias + i);
        });
  }
}

/// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation with g = dy w;  dw = sum dy x̂;  db = sum dy.
/// @param dw, db  [dim], zero before
ATTNLAB_VECTOR_CLONES
void differentiate(const Rows& in, const float* grad, float* out, float* dw, float* db) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float *const x = in.x + r * in.dim, *const dy = grad + r * in.dim;
    float* const dx = out + r * in.dim;
    const float mean = in.moments[2 * r], inverse = in.moments[2 * r + 1];
    PieceSums<float> plain, along;
    each_piece<float>(
        in.dim, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
          using Kind = decltype(kind);
          const auto unit = (piece_at<Kind>(x + i) - mean) * inverse;
          const auto g = piece_at<Kind>(dy + i) * piece_at<Kind>(in.weight + i);
          plain.of(kind) += g;
          along.of(kind) += g * unit;
          piece_at<Kind>(dw + i) += piece_at<Kind>(dy + i) * unit;
          piece_at<Kind>(db + i) += piece_at<Kind>(dy + i);
        });
    const float shift = plain.total() / count, slope = along.total() / count;
    each_piece<float>(
        in.dim, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
          using Kind = decltype(kind);
          const auto unit = (piece_at<Kind>(x + i) - mean) * inverse;
          const auto g = piece_at<Kind>(dy + i) * piece_at<Kind>(in.weight + i);
          piece_at<Kind>(dx + i) = (g - shift - unit * slope) * inverse;
        });
  }
}

/// Calls work(e, its rows) for all members, in parallel.
/// @param x        contiguous
/// @param moments  [rows, 2]
template <class Work>
void each_member(const Tensor& x, const Tensor& weight, const Tensor& moments, std::int64_t members,
                 const Work& work) {
  const std::int64_t dim = x.size(-1), rows = x.numel() / dim / members;
  const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / (rows * dim));
  const float *const in = x.data_ptr<float>(), *const w = weight.data_ptr<float>();
  float* const to = moments.data_ptr<float>();
  at::parallel_for(0, members, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      work(e, Rows{in + e * rows * dim, w + e * dim, to + 2 * e * rows, rows, dim});
    }
  });
}

struct MemberNorm : public torch::autograd::Function<MemberNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& weight,
                        const Tensor& bias, double eps, std::int64_t members) {
    const Tensor x = given.contiguous();
    Tensor y = at::empty(x.sizes(), x.options());
    const Tensor moments = at::empty({x.numel() / x.size(-1), 2}, x.options());
    each_member(x, weight, moments, members, [&](std::int64_t e, const Rows& rows) {
      normalise(rows, bias.data_ptr<float>() + e * rows.dim, static_cast<float>(eps),
                y.data_ptr<float>() + e * rows.rows * rows.dim);
    });
    context->save_for_backward({x, weight, moments});
    context->saved_data["eps"] = eps;
    context->saved_data["members"] = members;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous();
    const std::int64_t members = context->saved_data["members"].toInt();
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      variable_list all = composed(x, weight, dy, context->saved_data["eps"].toDouble(), members);
      all.resize(5);
      return all;
    }
    const Tensor dx = at::empty(x.sizes(), x.options());
    const Tensor dw = at::zeros(weight.sizes(), x.options());
    const Tensor db = at::zeros(weight.sizes(), x.options());
    each_member(x, weight, saved[2], members, [&](std::int64_t e, const Rows& rows) {
      const std::int64_t at = e * rows.rows * rows.dim;
      differentiate(rows, dy.data_ptr<float>() + at, dx.data_ptr<float>() + at,
                    dw.data_ptr<float>() + e * rows.dim, db.data_ptr<float>() + e * rows.dim);
    });
    return {dx, dw, db, Tensor(), Tensor()};
  }

 private:
  /// The same gradients as operations that autograd can follow.
  static variable_list composed(const Tensor& x, const Tensor& weight, const Tensor& dy, double eps,
                                std::int64_t members) {
    const std::int64_t dim = x.size(-1);
    const auto by_row = [&](const Tensor& t) { return t.reshape({members, -1, dim}); };
    const Tensor rows = by_row(x), away = rows - rows.mean(-1, true);
    const Tensor inverse = (away.square().mean(-1, true) + eps).rsqrt(), unit = away * inverse;
    const Tensor grad = by_row(dy), g = grad * weight.view({members, 1, dim});
    const Tensor dx = (g - g.mean(-1, true) - unit * (g * unit).mean(-1, true)) * inverse;
    return {dx.view(x.sizes()), (grad * unit).sum(1).view({-1}), grad.sum(1).view({-1})};
  }
};

}  // namespace

Tensor member_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                         std::int64_t members) {
  const std::int64_t dim = x.size(-1);
  if (members == 1) return at::layer_norm(x, {dim}, weight, bias, eps);
  batch_of_member(x, members);
  if (weight.numel() != members * dim || bias.numel() != members * dim) {
    throw ShapeError(fmt::format(
        "layer norm of {} members: expected weight and bias [{}] for {}, found {} and {}", members,
        members * dim, describe(x), describe(weight), describe(bias)));
  }
  const auto plain = [](const Tensor& t) {
    return t.device().is_cpu() && t.scalar_type() == at::kFloat;
  };
  if (plain(x) && plain(weight) && plain(bias) && weight.is_contiguous() && bias.is_contiguous() &&
      x.numel() > 0) {
    return MemberNorm::apply(x, weight, bias, eps, members);
  }
  const auto of_members = [&](const Tensor& t) { return t.reshape({members, -1, dim}); };
  const Tensor normal = at::layer_norm(x, {dim}, {}, {}, eps);
  return at::addcmul(of_members(bias), of_members(normal), of_members(weight)).view(x.sizes());
}

}  // namespace attnlab
