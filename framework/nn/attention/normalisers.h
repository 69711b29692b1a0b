// Normalisers of logits beside softmax: sigmoid, Sinkhorn's and the power of the number of keys.
//
// Logits are [B, H, Lq, Lk] floating point, already scaled and biased. `visible` is bool,
// broadcastable to them, true = may see; undefined = all may. Hidden pairs get weight 0, so a row
// that sees nothing is all zeros, and neither they nor padding count as keys: n is the number of
// keys that a query may see. Padding therefore equals absence, and a causal prefix equals the
// prefix alone; public code takes the length of the whole sequence. All are differentiable twice.
#pragma once

#include <string>

#include "framework/config/options.h"
#include "framework/contracts/attention.h"
#include "framework/nn/kernels/row_rule.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

/// How many keys each query sees.
/// @param logits  [B, H, Lq, Lk]; only its shape, dtype and device are read.
/// @returns broadcastable to [B, H, Lq, 1], of the logits' dtype or float32, whichever is wider.
Tensor visible_counts(const Tensor& visible, const Tensor& logits);

/// The same of an input that is not ragged, in the queries' dtype, without a tensor of all pairs
/// where the input gives none. Padding queries count as others.
/// @returns [B or 1, H or 1, Lq or 1, 1].
Tensor visible_counts(const AttentionInput& input);

struct SigmoidOptions {
  std::string bias = "minus_log_n";
  double constant = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("bias", bias, one_of("minus_log_n", "constant"),
      "added to the logits: -log of the number of visible keys (Ramapuram et al. 2024), or a "
      "constant (the robustness paper's code)");
    v("constant", constant, "the bias if it is constant");
  }
};

/// sigma(logits + b), b = -log n or a constant. Each weight is its own: rows do not compete.
/// Source: Ramapuram et al. 2024, "Theory, analysis, and best practices for sigmoid
/// self-attention".
RowWeights sigmoid_weights(const AttentionInput& input, const SigmoidOptions& options);

struct SinkhornOptions {
  std::int64_t max_iter = 3;
  double eps = 1;
  double tolerance = 0;
  std::string total = "one";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("max_iter", max_iter, range(1, 10000), "half-steps: rows, columns, rows, ...");
    v("eps", eps, range(1e-6, 1e6), "temperature: divides the logits");
    v("tolerance", tolerance, at_least(0),
      "stop after a row step that changes the row potentials by less than this (sum over rows, "
      "mean over examples and heads: examples of a batch depend on each other); 0: never");
    v("total", total, one_of("one", "inverse_n"),
      "what a row sums to: one (the paper), or 1 / the number of rows (the paper's code)");
  }
};

/// Sinkhorn's doubly stochastic weights. With u = v = 0 at first, mu_i = 1 / R and nu_j = 1 / C,
/// where R rows see something and C columns are seen, half-steps alternate:
///   u_i <- eps (log mu_i - LSE_j((l_ij + u_i + v_j) / eps)) + u_i     (rows)
///   v_j <- eps (log nu_j - LSE_i((l_ij + u_i + v_j) / eps)) + v_j     (columns)
///   P_ij = exp((l_ij + u_i + v_j) / eps), times R where `total` is "one".
/// The side that came last is exact, the other approximate: rows sum to 1, columns to R / C (each
/// over R for "inverse_n"). One half-step with eps 1 is softmax. The stop is looked for after row
/// steps alone, over the whole batch given, as public code does it (with 1e-6, or 1e-12). A result
/// then depends on who else is in the batch; with `tolerance` 0, the default, it does not.
/// Gradients flow through all steps.
/// @returns the weights, of the logits' shape and dtype (computed in float32 where that is wider).
/// Source: Sander et al. 2022 (Sinkformers); protocol of "Your attention matters". Cost: on the
/// CPU a softmax and half a pass over the weights for each half-step; elsewhere and where the
/// potentials leave the range of the dtype, a log-sum-exp for each.
Tensor sinkhorn_weights(const Tensor& logits, const Tensor& visible,
                        const SinkhornOptions& options);

struct PowerOptions {
  double init = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("init", init, range(-30, 30), "initial m: logits are divided by n^sigmoid(m)");
  }
};

/// logits / n^sigmoid(m_h), with one learned m for each head.
/// Source: Mongaras et al. 2024 (Cottention).
class PowerNormaliser : public torch::nn::Module {
 public:
  PowerNormaliser(const PowerOptions& options, std::int64_t heads);

  /// @returns the weights, of the logits' shape and dtype.
  Tensor forward(const Tensor& logits, const Tensor& visible) const;
  /// n^-sigmoid(m_h), for what has summed over the keys already.
  /// @param counts  n, broadcastable to [B, H, Lq, 1], float32 or float64; where 0, taken for 1.
  /// @returns [.., H, .., 1] of the counts' dtype.
  Tensor factor(const Tensor& counts) const;

  Tensor m;  ///< [heads]
};

}  // namespace attnlab
