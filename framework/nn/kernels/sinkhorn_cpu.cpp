// Sinkhorn's half-steps by scalings: see the header.
#include "framework/nn/kernels/sinkhorn_cpu.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/nn/kernels/row_kernels.h"

namespace attnlab {
namespace {

using rows::add_scaled;
using rows::dot;

// Rows that share one vector of column sums. Blocks do not depend on the number of threads, so
// sums do not either.
constexpr std::int64_t kBlockRows = 64;
// Numbers of K below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;
// Bytes of K between one softmax and the column sums that follow: a core's second-level cache.
constexpr std::int64_t kGroupBytes = 256 * 1024;

/// N matrices [R, C], cut into blocks of rows.
struct Grid {
  std::int64_t matrices, rows, columns, blocks;

  explicit Grid(const Tensor& k)
      : matrices(k.size(0)),
        rows(k.size(1)),
        columns(k.size(2)),
        blocks((rows + kBlockRows - 1) / kBlockRows) {}

  /// The first row, among all N R, of a block.
  std::int64_t row_of(std::int64_t block) const {
    return block / blocks * rows + block % blocks * kBlockRows;
  }

  /// Calls work(row among all N R, its matrix, sums) in parallel, where `sums` is the block's own
  /// vector [C], zeros at first. @returns [N, C], the sum of all blocks' vectors.
  template <class T, class Work>
  Tensor sum_rows(const Work& work) const {
    return sum_groups<T>(
        1, [](std::int64_t, std::int64_t) {}, work);
  }

  /// The same; before the rows of each group of blocks, prepare(first row, past the last row).
  template <class T, class Prepare, class Work>
  Tensor sum_groups(std::int64_t group, const Prepare& prepare, const Work& work) const {
    const Tensor parts = at::zeros({matrices, blocks, columns}, c10::CppTypeToScalarType<T>::value);
    T* sums = parts.data_ptr<T>();
    const std::int64_t size = std::min(rows, kBlockRows) * columns;
    const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / size);
    at::parallel_for(0, matrices * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        if ((block - begin) % group == 0) {
          prepare(row_of(block), row_of(std::min(block + group, end)));
        }
        const std::int64_t matrix = block / blocks;
        const std::int64_t past = std::min(row_of(block) + kBlockRows, (matrix + 1) * rows);
        for (std::int64_t row = row_of(block); row < past; ++row) {
          work(row, matrix, sums + block * columns);
        }
      }
    });
    return blocks == 1 ? parts.squeeze(1) : parts.sum(1);
  }
};

/// above / below, and 0 where `above` is 0.
template <class T>
Tensor quotient(const Tensor& above, const Tensor& below) {
  Tensor result = at::empty(above.sizes(), above.options());
  const T* x = above.data_ptr<T>();
  const T* y = below.data_ptr<T>();
  T* out = result.data_ptr<T>();
  for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = x[i] == 0 ? T(0) : x[i] / y[i];
  return result;
}

/// Whether products of four scalings stay finite, and what underflowed in K stays negligible in
/// P. A scaling of 0 is one of a row or column that takes no part.
template <class T>
bool in_range(const Tensor& scaling) {
  const T limit = std::ldexp(T(1), std::numeric_limits<T>::max_exponent * 7 / 32);
  const T* x = scaling.data_ptr<T>();
  return std::all_of(x, x + scaling.numel(),
                     [&](T v) { return v == 0 || (v >= 1 / limit && v <= limit); });
}

template <class T>
double mean_move(const Tensor& from, const Tensor& to) {
  const T* x = from.data_ptr<T>();
  const T* y = to.data_ptr<T>();
  double sum = 0;
  for (std::int64_t i = 0; i < to.numel(); ++i) {
    if (y[i] != 0) sum += std::abs(std::log(double(y[i]) / double(x[i])));
  }
  return sum / static_cast<double>(to.size(0));
}

template <class T>
class Scaling {
 public:
  Scaling(const Tensor& logits, const Tensor& plan, const ScalingGoal& goal)
      : grid_(logits),
        logits_(logits),
        plan_(plan),
        k_(plan.data_ptr<T>()),
        goal_(goal),
        sums_of_logits_(at::empty(goal.rows.sizes(), goal.rows.options())) {}

  std::vector<Tensor> run() {
    std::vector<Tensor> steps = {goal_.rows};
    Tensor sums = softmax_step();
    if (first_move() < goal_.tolerance) return {};
    for (std::int64_t t = 1; t < goal_.max_iter; t += 2) {
      steps.push_back(quotient<T>(goal_.columns, sums));
      if (!in_range<T>(steps.back())) return {};
      if (t + 1 == goal_.max_iter) break;
      const bool last = t + 2 == goal_.max_iter;
      steps.push_back(row_step(steps.back(), last, sums));
      if (!in_range<T>(steps.back())) return {};
      if (last) return steps;
      if (mean_move<T>(steps[t - 1], steps[t + 1]) < goal_.tolerance) break;
    }
    write_plan(steps);
    return steps;
  }

