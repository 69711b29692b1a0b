// Softmax attention on the CPU, a head at a time: see the header.
#include "framework/nn/kernels/cpu_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "framework/nn/kernels/small_attention.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

// Logits of one group of heads: small enough to stay in a core's second-level cache.
constexpr std::int64_t kGroupBytes = 256 * 1024;
// Logits of one block of queries, and the fewest rows for which a matrix product is efficient.
constexpr std::int64_t kBlockBytes = 1024 * 1024;
constexpr std::int64_t kFewestRows = 64;
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

/// [B, H, L, C], lying in memory as [B, L, H, C]; as [H, B, L, C] where heads lie furthest apart:
/// those of an ensemble, whose members come first.
Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels) {
  if (like.stride(1) > like.stride(0) && like.stride(0) >= like.stride(2)) {
    return at::empty({like.size(1), like.size(0), length, channels}, like.options())
        .transpose(0, 1);
  }
  return at::empty({like.size(0), length, like.size(1), channels}, like.options()).transpose(1, 2);
}

/// How the work is cut: short sequences in groups of heads, long ones in blocks of queries, so that
/// the logits of a piece stay in cache.
struct Sizes {
  std::int64_t heads, queries, keys, group, block, grain;

  Sizes(const Tensor& q, const Tensor& k, const Tensor& v)
      : heads(q.size(0) * q.size(1)), queries(q.size(2)), keys(k.size(2)) {
    const std::int64_t logits = queries * keys, width = q.element_size();
    group = std::clamp<std::int64_t>(kGroupBytes / (logits * width), 1, heads);
    // One block holds all queries where a head's logits are not much more than a block's.
    block = logits * width <= 2 * kBlockBytes
                ? queries
                : std::clamp<std::int64_t>(kBlockBytes / (keys * width), kFewestRows, queries);
    grain = std::max<std::int64_t>(1, kThreadWork / (logits * (q.size(3) + v.size(3))));
  }

  /// Room for the logits of one piece.
  Tensor scratch(const Tensor& like) const {
    return at::empty({group, block, keys}, like.options());
  }

  /// Calls work(begin, end) on ranges of heads, in parallel.
  template <class Work>
  void each_range(const Work& work) const {
    at::parallel_for(0, heads, grain, [&](std::int64_t begin, std::int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView below;  // worker threads would record a graph
      work(begin, end);
    });
  }

  /// Calls work(first head, past the last head) for the groups of a range.
  template <class Work>
  void each_group(std::int64_t begin, std::int64_t end, const Work& work) const {
    for (std::int64_t first = begin; first < end; first += group) {
      work(first, std::min(first + group, end));
    }
  }

  /// Calls work(first query, how many) for the blocks of a group.
  template <class Work>
  void each_block(const Work& work) const {
    for (std::int64_t row = 0; row < queries; row += block) {
      work(row, std::min(block, queries - row));
    }
  }
};

/// A matrix's rows [first, first + count).
Tensor rows_of(const Tensor& matrix, std::int64_t first, std::int64_t count) {
  return count == matrix.size(0) ? matrix : matrix.narrow(0, first, count);
}

/// The logits or weights of heads [first, last) and a block of queries: part of the kept weights
/// [B * H, Lq, Lk], or of the scratch where none are kept.
Tensor piece(const Tensor& kept, const Tensor& scratch, std::int64_t first, std::int64_t last,
             std::int64_t row, std::int64_t rows) {
  if (!kept.defined()) return scratch.narrow(0, 0, last - first).narrow(1, 0, rows);
  return kept.narrow(0, first, last - first).narrow(1, row, rows);
}

/// What `dropout` makes of a piece of the weights, which begins at head `head` and query `row`.
void drop_weights(const Tensor& weights, const Tensor& kept, const DropoutMask& drops,
                  const Sizes& sizes, std::int64_t head, std::int64_t row) {
  const std::int64_t first = (head * sizes.queries + row) * sizes.keys;
  AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "drop_weights", [&] {
    drop_piece(weights.data_ptr<scalar_t>(), kept.data_ptr<scalar_t>(), first, weights.numel(),
               drops);
  });
}

