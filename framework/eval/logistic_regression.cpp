#include "framework/eval/logistic_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace attnlab {
namespace {

constexpr std::int64_t kLogitRows = 8192;  // whose logits are in memory at once
constexpr std::size_t kHistory = 10;
constexpr int kTries = 40;  // of a step's length
constexpr double kDecrease = 1e-4, kCurvature = 0.9, kRounding = 1e-14;

struct Value {
  double loss = 0;
  Tensor gradient;  ///< as the parameters
};

/// f of parameters [K, C + 1], whose last column is b.
class Objective {
 public:
  Objective(const Tensor& features, const Tensor& classes, std::int64_t count,
            const LogisticOptions& options)
      : options_(options), classes_(classes), count_(count) {
    const Tensor x = features.to(at::kDouble);
    inputs_ = at::cat({x, at::full({x.size(0), 1}, options.bias ? 1.0 : 0.0, x.options())}, 1);
  }

  Value at(const Tensor& parameters) const {
    const auto rows = inputs_.size(0);
    Tensor gradient = at::zeros_like(parameters);
    double loss = 0;
    for (std::int64_t first = 0; first < rows; first += kLogitRows) {
      const std::int64_t size = std::min(kLogitRows, rows - first);
      const Tensor x = inputs_.narrow(0, first, size);
      const Tensor own = classes_.narrow(0, first, size).view({-1, 1});
      const Tensor log_shares = at::log_softmax(at::matmul(x, parameters.t()), 1);
      loss -= log_shares.gather(1, own).sum().item<double>();
      Tensor shares = log_shares.exp();
      shares.scatter_add_(1, own, at::full_like(own, -1, shares.options()));
      gradient.addmm_(shares.t(), x);
    }
    const auto n = static_cast<double>(rows);
    const Tensor weight = parameters.narrow(1, 0, parameters.size(1) - 1);
    gradient.div_(n);
    gradient.narrow(1, 0, weight.size(1)).add_(weight, options_.penalty);
    return {loss / n + options_.penalty / 2 * weight.square().sum().item<double>(), gradient};
  }

  Tensor start(const LogisticFit* from) const {
    Tensor parameters = at::zeros({count_, inputs_.size(1)}, at::kDouble);
    if (from == nullptr) return parameters;
    parameters.narrow(1, 0, inputs_.size(1) - 1).copy_(from->weight);
    parameters.select(1, inputs_.size(1) - 1).copy_(from->bias);
    return parameters;
  }

 private:
  const LogisticOptions& options_;
  Tensor classes_, inputs_;
  std::int64_t count_;
};

double product(const Tensor& a, const Tensor& b) { return (a * b).sum().item<double>(); }

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

/// The last steps, of which the inverse of the second derivatives is guessed.
class History {
 public:
  void add(const Tensor& step, const Tensor& change) {
    const double curvature = product(step, change);
    if (!(curvature > 0)) return;
    pairs_.push_back({step, change, curvature});
    if (pairs_.size() > kHistory) pairs_.pop_front();
  }
  void clear() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

  /// Where to go from a gradient.
  Tensor direction(const Tensor& gradient) const {
    Tensor q = gradient.clone();
    std::vector<double> shares(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      shares[i] = product(pairs_[i].step, q) / pairs_[i].curvature;
      q.sub_(pairs_[i].change, shares[i]);
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      q.mul_(last.curvature / product(last.change, last.change));
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double back = product(pairs_[i].change, q) / pairs_[i].curvature;
      q.add_(pairs_[i].step, shares[i] - back);
    }
    return q.neg();
  }

 private:
  struct Pair {
    Tensor step, change;
    double curvature;
  };
  std::deque<Pair> pairs_;
};

/// Where a search along a direction ends.
struct Found {
  Tensor parameters;
  Value value;
  bool good = false;  ///< it is lower
};

Found search(const Objective& objective, const Tensor& from, const Value& before,
             const Tensor& direction, double length) {
  const double slope = product(before.gradient, direction);
  double low = 0, high = std::numeric_limits<double>::infinity();
  Found found;
  for (int i = 0; i < kTries; ++i) {
    found.parameters = from + length * direction;
    found.value = objective.at(found.parameters);
    const double along = product(found.value.gradient, direction);
    const bool lower = found.value.loss <= before.loss + kDecrease * length * slope;
    // Near the end what is gained drowns in rounding, and slopes say more than losses.
    const bool as_low = found.value.loss <= before.loss + kRounding * std::abs(before.loss) &&
                        along <= (2 * kDecrease - 1) * slope;
    if (!lower && !as_low) {
      high = length;
    } else if (along < kCurvature * slope) {
      low = length;
    } else {
      found.good = true;
      return found;
    }
    length = std::isinf(high) ? 2 * length : (low + high) / 2;
  }
  found.good = found.value.loss < before.loss;
  return found;
}

}  // namespace

Tensor LogisticFit::logits(const Tensor& features) const {
  return at::addmm(bias, features.to(at::kDouble), weight.t());
}

LogisticFit fit_logistic(const Tensor& features, const Tensor& classes, std::int64_t count,
                         const LogisticOptions& options, const LogisticFit* start) {
  if (features.dim() != 2 || classes.dim() != 1 || features.size(0) != classes.size(0) ||
      features.size(0) < 1) {
    throw ShapeError(
        fmt::format("logistic regression: expected features [N, C] and classes [N], "
                    "got {} and {}",
                    describe(features), describe(classes)));
  }
  const Objective objective(features, classes, count, options);
  Tensor parameters = objective.start(start);
  Value value = objective.at(parameters);
  History history;
  LogisticFit fit;
  while (fit.iterations < options.iterations && largest(value.gradient) > options.tolerance) {
    const Tensor direction = history.direction(value.gradient);
    const double first = 1 / std::max(1e-12, value.gradient.norm().item<double>());
    const Found next = search(objective, parameters, value, direction, history.empty() ? first : 1);
    ++fit.iterations;
    if (!next.good) {
      if (history.empty()) break;  // as low as rounding lets it be
      history.clear();
      continue;
    }
    history.add(next.parameters - parameters, next.value.gradient - value.gradient);
    parameters = next.parameters;
    value = next.value;
  }
  fit.weight = parameters.narrow(1, 0, parameters.size(1) - 1).clone();
  fit.bias = parameters.select(1, parameters.size(1) - 1).clone();
  fit.loss = value.loss;
  fit.gradient = largest(value.gradient);
  return fit;
}

}  // namespace attnlab
