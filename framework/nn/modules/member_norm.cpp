// Layer normalisation in an ensemble: see the header.
#include "framework/nn/modules/member_norm.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "framework/nn/modules/member_norm_rows.h"
#include "framework/nn/modules/members.h"
#include "framework/tensor/narrow.h"

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

void normalise_member(const MemberNormRows& in, float eps, float* out) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float* x = in.x + r * in.dim;
    float* const y = out + r * in.dim;
    Vec<float> sums = zeros<float>(), squares = sums;
    if (in.added != nullptr) {
      const float* const added = in.added + r * in.dim;
      float* const sum = in.sum + r * in.dim;
      each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
        const Vec<float> both = hn::Add(load(x + i, part), load(added + i, part));
        sums = hn::Add(sums, both);
        store<float>(both, sum + i, part);
      });
      x = sum;
    } else {
      each_vector<float>(in.dim, [&](std::int64_t i, auto part)
                                     HWY_ATTR { sums = hn::Add(sums, load(x + i, part)); });
    }
    const float mean = in.centred ? sum_of<float>(sums) / count : 0;
    const Vec<float> middle = all(mean);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> distance = away(x + i, part, middle);
      squares = hn::MulAdd(distance, distance, squares);
    });
    const float inverse = 1 / std::sqrt(sum_of<float>(squares) / count + eps);
    in.moments[2 * r] = mean, in.moments[2 * r + 1] = inverse;
    const Vec<float> by = all(inverse);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, middle, by), w = load(in.weight + i, part);
      const Vec<float> scaled =
          in.bias == nullptr ? hn::Mul(unit, w) : hn::MulAdd(unit, w, load(in.bias + i, part));
      store<float>(scaled, y + i, part);
    });
  }
}

/// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation + other, with g = dy w, without mean(g) where the
/// mean was not taken away;  dw += dy x̂;  db += dy.
void differentiate_member(const MemberNormRows& in, const MemberNormGradients& to) {
  const auto count = static_cast<float>(in.dim);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const float *const x = in.x + r * in.dim, *const dy = to.grad + r * in.dim;
    const float* const other = to.other == nullptr ? nullptr : to.other + r * in.dim;
    float* const dx = to.dx + r * in.dim;
    const Vec<float> mean = all(in.moments[2 * r]), inverse = all(in.moments[2 * r + 1]);
    Vec<float> plain = zeros<float>(), along = plain;
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, mean, inverse), from = load(dy + i, part);
      const Vec<float> g = hn::Mul(from, load(in.weight + i, part));  // 0 behind the row's end
      plain = hn::Add(plain, g);
      along = hn::MulAdd(g, unit, along);
      store<float>(hn::MulAdd(from, unit, load(to.dw + i, part)), to.dw + i, part);
      if (to.db != nullptr) {
        store<float>(hn::Add(from, load(to.db + i, part)), to.db + i, part);
      }
    });
    const Vec<float> shift = all(in.centred ? sum_of<float>(plain) / count : 0.0F);
    const Vec<float> slope = all(sum_of<float>(along) / count);
    each_vector<float>(in.dim, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> unit = unit_of(x + i, part, mean, inverse);
      const Vec<float> g = hn::Mul(load(dy + i, part), load(in.weight + i, part));
      const Vec<float> own = hn::NegMulAdd(unit, slope, hn::Sub(g, shift));
      const Vec<float> all_of_it = other == nullptr
                                       ? hn::Mul(own, inverse)
                                       : hn::MulAdd(own, inverse, load(other + i, part));
      store<float>(all_of_it, dx + i, part);
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

/// Rows that are taken together: whatever the number of threads, so that sums are the same.
constexpr std::int64_t kChunk = 256;
/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;

float* start_of(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

/// What is normalised, [E * rows, dim] dense.
struct Norm {
  Tensor x, added, sum, weight, bias, moments;  ///< undefined: there is none
  std::int64_t members;
  NormKind kind;

  std::int64_t dim() const { return x.size(-1); }
  std::int64_t rows() const { return x.numel() / dim() / members; }
  std::int64_t chunks() const { return (rows() + kChunk - 1) / kChunk; }

  /// Calls work(chunk's number among all, its first row, its rows), in parallel.
  template <class Work>
  void each_chunk(const Work& work) const {
    const std::int64_t d = dim(), all = rows(), pieces = chunks();
    const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / (std::min(all, kChunk) * d));
    at::parallel_for(0, members * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t e = i / pieces, first = i % pieces * kChunk, row = e * all + first;
        const auto at = [&](const Tensor& t, std::int64_t place) {
          return t.defined() ? t.data_ptr<float>() + place : nullptr;
        };
        work(i, row,
             Rows{std::min(kChunk, all - first), d, at(x, row * d), at(added, row * d),
                  at(sum, row * d), at(weight, e * d), at(bias, e * d), at(moments, 2 * row),
                  kind == NormKind::layer});
      }
    });
  }
};