bool drops(const HeadwiseProblem& in) { return in.drops.p > 0; }

/// Matrices [L, C] for the heads of a group, where keys are brought to unit length.
std::vector<Tensor> key_scratch(const HeadwiseProblem& in, const Sizes& sizes) {
  std::vector<Tensor> matrices(in.unit ? sizes.group : 0);
  for (Tensor& one : matrices) one = at::empty({in.k.size(2), in.k.size(3)}, in.k.options());
  return matrices;
}

/// Room for the weights that the backward pass reads.
Tensor room_for_weights(const HeadwiseProblem& in) {
  if (heads_are_small(in)) return room_for_small_weights(in);
  return at::empty({in.q.size(0) * in.q.size(1), in.q.size(2), in.k.size(2)}, in.q.options());
}

/// @param weights  of `room_for_weights`, filled with P; undefined: not wanted.
Tensor attend_heads(const HeadwiseProblem& in, const Tensor& weights) {
  const Sizes sizes(in.q, in.k, in.v);
  const OwnKernelFlops flops(sizes.heads * sizes.queries * sizes.keys *
                             (in.q.size(3) + in.v.size(3)));
  Tensor out = empty_by_token(in.q, in.q.size(2), in.v.size(3));
  if (heads_are_small(in)) {
    attend_small_heads(in, weights, out);
    return out;
  }
  sizes.each_range([&](std::int64_t begin, std::int64_t end) {
    const Tensor scratch = weights.defined() ? Tensor() : sizes.scratch(in.q);
    const Tensor room = drops(in) ? sizes.scratch(in.q) : Tensor();
    const std::vector<Tensor> unit = key_scratch(in, sizes);
    sizes.each_group(begin, end, [&](std::int64_t first, std::int64_t last) {
      const auto keys = [&](std::int64_t i) { return in.unit ? unit[i - first] : head(in.k, i); };
      sizes.each_block([&](std::int64_t row, std::int64_t count) {
        Tensor rows = piece(weights, scratch, first, last, row, count);
        for (std::int64_t i = first; i < last; ++i) {
          if (in.unit && row == 0) unit_rows(head(in.k, i), *in.unit, keys(i), head(in.inverse, i));
          Tensor logits = rows.select(0, i - first);
          at::addmm_out(logits, logits, rows_of(head(in.q, i), row, count), keys(i).t(), 0,
                        in.scale);
          if (in.hidden.defined()) {
            logits.masked_fill_(rows_of(head(in.hidden, i), row, count), kHidden);
          }
        }
        at::_softmax_out(rows, rows, -1, false);
        for (std::int64_t i = first; in.hidden.defined() && i < last; ++i) {
          // A row that sees nothing came out uniform; elsewhere hidden weights are zero already.
          rows.select(0, i - first).masked_fill_(rows_of(head(in.hidden, i), row, count), 0);
        }
        const Tensor kept = drops(in) ? piece({}, room, first, last, row, count) : rows;
        if (drops(in)) drop_weights(rows, kept, in.drops, sizes, first, row);
        for (std::int64_t i = first; i < last; ++i) {
          Tensor y = rows_of(head(out, i), row, count);
          at::mm_out(y, kept.select(0, i - first), head(in.v, i));
        }
      });
    });
  });
  return out;
}

