// Layer normalisation in an ensemble: see the header.
#include "framework/nn/modules/member_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "framework/nn/modules/member_norm_rows.h"
#include "framework/nn/modules/members.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/modules/member_norm.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// (x - mean) * inverse. @param part  what is read of x
template <class PartOf>
HWY_INLINE Vec<float> unit_of(const float* x, PartOf part, Vec<float> mean, Vec<float> inverse) {
  return hn::Mul(hn::Sub(load(x, part), mean), inverse);
}

/// x - mean within the row, 0 behind its end.
HWY_INLINE Vec<float> away(const float* x, Whole part, Vec<float> mean) {
  return hn::Sub(load(x, part), mean);
}
HWY_INLINE Vec<float> away(const float* x, Part part, Vec<float> mean) {
  const Tag<float> d;
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(part.count)),
                            hn::Sub(load(x, part), mean));
}

void normalise_member(const MemberNormRows& in, const float* bias, float eps, float* out) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float* const x = in.x + r * in.dim;
    float* const y = out + r * in.dim;
    Vec<float> sums = zeros<float>(), squares = sums;
    each_vector<float>(in.dim, [&](std::int64_t i, auto part)
                                   HWY_ATTR { sums = hn::Add(sums, load(x + i, part)); });
    const float mean = sum_of<float>(sums) / count;
    const Vec<float> middle = all(mean);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> distance = away(x + i, part, middle);
      squares = hn::MulAdd(distance, distance, squares);
    });
    const float inverse = 1 / std::sqrt(sum_of<float>(squares) / count + eps);
    in.moments[2 * r] = mean, in.moments[2 * r + 1] = inverse;
    const Vec<float> by = all(inverse);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, middle, by);
      store<float>(hn::MulAdd(unit, load(in.weight + i, part), load(bias + i, part)), y + i, part);
    });
  }
}

/// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation with g = dy w;  dw = sum dy x̂;  db = sum dy.
/// @param dw, db  [dim], zero before
void differentiate_member(const MemberNormRows& in, const float* grad, float* out, float* dw,
                          float* db) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float *const x = in.x + r * in.dim, *const dy = grad + r * in.dim;
    float* const dx = out + r * in.dim;
    const Vec<float> mean = all(in.moments[2 * r]), inverse = all(in.moments[2 * r + 1]);
    Vec<float> plain = zeros<float>(), along = plain;
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, mean, inverse), from = load(dy + i, part);
      const Vec<float> g = hn::Mul(from, load(in.weight + i, part));  // 0 behind the row's end
      plain = hn::Add(plain, g);
      along = hn::MulAdd(g, unit, along);
      store<float>(hn::MulAdd(from, unit, load(dw + i, part)), dw + i, part);
      store<float>(hn::Add(from, load(db + i, part)), db + i, part);
    });
    const Vec<float> shift = all(sum_of<float>(plain) / count);
    const Vec<float> slope = all(sum_of<float>(along) / count);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, mean, inverse);
      const Vec<float> g = hn::Mul(load(dy + i, part), load(in.weight + i, part));
      store<float>(hn::Mul(hn::NegMulAdd(unit, slope, hn::Sub(g, shift)), inverse), dx + i, part);
    });
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(normalise_member);
HWY_EXPORT(differentiate_member);

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Rows = MemberNormRows;

/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;

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
      ATTNLAB_DISPATCH(normalise_member)
      (rows, bias.data_ptr<float>() + e * rows.dim, static_cast<float>(eps),
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
      ATTNLAB_DISPATCH(differentiate_member)
      (rows, dy.data_ptr<float>() + at, dx.data_ptr<float>() + at,
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
    throw ShapeError("layer norm of " + std::to_string(members) + " members: expected weight and " +
                     "bias [" + std::to_string(members * dim) + "] for " + describe(x) +
                     ", found " + describe(weight) + " and " + describe(bias));
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
#endif
