// Sinkhorn's normaliser: see normalisers.h.
//
// The first half-step is a softmax over rows; the others either scale its rows and columns
// (framework/nn/kernels/sinkhorn_cpu.h) or, where that does not serve, move potentials in the log
// domain.
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "framework/nn/attention/normalisers.h"
#include "framework/nn/kernels/sinkhorn_cpu.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

// The logit of a hidden pair: finite, so that a row of them has a log-sum-exp, with room to add.
constexpr double kHidden = std::numeric_limits<float>::lowest() / 2;

/// Who takes part, and what columns are to sum to where rows sum to one.
struct Margins {
  Tensor hidden;         ///< bool, broadcastable to the logits; undefined: nothing is hidden
  Tensor empty_rows;     ///< bool, broadcastable to [B, H, Lq, 1]; defined as `hidden` is
  Tensor empty_columns;  ///< bool, broadcastable to [B, H, 1, Lk]
  Tensor rows;           ///< how many rows see something: broadcastable to [B, H, 1, 1]
  Tensor columns;        ///< `rows` over how many columns are seen

  Tensor hide(const Tensor& logits) const {
    return hidden.defined() ? logits.masked_fill(hidden, kHidden) : logits;
  }
};

/// The number of rows with a count above zero, at least 1.
Tensor taking_part(const Tensor& counts, std::int64_t rows) {
  const Tensor some = (counts > 0).to(counts.scalar_type());
  return (counts.size(-2) == 1 ? some * static_cast<double>(rows) : some.sum(-2, true))
      .clamp_min_(1);
}

Margins margins_of(const Tensor& logits, const Tensor& visible) {
  Margins margins;
  const Tensor mask = visible.defined() ? at::atleast_2d(visible) : visible;
  const Tensor flipped = visible.defined() ? mask.transpose(-2, -1) : visible;
  const Tensor by_row = visible_counts(mask, logits);
  const Tensor by_column = visible_counts(flipped, logits.transpose(-2, -1));
  margins.rows = taking_part(by_row, logits.size(-2));
  margins.columns = margins.rows / taking_part(by_column, logits.size(-1));
  if (visible.defined()) {
    margins.hidden = mask.logical_not();
    margins.empty_rows = by_row == 0;
    margins.empty_columns = (by_column == 0).transpose(-2, -1);
  }
  return margins;
}

/// Whether the first row step moves u = 0 by less than the tolerance.
bool ends_at_once(const Tensor& logits, const Margins& margins, const SinkhornOptions& options) {
  Tensor move = (logits.logsumexp(-1, true) + margins.rows.log()).abs_().mul_(options.eps);
  if (margins.hidden.defined()) move.masked_fill_(margins.empty_rows, 0);
  return move.sum(-2).mean().item<double>() < options.tolerance;
}

Tensor softmax(const Tensor& logits, const Margins& margins) {
  const Tensor weights = logits.softmax(-1);
  return margins.hidden.defined() ? weights.masked_fill(margins.hidden, 0) : weights;
}

/// The plan by log-sum-exps, differentiable any number of times. Rows sum to one.
/// @param logits  divided by eps, hidden ones at kHidden.
Tensor plan_by_logs(const Tensor& logits, const Margins& margins, const SinkhornOptions& options) {
  const auto step = [&](const Tensor& goal, const Tensor& x, std::int64_t over,
                        const Tensor& empty) {
    const OwnKernelFlops flops("attnlab::Sinkhorn",
                               x.numel());  // as by scalings: a matrix-vector product
    const Tensor potential = goal - x.logsumexp(over, true);
    return empty.defined() ? potential.masked_fill(empty, 0) : potential;
  };
  const bool stops = options.tolerance > 0;
  if (options.max_iter == 1 || (stops && ends_at_once(logits.detach(), margins, options))) {
    return softmax(logits, margins);
  }
  const Tensor scores = margins.hide(logits.log_softmax(-1));
  const Tensor for_rows = at::zeros({1, 1, 1, 1}, logits.options());
  const Tensor for_columns = margins.columns.log();
  Tensor u = for_rows, v = for_rows;
  for (std::int64_t t = 1; t < options.max_iter; ++t) {
    if (t % 2 == 1) {
      v = step(for_columns, scores + u, -2, margins.empty_columns);
      continue;
    }
    const Tensor before = u;
    u = step(for_rows, scores + v, -1, margins.empty_rows);
    if (!stops) continue;
    const Tensor move = (u - before).detach().abs().sum(-2).mean();
    if (move.item<double>() * options.eps < options.tolerance) break;
  }
  return (scores + u + v).exp();
}