/// Sums of chunks, [E * chunks, dim], as [E * dim], always in the same order.
Tensor sum_of_chunks(const Tensor& sums, std::int64_t members) {
  if (!sums.defined() || sums.size(0) == members) {
    return sums.defined() ? sums.view({-1}) : sums;
  }
  return sums.view({members, -1, sums.size(1)}).sum(1).view({-1});
}

struct MemberNorm : public torch::autograd::Function<MemberNorm> {
  /// @param added, bias  of no elements: none; autograd takes no undefined tensor here
  /// @returns the norm; where there is something to add the sum before it
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& added,
                               const Tensor& weight, const Tensor& bias, double eps,
                               std::int64_t members, NormKind kind) {
    context->set_materialize_grads(false);
    const at::TensorOptions options = x.options().requires_grad(false);
    const bool adds = added.numel() > 0;
    const Norm norm{x.contiguous(),
                    adds ? added.contiguous() : Tensor(),
                    adds ? at::empty(x.sizes(), options) : Tensor(),
                    weight,
                    bias.numel() > 0 ? bias : Tensor(),
                    at::empty({x.numel() / x.size(-1), 2}, options),
                    members,
                    kind};
    const Tensor y = at::empty(x.sizes(), options);
    float* const out = start_of(y);
    norm.each_chunk([&](std::int64_t, std::int64_t row, const Rows& rows) {
      ATTNLAB_DISPATCH(normalise_member)(rows, static_cast<float>(eps), out + row * rows.dim);
    });
    // The input itself: a copy would have no graph.
    context->save_for_backward({adds ? norm.sum : x, weight, norm.moments});
    context->saved_data["eps"] = eps;
    context->saved_data["members"] = members;
    context->saved_data["adds"] = adds;
    context->saved_data["rms"] = kind == NormKind::rms;
    context->saved_data["bias"] = bias.numel() > 0;
    if (adds) return {norm.sum, y};
    return {y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor x = saved[0].contiguous();
    const Tensor& weight = saved[1];
    const bool adds = context->saved_data["adds"].toBool();
    const bool biased = context->saved_data["bias"].toBool();
    const Norm norm{x,
                    {},
                    {},
                    weight,
                    {},
                    saved[2],
                    context->saved_data["members"].toInt(),
                    context->saved_data["rms"].toBool() ? NormKind::rms : NormKind::layer};
    const Tensor& grad = gradients.back();
    const Tensor other = adds ? gradients[0] : Tensor();
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      return composed(norm, grad, other, context->saved_data["eps"].toDouble(), adds, biased);
    }
    if (!grad.defined()) return {other, other, {}, {}, {}, {}, {}};
    const Tensor dy = grad.contiguous(), beside = other.defined() ? other.contiguous() : other;
    const Tensor dx = at::empty(x.sizes(), x.options());
    const std::int64_t sums = norm.members * norm.chunks();
    const Tensor dw = at::zeros({sums, norm.dim()}, x.options());
    const Tensor db = biased ? at::zeros({sums, norm.dim()}, x.options()) : Tensor();
    norm.each_chunk([&](std::int64_t i, std::int64_t row, const Rows& rows) {
      const auto at = [&](const Tensor& t, std::int64_t place) {
        return t.defined() ? t.data_ptr<float>() + place : nullptr;
      };
      const std::int64_t d = rows.dim;
      ATTNLAB_DISPATCH(differentiate_member)
      (rows, {at(dy, row * d), at(beside, row * d), at(dx, row * d), at(dw, i * d), at(db, i * d)});
    });
    return {dx,
            adds ? dx : Tensor(),
            sum_of_chunks(dw, norm.members),
            sum_of_chunks(db, norm.members),
            Tensor(),
            Tensor(),
            Tensor()};
  }

 private:
  /// The same gradients as operations that autograd can follow.
  static variable_list composed(const Norm& norm, const Tensor& dy, const Tensor& other, double eps,
                                bool adds, bool biased) {
    if (!dy.defined()) return {other, other, {}, {}, {}, {}, {}};
    const Tensor& x = norm.x;
    const auto by_row = [&](const Tensor& t) { return t.reshape({norm.members, -1, norm.dim()}); };
    const bool centred = norm.kind == NormKind::layer;
    const Tensor rows = by_row(x), away = centred ? rows - rows.mean(-1, true) : rows;
    const Tensor inverse = (away.square().mean(-1, true) + eps).rsqrt(), unit = away * inverse;
    const Tensor grad = by_row(dy), g = grad * norm.weight.view({norm.members, 1, norm.dim()});
    const Tensor shifted = centred ? g - g.mean(-1, true) : g;
    Tensor dx = (shifted - unit * (g * unit).mean(-1, true)) * inverse;
    dx = dx.view(x.sizes());
    if (other.defined()) dx = dx + other;
    return {dx,
            adds ? dx : Tensor(),
            (grad * unit).sum(1).view({-1}),
            biased ? grad.sum(1).view({-1}) : Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

bool has_own_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto plain = [](const Tensor& t) {
    return !t.defined() ||
           (t.device().is_cpu() && t.scalar_type() == at::kFloat && t.layout() == at::kStrided);
  };
  const auto dense = [](const Tensor& t) { return !t.defined() || t.is_contiguous(); };
  return plain(x) && plain(weight) && plain(bias) && dense(weight) && dense(bias) && x.numel() > 0;
}

Tensor or_none(const Tensor& t, const Tensor& like) {
  return t.defined() ? t : at::empty({0}, like.options().requires_grad(false));
}

}  // namespace