/// Gradients of Q, K and V: dV = drop(P)^T dY, dP = drop(dY V^T), dL = P (dP - <dP, P>),
/// dQ = s dL K, dK = s dL^T Q.
/// Where K was brought to unit length, dK is the gradient of what it was before.
std::array<Tensor, 3> differentiate_heads(const HeadwiseProblem& in, const Tensor& weights,
                                          const Tensor& grad) {
  const Sizes sizes(in.q, in.k, in.v);
  const Tensor dq = empty_by_token(in.q, in.q.size(2), in.q.size(3));
  const Tensor dk = empty_by_token(in.k, in.k.size(2), in.k.size(3));
  const Tensor dv = empty_by_token(in.v, in.v.size(2), in.v.size(3));
  if (heads_are_small(in)) {
    differentiate_small_heads(in, weights, grad, dq, dk, dv);
    return {dq, dk, dv};
  }
  sizes.each_range([&](std::int64_t begin, std::int64_t end) {
    const Tensor scratch = sizes.scratch(in.q);
    const Tensor room = drops(in) ? sizes.scratch(in.q) : Tensor();
    const std::vector<Tensor> unit = key_scratch(in, sizes);
    sizes.each_group(begin, end, [&](std::int64_t first, std::int64_t last) {
      const auto keys = [&](std::int64_t i) { return in.unit ? unit[i - first] : head(in.k, i); };
      sizes.each_block([&](std::int64_t row, std::int64_t count) {
        const double before = row == 0 ? 0 : 1;  // what earlier blocks gave stays
        const Tensor p = piece(weights, {}, first, last, row, count);
        Tensor rows = piece({}, scratch, first, last, row, count);
        // The dropped weights, and then, a head after it has read them, the gradient of those.
        const Tensor kept = drops(in) ? piece({}, room, first, last, row, count) : p;
        const Tensor dkept = drops(in) ? kept : rows;
        if (drops(in)) drop_weights(p, kept, in.drops, sizes, first, row);
        for (std::int64_t i = first; i < last; ++i) {
          const Tensor dy = rows_of(head(grad, i), row, count);
          Tensor dp = dkept.select(0, i - first), dvi = head(dv, i);
          at::addmm_out(dvi, dvi, kept.select(0, i - first).t(), dy, before);
          at::mm_out(dp, dy, head(in.v, i).t());
        }
        if (drops(in)) drop_weights(dkept, rows, in.drops, sizes, first, row);
        at::_softmax_backward_data_out(rows, rows, p, -1, in.q.scalar_type());
        for (std::int64_t i = first; i < last; ++i) {
          const Tensor dl = rows.select(0, i - first);
          Tensor dqi = rows_of(head(dq, i), row, count), dki = head(dk, i);
          if (in.unit && row == 0) unit_rows_again(head(in.k, i), head(in.inverse, i), keys(i));
          at::addmm_out(dqi, dqi, dl, keys(i), 0, in.scale);
          at::addmm_out(dki, dki, dl.t(), rows_of(head(in.q, i), row, count), before, in.scale);
          if (!in.unit || row + count < sizes.queries) continue;
          differentiate_unit_rows(keys(i), head(in.inverse, i), *in.unit, dki);
        }
      });
    });
  });
  return {dq, dk, dv};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Autograd cannot take an undefined tensor as an argument of its own, so it goes in a struct.
struct Settings {
  Tensor hidden;
  double scale;
  UnitKeys unit;
  DropoutMask drops;
};

HeadwiseProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v,
                           const Settings& settings, const Tensor& inverse) {
  return {rows_dense(q),  rows_dense(k), rows_dense(v),  settings.hidden,
          settings.scale, settings.unit, settings.drops, inverse};
}

/// Room for 1 / |k| of unit keys; undefined where there are none.
Tensor room_for_inverse(const Tensor& k, const UnitKeys& unit) {
  return unit ? at::empty({k.size(0), k.size(1), k.size(2), 1}, k.options()) : Tensor();
}

/// What dropout multiplies the weights by, [B, H, Lq, Lk]; undefined where none are dropped.
Tensor factors_of(const Tensor& q, const Tensor& k, const DropoutMask& drops) {
  if (drops.p == 0) return {};
  Tensor factors = at::empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.options());
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "dropout_factors", [&] {
    dropout_factors(factors.data_ptr<scalar_t>(), 0, factors.numel(), drops);
  });
  return factors;
}

