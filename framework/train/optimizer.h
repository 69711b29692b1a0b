// The optimisers: AdamW (Adam with decoupled weight decay) and RAdam (rectified Adam).
//
//   p <- (1 - lr wd) p                              where weight decay applies
//   m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   g = factor * gradient
//
//   AdamW:  p <- p - lr m' / (sqrt(v / (1 - b2^t)) + eps),                m' = m / (1 - b1^t)
//
//   RAdam:  p <- p - lr m' r sqrt(1 - b2^t) / (sqrt(v) + eps)             where rho > 5
//           p <- p - lr m'                                                before
//
//           rho_inf = 2 / (1 - b2) - 1,   rho = rho_inf - 2 t b2^t / (1 - b2^t)
//           r^2 = (rho - 4)(rho - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho)
//
// Source: Loshchilov & Hutter, ICLR 2019 (arXiv:1711.05101); Liu et al., ICLR 2020
// (arXiv:1908.03265), whose weight decay is decoupled too. The numbers are torch's; torch's RAdam
// adds its weight decay to the gradient unless told otherwise, which is the same without decay.
// Cost: float32 parameters on the CPU are updated in one pass over parameter, gradient and both
// moments, by all threads at once; others take some ten tensor operations each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/contracts/model.h"
#include "framework/experiment/experiment.h"

namespace attnlab {

enum class UpdateRule { adamw, radam };

struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  UpdateRule rule = UpdateRule::adamw;
};

/// A parameter by its name in the model, and whether weight decay applies to it.
struct OptimizedParameter {
  std::string name;
  Tensor parameter;
  bool decays = true;
};

class Optimizer {
 public:
  /// @param parameters  floating-point leaves; they share storage with the model's.
  /// @throws ConfigError for settings without meaning, ShapeError for a parameter that is not a
  ///         floating-point tensor, or a name that stands twice.
  Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerSettings& settings);

  /// L2 norm of all gradients together, summed in double; not finite when a gradient is not.
  double gradient_norm() const;

  /// One update. Parameters without a gradient stay as they are.
  /// @param factor  multiplies every gradient: clipping (`clip_factor`), accumulation.
  void step(double factor = 1.0);
  /// Forgets all gradients (they become undefined).
  void zero_grad();

  void set_learning_rate(double learning_rate) { settings_.learning_rate = learning_rate; }
  double learning_rate() const { return settings_.learning_rate; }
  /// Updates made so far.
  std::int64_t steps() const { return steps_; }

  /// `step` [] int64, and `exp_avg.<name>`, `exp_avg_sq.<name>` of every parameter, in its shape.
  /// The moments are the optimiser's own tensors, not copies.
  NamedTensors state() const;
  /// Copies a state in. Nothing is changed when it does not fit.
  /// @throws DataError naming every entry that is missing, of another shape or dtype, or unknown.
  void load_state(const NamedTensors& state);

 private:
  /// A parameter with its moments.
  struct Item {
    std::string name;
    Tensor parameter, average, square;
    bool decays = true;
  };

  void update(Item& item, const Tensor& gradient, double factor);

  std::vector<Item> items_;
  OptimizerSettings settings_;
  std::int64_t steps_ = 0;
};

/// The optimiser that a composition asks for, over all parameters of a model that take gradients.
Optimizer make_optimizer(const Model& model, const OptimizerOptions& options);

/// The factor that brings gradients of norm `norm` down to `max_norm`: min(1, max_norm / (norm +
/// 1e-6)), as torch's clip_grad_norm_. 1 when max_norm is 0 (no clipping).
double clip_factor(double norm, double max_norm);

}  // namespace attnlab