/// A plan by scalings, and what its gradient needs.
struct ScaledPlan {
  Tensor plan;                ///< [B, H, Lq, Lk]; undefined: scalings do not serve
  std::vector<Tensor> steps;  ///< see `scale_rows_and_columns`
  Tensor columns;             ///< [B * H, Lk]
  Tensor visible;             ///< as given
};

/// @param logits  detached, divided by eps, hidden ones at kHidden.
ScaledPlan plan_by_scalings(const Tensor& logits, const Margins& margins,
                            const SinkhornOptions& options) {
  if (!logits.device().is_cpu() || logits.numel() == 0 || options.max_iter == 1) return {};
  const at::NoGradGuard no_gradients;
  const Tensor dense = logits.contiguous(), plan = at::empty(dense.sizes(), dense.options());
  const std::int64_t batch = plan.size(0), heads = plan.size(1), matrices = batch * heads;
  const std::int64_t rows = plan.size(2), columns = plan.size(3);
  const auto vectors = [&](Tensor x, const Tensor& empty, at::IntArrayRef sizes) {
    if (empty.defined()) x = x.masked_fill(empty, 0);
    return x.expand(sizes).reshape({matrices, -1}).contiguous();
  };
  ScaledPlan result;
  result.columns = vectors(margins.columns, margins.empty_columns, {batch, heads, 1, columns});
  ScalingGoal goal;
  goal.rows =
      vectors(at::ones({1, 1, 1, 1}, plan.options()), margins.empty_rows, {batch, heads, rows, 1});
  goal.columns = result.columns;
  goal.max_iter = options.max_iter;
  goal.tolerance = options.tolerance / options.eps;
  const auto flat = [](const Tensor& x) { return x.flatten(0, 1); };
  result.steps = scale_rows_and_columns(flat(dense), flat(plan), goal);
  // Each half-step after the first is a matrix-vector product.
  const auto products =
      static_cast<std::int64_t>(std::max<std::size_t>(result.steps.size(), 1)) - 1;
  const OwnKernelFlops flops("attnlab::Sinkhorn", products * plan.numel());
  if (!result.steps.empty()) result.plan = plan;
  return result;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The plan as a function of the logits, for autograd.
struct SinkhornPlan : public torch::autograd::Function<SinkhornPlan> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const ScaledPlan& scaled) {
    context->save_for_backward({logits, scaled.plan, scaled.columns, scaled.visible});
    context->saved_data["steps"] = scaled.steps;
    return scaled.plan;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &logits = saved[0], &plan = saved[1], &grad = gradients[0];
    const std::vector<Tensor> steps = context->saved_data["steps"].toTensorVector();
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      SinkhornOptions same;
      same.max_iter = static_cast<std::int64_t>(steps.size());
      same.tolerance = 0;
      const Tensor composed = plan_by_logs(logits, margins_of(logits, saved[3]), same);
      return {torch::autograd::grad({composed}, {logits}, {grad}, true, /*create_graph=*/true)[0],
              Tensor()};
    }
    const auto flat = [](const Tensor& x) { return x.contiguous().flatten(0, 1).detach(); };
    return {scaling_gradient(flat(plan), steps, saved[2], flat(grad)).view(plan.sizes()), Tensor()};
  }
};

}  // namespace

Tensor sinkhorn_weights(const Tensor& logits, const Tensor& visible,
                        const SinkhornOptions& options) {
  const Margins margins = margins_of(logits, visible);
  Tensor wide = logits.to(at::toOpMathType(logits.scalar_type()));
  if (options.eps != 1) wide = wide / options.eps;
  wide = margins.hide(wide);
  ScaledPlan scaled = plan_by_scalings(wide.detach(), margins, options);
  scaled.visible = visible;
  const bool gradients = at::GradMode::is_enabled() && wide.requires_grad();
  Tensor plan = !scaled.plan.defined() ? plan_by_logs(wide, margins, options)
                : gradients            ? SinkhornPlan::apply(wide, scaled)
                                       : scaled.plan;
  if (options.total == "inverse_n") plan = plan / margins.rows;
  return plan.to(logits.scalar_type());
}

}  // namespace attnlab
