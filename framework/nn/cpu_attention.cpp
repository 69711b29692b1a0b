// Softmax attention on the CPU, a head at a time: see the header.
#include "framework/nn/cpu_attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>

namespace attnlab {
namespace {

// Logits of one group of heads: small enough to stay in a core's second-level cache.
constexpr std::int64_t kGroupBytes = 256 * 1024;
// Multiply-adds below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 64 * 1024;
// The logit of a hidden pair: below all others, yet finite, so that a row of them has a softmax.
constexpr double kHidden = std::numeric_limits<float>::lowest();

/// Head number b * H + h of a [B, H, L, C] tensor, as a matrix [L, C] (no copy).
Tensor head(const Tensor& x, std::int64_t index) {
  const std::int64_t b = index / x.size(1), h = index % x.size(1);
  return x.as_strided({x.size(2), x.size(3)}, {x.stride(2), x.stride(3)},
                      x.storage_offset() + b * x.stride(0) + h * x.stride(1));
}

/// Matrix products read rows at any distance, but the numbers of a row must be neighbours.
Tensor rows_dense(const Tensor& x) {
  const bool dense = x.stride(3) == 1 && x.stride(2) >= x.size(3);
  return (dense ? x : x.contiguous()).detach();
}

/// [B, H, L, C], lying in memory as [B, L, H, C].
Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels) {
  return at::empty({like.size(0), length, like.size(1), channels}, like.options()).transpose(1, 2);
}

struct Sizes {
  std::int64_t heads, queries, keys, group, grain;

  Sizes(const Tensor& q, const Tensor& k, const Tensor& v)
      : heads(q.size(0) * q.size(1)), queries(q.size(2)), keys(k.size(2)) {
    const std::int64_t logits = queries * keys;
    group = std::clamp<std::int64_t>(
        kGroupBytes / (logits * static_cast<std::int64_t>(q.element_size())), 1, heads);
    grain = std::max<std::int64_t>(1, kThreadWork / (logits * (q.size(3) + v.size(3))));
  }

  /// Calls work(first head, past the last head) for groups of heads, in parallel.
  template <class Work>
  void each_group(const Work& work) const {
    at::parallel_for(0, heads, grain, [&](std::int64_t begin, std::int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView below;  // worker threads would record a graph
      for (std::int64_t first = begin; first < end; first += group) {
        work(first, std::min(first + group, end));
      }
    });
  }
};

/// Room for a group's logits: part of the kept weights, or scratch where none are kept.
Tensor group_rows(const Tensor& kept, const Sizes& sizes, std::int64_t first, std::int64_t last,
                  const Tensor& like) {
  return kept.defined() ? kept.narrow(0, first, last - first)
                        : at::empty({last - first, sizes.queries, sizes.keys}, like.options());
}

/// @param hidden   bool [B, H, Lq, Lk], true = may not see, or undefined.
/// @param weights  [B * H, Lq, Lk], filled with P; undefined: not wanted.
Tensor attend_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& hidden,
                    double scale, const Tensor& weights) {
  const Sizes sizes(q, k, v);
  Tensor out = empty_by_token(q, q.size(2), v.size(3));
  sizes.each_group([&](std::int64_t first, std::int64_t last) {
    Tensor rows = group_rows(weights, sizes, first, last, q);
    for (std::int64_t i = first; i < last; ++i) {
      Tensor logits = rows.select(0, i - first);
      at::addmm_out(logits, logits, head(q, i), head(k, i).t(), 0, scale);
      if (hidden.defined()) logits.masked_fill_(head(hidden, i), kHidden);
    }
    at::_softmax_out(rows, rows, -1, false);
    for (std::int64_t i = first; i < last; ++i) {
      Tensor p = rows.select(0, i - first);
      // A row that sees nothing came out uniform; elsewhere hidden weights are zero already.
      if (hidden.defined()) p.masked_fill_(head(hidden, i), 0);
      Tensor y = head(out, i);
      at::mm_out(y, p, head(v, i));
    }
  });
  return out;
}

