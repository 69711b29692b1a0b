// Weights that each pair has by itself: no largest number of a row, no sum.
//
//   w_ij = c_i f(l_ij + a_i)
//
// f is written once, as a number and its slope in vectors (row_rule-inl.h), and compiled for every
// instruction set; the kernel of block_attention.h does the rest: products, masks, dropout,
// gradients, in memory that is linear in the length.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Loops over a row, in place.
template <class T>
struct RowLoops {
  /// l -> c f(l)
  void (*weigh)(T* row, std::int64_t count, T c);
  /// l -> c f(l) in `row`, dw -> dl = c f'(l) dw in `grad`
  void (*differentiate)(T* row, T* grad, std::int64_t count, T c);
};

/// A rule's loops for one instruction set.
struct RowRuleSet {
  std::int64_t set;  ///< Highway's bit
  RowLoops<float> floats;
  RowLoops<double> doubles;
};

struct RowRule {
  /// f as operations that autograd can follow: the explicit form.
  Tensor (*composed)(const Tensor& logits);
  std::vector<const RowRuleSet*> sets = {};  ///< filled as its library loads

  /// The loops for the best instruction set that kernels run with.
  const RowRuleSet& best() const;
};

/// What a file that is compiled for each instruction set has once in each:
///   const RowRulePart part(my_rule(), kRowRuleSet<MyRule>);
class RowRulePart {
 public:
  RowRulePart(RowRule& rule, const RowRuleSet& set);
};

/// A rule as it is asked for.
struct RowWeights {
  const RowRule* rule = nullptr;  ///< null: weights are not by a rule
  Tensor shift = {};   ///< a, [B or 1, H or 1, Lq or 1, 1], without a graph; undefined: 0
  Tensor factor = {};  ///< c, likewise; undefined: 1

  /// The weights by operations.
  /// @param logits  [B, H, Lq, Lk], without a
  /// @param hidden  bool, broadcastable to them, true = may not see; undefined: all may
  Tensor of(const Tensor& logits, const Tensor& hidden) const;
};

/// f = σ, the logistic function.
RowRule& sigmoid_rule();

}  // namespace attnlab
