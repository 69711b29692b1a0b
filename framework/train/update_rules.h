// The update rules: what a step does with a parameter p, its gradient g and what is remembered.
//
//   g <- factor * gradient
//
//   AdamW, RAdam:  p <- (1 - lr wd) p
//   Adam, SGD:     g <- g + wd p
//
//   m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   m' = m / (1 - b1^t),  v' = v / (1 - b2^t)
//
//   AdamW, Adam:   p <- p - lr m' / (sqrt(v') + eps)
//
//   RAdam:         p <- p - lr m' r sqrt(1 - b2^t) / (sqrt(v) + eps)          where rho > 5
//                  p <- p - lr m'                                             before
//                  rho_inf = 2 / (1 - b2) - 1,   rho = rho_inf - 2 t b2^t / (1 - b2^t)
//                  r^2 = (rho - 4)(rho - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho)
//
//   LAMB:          u = m' / (sqrt(v') + eps) + wd p,   p <- p - lr |p| / |u| u
//                  without |p| / |u| where wd is 0 or one of the norms is
//
//   SGD:           b <- momentum b + g,   p <- p - lr b,   or p <- p - lr (g + momentum b)
//   (Nesterov)
//
// t counts the updates of the parameter itself, so that one which was frozen at first begins
// afresh. Sources: Loshchilov & Hutter, ICLR 2019 (arXiv:1711.05101); Liu et al., ICLR 2020
// (arXiv:1908.03265), with decoupled decay (torch's RAdam adds it to the gradient unless told
// otherwise); Kingma & Ba, ICLR 2015; You et al., ICLR 2020 (arXiv:1904.00962), as NVIDIA's
// FusedLAMB and timm's `lamb` have it: bias correction, no bounds on the ratio, none where nothing
// decays. Adam, AdamW, RAdam and SGD (dampening 0) give torch's numbers. Cost: float32 parameters
// on the CPU are updated in one pass over parameter, gradient and what is remembered (LAMB: two),
// by all threads at once; others take some ten tensor operations each.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

enum class UpdateRule { adamw, radam, adam, sgd, lamb };

/// What stays the same for all steps and parameters.
struct RuleSettings {
  UpdateRule rule = UpdateRule::adamw;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;    ///< of SGD
  bool nesterov = false;  ///< of SGD
};

/// One step of one parameter. Tensors have the parameter's shape and dtype.
struct ParameterUpdate {
  Tensor parameter, gradient;
  Tensor average;  ///< m; b of SGD, undefined where its momentum is 0
  Tensor square;   ///< v; undefined for SGD
  double learning_rate = 0;
  double weight_decay = 0;  ///< 0 where the parameter does not decay
  std::int64_t step = 1;    ///< t: 1 for the parameter's first update
};

/// Whether a tensor is float32 in plain memory of the CPU: each number of such a parameter is
/// updated by itself, wherever it lies (but for LAMB's norms).
bool is_plain_float(const Tensor& tensor);

/// Updates parameters and what is remembered of them in place. The numbers do not depend on the
/// number of threads.
/// @param factor  multiplies every gradient.
void apply_updates(const RuleSettings& settings, const std::vector<ParameterUpdate>& updates,
                   double factor);

/// L2 norm of all tensors together, summed in double; not finite when a number is not.
double norm_of(const std::vector<Tensor>& tensors);

}  // namespace attnlab