/// Gradients of Q, K and V: dV = P^T dY, dL = P (dP - <dP, P>), dQ = s dL K, dK = s dL^T Q.
std::array<Tensor, 3> differentiate_heads(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& weights, const Tensor& grad, double scale) {
  const Sizes sizes(q, k, v);
  const Tensor dq = empty_by_token(q, q.size(2), q.size(3));
  const Tensor dk = empty_by_token(k, k.size(2), k.size(3));
  const Tensor dv = empty_by_token(v, v.size(2), v.size(3));
  sizes.each_group([&](std::int64_t first, std::int64_t last) {
    const Tensor p = weights.narrow(0, first, last - first);
    Tensor rows = group_rows({}, sizes, first, last, q);
    for (std::int64_t i = first; i < last; ++i) {
      const Tensor dy = head(grad, i);
      Tensor dp = rows.select(0, i - first), dvi = head(dv, i);
      at::mm_out(dvi, p.select(0, i - first).t(), dy);
      at::mm_out(dp, dy, head(v, i).t());
    }
    at::_softmax_backward_data_out(rows, rows, p, -1, q.scalar_type());
    for (std::int64_t i = first; i < last; ++i) {
      const Tensor dl = rows.select(0, i - first);
      Tensor dqi = head(dq, i), dki = head(dk, i);
      at::addmm_out(dqi, dqi, dl, head(k, i), 0, scale);
      at::addmm_out(dki, dki, dl.t(), head(q, i), 0, scale);
    }
  });
  return {dq, dk, dv};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Autograd cannot take an undefined tensor as an argument of its own, so it goes in a struct.
struct Mask {
  Tensor hidden;
};

struct HeadwiseSoftmax : public torch::autograd::Function<HeadwiseSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Mask& mask, double scale) {
    const Tensor weights = at::empty({q.size(0) * q.size(1), q.size(2), k.size(2)}, q.options());
    Tensor out =
        attend_heads(rows_dense(q), rows_dense(k), rows_dense(v), mask.hidden, scale, weights);
    context->save_for_backward({q, k, v, weights, mask.hidden});
    context->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &grad = gradients[0];
    const double scale = context->saved_data["scale"].toDouble();
    const auto [dq, dk, dv] =
        at::GradMode::is_enabled()  // the caller asked for a graph of this backward pass
            ? composed_softmax_gradients(q, k, v, saved[4], grad, scale)
            : differentiate_heads(rows_dense(q), rows_dense(k), rows_dense(v), saved[3],
                                  rows_dense(grad), scale);
    return {dq, dk, dv, Tensor(), Tensor()};
  }
};

}  // namespace

std::array<Tensor, 3> composed_softmax_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Tensor& hidden, const Tensor& grad,
                                                 double scale) {
  Tensor logits = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (hidden.defined()) logits = logits.masked_fill(hidden, kHidden);
  Tensor p = logits.softmax(-1);
  if (hidden.defined()) p = p.masked_fill(hidden, 0);
  const Tensor dp = at::matmul(grad, v.transpose(-2, -1));
  const Tensor dl = p * (dp - (dp * p).sum(-1, true)) * scale;
  return {at::matmul(dl, k), at::matmul(dl.transpose(-2, -1), q),
          at::matmul(p.transpose(-2, -1), grad)};
}

bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const at::ScalarType dtype = queries.scalar_type();
  return queries.device().is_cpu() && (dtype == at::kFloat || dtype == at::kDouble) &&
         queries.numel() > 0 && keys.numel() > 0 && values.numel() > 0;
}

Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& visible, double scale) {
  Tensor hidden;
  if (visible.defined()) {
    hidden = visible.logical_not().expand(
        {queries.size(0), queries.size(1), queries.size(2), keys.size(2)});
  }
  const bool gradients =
      at::GradMode::is_enabled() &&
      (queries.requires_grad() || keys.requires_grad() || values.requires_grad());
  if (gradients) return HeadwiseSoftmax::apply(queries, keys, values, Mask{hidden}, scale);
  return attend_heads(rows_dense(queries), rows_dense(keys), rows_dense(values), hidden, scale,
                      Tensor());
}

}  // namespace attnlab