 private:
  /// K = softmax(logits), its column sums, and the rows' log-sum-exps.
  Tensor softmax_step() {
    const std::int64_t columns = grid_.columns;
    const Tensor from = logits_.view({-1, columns}), to = plan_.view({-1, columns});
    const T* logits = logits_.data_ptr<T>();
    const T* goals = goal_.rows.data_ptr<T>();
    T* log_sums = sums_of_logits_.data_ptr<T>();
    const std::int64_t block = kBlockRows * columns * static_cast<std::int64_t>(sizeof(T));
    return grid_.template sum_groups<T>(
        std::max<std::int64_t>(1, kGroupBytes / block),
        [&](std::int64_t first, std::int64_t past) {
          const at::AutoDispatchBelowADInplaceOrView below;  // worker threads would record a graph
          Tensor out = to.narrow(0, first, past - first);
          at::_softmax_out(out, from.narrow(0, first, past - first), -1, false);
        },
        [&](std::int64_t row, std::int64_t, T* own) {
          T* k = k_ + row * columns;
          if (goals[row] == 0) {
            std::fill_n(k, columns, T(0));
            return;
          }
          add_scaled(own, T(1), k, columns);
          // log k = logit - log-sum-exp wherever k did not vanish: at the row's largest, at least.
          const T* seen = std::find_if(k, k + columns, [](T v) { return v > T(1e-30); });
          log_sums[row] = seen == k + columns ? std::numeric_limits<T>::quiet_NaN()
                                              : logits[seen - k_] - std::log(*seen);
        });
  }

  /// How far the first step moves row potentials from 0: the sum over rows, the mean over matrices.
  double first_move() const {
    const T* goals = goal_.rows.data_ptr<T>();
    const T* log_sums = sums_of_logits_.data_ptr<T>();
    double sum = 0;
    for (std::int64_t n = 0; n < grid_.matrices; ++n) {
      const std::int64_t first = n * grid_.rows, past = first + grid_.rows;
      const double log_count =
          std::log(static_cast<double>(grid_.rows - std::count(goals + first, goals + past, T(0))));
      for (std::int64_t i = first; i < past; ++i) {
        if (goals[i] != 0) sum += std::abs(double(log_sums[i]) + log_count);
      }
    }
    return sum / static_cast<double>(grid_.matrices);
  }

  /// a = 1 / (K b) and the column sums of diag(a) K; the last step writes P instead.
  Tensor row_step(const Tensor& b, bool last, Tensor& sums) {
    const std::int64_t columns = grid_.columns;
    Tensor a = at::empty(goal_.rows.sizes(), goal_.rows.options());
    const T* goals = goal_.rows.data_ptr<T>();
    T* to = a.data_ptr<T>();
    const T* with = b.data_ptr<T>();
    sums = grid_.template sum_rows<T>([&](std::int64_t row, std::int64_t matrix, T* own) {
      T* k = k_ + row * columns;
      const T* scaling = with + matrix * columns;
      to[row] = goals[row] == 0 ? T(0) : goals[row] / dot(k, scaling, columns);
      if (last) {
        rows::scale_by(k, to[row], scaling, columns);
      } else {
        add_scaled(own, to[row], k, columns);
      }
    });
    return a;
  }

  void write_plan(const std::vector<Tensor>& steps) {
    const bool ends_on_rows = steps.size() % 2 == 1;
    const T* b = steps[steps.size() - (ends_on_rows ? 2 : 1)].template data_ptr<T>();
    const T* a = steps[steps.size() - (ends_on_rows ? 1 : 2)].template data_ptr<T>();
    grid_.template sum_rows<T>([&](std::int64_t row, std::int64_t matrix, T*) {
      rows::scale_by(k_ + row * grid_.columns, a[row], b + matrix * grid_.columns, grid_.columns);
    });
  }

  Grid grid_;
  Tensor logits_, plan_;
  T* k_;
  const ScalingGoal& goal_;
  Tensor sums_of_logits_;  ///< [N, R]: log-sum-exp of each row
};

/// The adjoint recursion. With f = log a and g = log b, each half-step's own plan is
/// P^t = diag(a^t / a) P diag(b^t / b); a row step gives df -> dg -= P^tᵀ df and df = 0, a column
/// step dg -> df -= P^t (dg / c) and dg = 0, and each its term of rank one.
template <class T>
class Adjoint {
 public:
  Adjoint(const Tensor& plan, const std::vector<Tensor>& steps, const Tensor& columns,
          const Tensor& grad)
      : grid_(plan),
        plan_(plan.data_ptr<T>()),
        grad_(grad.data_ptr<T>()),
        goal_(columns),
        count_(static_cast<std::int64_t>(steps.size())),
        x_(count_),
        y_(count_) {
    const std::int64_t last_row = count_ - (count_ % 2 == 1 ? 1 : 2);
    const std::int64_t last_column = count_ - (count_ % 2 == 0 ? 1 : 2);
    // What the step did not set is what the step before it had set; at first b is 1.
    for (std::int64_t t = 0; t < count_; ++t) {
      const std::int64_t a = t - t % 2, b = t - 1 + t % 2;
      x_[t] = quotient<T>(steps[a], steps[last_row]);
      const Tensor before = b < 0 ? (columns != 0).to(columns.scalar_type()) : steps[b];
      y_[t] = quotient<T>(before, steps[last_column]);
    }
  }