/// The gradients as operations that autograd can follow.
std::array<Tensor, 3> compose_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Settings& settings, const Tensor& grad) {
  const Tensor keys = settings.unit ? unit(k, *settings.unit) : k;
  auto [dq, dk, dv] = composed_softmax_gradients(q, keys, v, settings.hidden, grad, settings.scale,
                                                 factors_of(q, k, settings.drops));
  if (settings.unit) dk = composed_unit_gradient(k, dk, *settings.unit);
  return {dq, dk, dv};
}

struct HeadwiseSoftmax : public torch::autograd::Function<HeadwiseSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Settings& settings) {
    const Tensor inverse = room_for_inverse(k, settings.unit);
    const HeadwiseProblem problem = problem_of(q, k, v, settings, inverse);
    const Tensor weights = room_for_weights(problem);
    Tensor out = attend_heads(problem, weights);
    context->save_for_backward({q, k, v, weights, settings.hidden, inverse});
    context->saved_data["scale"] = settings.scale;
    context->saved_data["eps"] = settings.unit.value_or(0);
    context->saved_data["key"] = static_cast<std::int64_t>(settings.drops.key);
    context->saved_data["p"] = settings.drops.p;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &grad = gradients[0];
    const Tensor& inverse = saved[5];
    const double eps = context->saved_data["eps"].toDouble();
    const Settings settings{saved[4],
                            context->saved_data["scale"].toDouble(),
                            inverse.defined() ? UnitKeys(eps) : UnitKeys(),
                            {static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
                             context->saved_data["p"].toDouble()}};
    const auto [dq, dk, dv] =
        at::GradMode::is_enabled()  // the caller asked for a graph of this backward pass
            ? compose_gradients(q, k, v, settings, grad)
            : differentiate_heads(problem_of(q, k, v, settings, inverse), saved[3],
                                  rows_dense(grad));
    return {dq, dk, dv, Tensor()};
  }
};

}  // namespace

std::array<Tensor, 3> composed_softmax_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Tensor& hidden, const Tensor& grad,
                                                 double scale, const Tensor& factors) {
  Tensor logits = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (hidden.defined()) logits = logits.masked_fill(hidden, kHidden);
  Tensor p = logits.softmax(-1);
  if (hidden.defined()) p = p.masked_fill(hidden, 0);
  const Tensor kept = factors.defined() ? p * factors : p;
  Tensor dp = at::matmul(grad, v.transpose(-2, -1));
  if (factors.defined()) dp = dp * factors;
  const Tensor dl = p * (dp - (dp * p).sum(-1, true)) * scale;
  return {at::matmul(dl, k), at::matmul(dl.transpose(-2, -1), q),
          at::matmul(kept.transpose(-2, -1), grad)};
}

bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const at::ScalarType dtype = queries.scalar_type();
  return queries.device().is_cpu() && (dtype == at::kFloat || dtype == at::kDouble) &&
         queries.numel() > 0 && keys.numel() > 0 && values.numel() > 0;
}

Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& visible, double scale, UnitKeys unit_keys,
                             double dropout) {
  Settings settings{{}, scale, unit_keys, draw_dropout(dropout)};
  if (visible.defined()) {
    settings.hidden = visible.logical_not().expand(
        {queries.size(0), queries.size(1), queries.size(2), keys.size(2)});
  }
  const bool gradients =
      at::GradMode::is_enabled() &&
      (queries.requires_grad() || keys.requires_grad() || values.requires_grad());
  if (gradients) return HeadwiseSoftmax::apply(queries, keys, values, settings);
  const Tensor inverse = room_for_inverse(keys, unit_keys);
  return attend_heads(problem_of(queries, keys, values, settings, inverse), Tensor());
}

}  // namespace attnlab