Tensor member_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                         std::int64_t members, NormKind kind) {
  const std::int64_t dim = x.size(-1);
  batch_of_member(x, members);
  if (weight.numel() != members * dim || (bias.defined() && bias.numel() != members * dim)) {
    throw ShapeError(fmt::format(
        "layer norm of {} members: expected weight and bias [{}] for {}, found {} and {}", members,
        members * dim, describe(x), describe(weight), describe(bias)));
  }
  if (is_narrow(x)) {
    return member_layer_norm(wide(x), wide(weight), wide(bias), eps, members, kind)
        .to(x.scalar_type());
  }
  if (has_own_kernel(x, weight, bias)) {
    return MemberNorm::apply(x, or_none({}, x), weight, or_none(bias, x), eps, members, kind)[0];
  }
  const auto of_members = [&](const Tensor& t) { return t.reshape({members, -1, dim}); };
  if (kind == NormKind::rms) {
    const Tensor rows = of_members(x);
    const Tensor scaled = rows * (rows.square().mean(-1, true) + eps).rsqrt() * of_members(weight);
    return (bias.defined() ? scaled + of_members(bias) : scaled).view(x.sizes());
  }
  if (members == 1) return at::layer_norm(x, {dim}, weight, bias, eps);
  const Tensor normal = at::layer_norm(x, {dim}, {}, {}, eps);
  return at::addcmul(of_members(bias), of_members(normal), of_members(weight)).view(x.sizes());
}

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& y, const Tensor& weight,
                          const Tensor& bias, double eps, NormKind kind) {
  const bool alike = x.sizes() == y.sizes() && y.scalar_type() == x.scalar_type() &&
                     y.device() == x.device() && x.dim() > 0 && weight.numel() == x.size(-1);
  if (alike && has_own_kernel(x, weight, bias)) {
    const variable_list both = MemberNorm::apply(x, y, weight, or_none(bias, x), eps, 1, kind);
    return {both[0], both[1]};
  }
  const Tensor sum = x + y;
  return {sum, member_layer_norm(sum, weight, bias, eps, 1, kind)};
}

}  // namespace attnlab
#endif