  Tensor run() {
    Tensor out = at::empty({grid_.matrices, grid_.rows, grid_.columns}, goal_.options());
    Tensor for_rows, for_columns = first_pass(for_rows);
    for (std::int64_t t = last_column_step(); t > 0; t -= 2) {
      y_[t] = y_[t] * quotient<T>(for_columns, goal_);
      if (t == 1) {
        for (std::int64_t s = 0; s < count_; ++s) {
          terms_.emplace_back(x_[s].template data_ptr<T>(), y_[s].template data_ptr<T>());
        }
      }
      for_columns = two_steps(t, for_rows, t == 1 ? out.data_ptr<T>() : nullptr);
      if (t > 1) for_columns = -(for_columns * y_[t - 1]);
      for_rows = Tensor();
    }
    return out;
  }

 private:
  std::int64_t last_column_step() const { return count_ - (count_ % 2 == 0 ? 1 : 2); }

  /// The gradients of the last potentials, and the last half-step where it is one of rows.
  /// @param for_rows  set to df where the last half-step is one of columns.
  Tensor first_pass(Tensor& for_rows) {
    const bool ends_on_rows = count_ % 2 == 1;
    const Tensor sums = at::empty({grid_.matrices, grid_.rows}, goal_.options());
    T* df = sums.data_ptr<T>();
    (ends_on_rows ? x_[count_ - 1] : for_rows) = sums;
    return grid_.template sum_rows<T>([&](std::int64_t row, std::int64_t, T* dg) {
      const T* p = plan_ + row * grid_.columns;
      const T* g = grad_ + row * grid_.columns;
      df[row] = dot(p, g, grid_.columns);
      const T x = ends_on_rows ? df[row] : T(0);
      rows::add_weighted_difference(dg, p, g, x, grid_.columns);
    });
  }

  /// Column step t and row step t - 1. @param out  where t is 1: the gradient, now complete.
  /// @returns [N, C]: Pᵀ x^{t-1}, of no meaning where t is 1.
  Tensor two_steps(std::int64_t t, const Tensor& for_rows, T* out) {
    const T* df = for_rows.defined() ? for_rows.template data_ptr<T>() : nullptr;
    const T* y = y_[t].template data_ptr<T>();
    T* x = x_[t - 1].template data_ptr<T>();  // the ratio of this step's rows, then x^{t-1}
    return grid_.template sum_rows<T>([&](std::int64_t row, std::int64_t matrix, T* sums) {
      const T* p = plan_ + row * grid_.columns;
      const T along = x[row] * dot(p, y + matrix * grid_.columns, grid_.columns);
      x[row] *= (df == nullptr ? T(0) : df[row]) - along;
      if (out == nullptr) {
        add_scaled(sums, x[row], p, grid_.columns);
      } else {
        write_row(row, matrix, out + row * grid_.columns);
      }
    });
  }

  /// P ∘ (G - sum_t x^t y^tᵀ), two terms at a time.
  void write_row(std::int64_t row, std::int64_t matrix, T* out) const {
    const std::int64_t columns = grid_.columns, place = matrix * columns;
    const T* from = grad_ + row * columns;
    const T* p = plan_ + row * columns;
    for (std::size_t t = 0; t < terms_.size(); t += 2) {
      const bool pair = t + 1 < terms_.size();
      const auto& [x, y] = terms_[t];
      const auto& [x_next, y_next] = terms_[pair ? t + 1 : t];
      const T a = x[row], b = pair ? x_next[row] : T(0);
      const T* const by = t + 2 < terms_.size() ? nullptr : p;
      rows::subtract_terms(out, rows::TwoTerms<T>{by, from, a, y + place, b, y_next + place},
                           columns);
      from = out;
    }
  }

  Grid grid_;
  const T* plan_;
  const T* grad_;
  Tensor goal_;
  std::int64_t count_;
  std::vector<Tensor> x_, y_;
  std::vector<std::pair<const T*, const T*>> terms_;  ///< x_ and y_, once complete
};

}  // namespace

std::vector<Tensor> scale_rows_and_columns(const Tensor& logits, const Tensor& plan,
                                           const ScalingGoal& goal) {
  std::vector<Tensor> steps;
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "sinkhorn",
                             [&] { steps = Scaling<scalar_t>(logits, plan, goal).run(); });
  return steps;
}

Tensor scaling_gradient(const Tensor& plan, const std::vector<Tensor>& steps, const Tensor& columns,
                        const Tensor& grad) {
  Tensor out;
  AT_DISPATCH_FLOATING_TYPES(plan.scalar_type(), "sinkhorn_backward",
                             [&] { out = Adjoint<scalar_t>(plan, steps, columns, grad).run(); });
  return out;
}

}  // namespace attnlab
