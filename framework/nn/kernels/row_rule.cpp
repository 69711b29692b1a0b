// Rules for rows: see the header.
#include "framework/nn/kernels/row_rule.h"

#include "framework/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/row_rule.cpp"
#include "framework/nn/kernels/row_rule-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

struct Sigmoid {
  template <class T>
  static HWY_INLINE Vec<T> value(Vec<T> l) {
    const Vec<T> one = all(T(1)), e = exponential(hn::Neg(hn::Abs(l)));
    const Vec<T> above = hn::Div(one, hn::Add(one, e));
    return hn::IfThenElse(hn::Lt(l, zeros<T>()), hn::Mul(e, above), above);
  }
  template <class T>
  static HWY_INLINE Vec<T> slope(Vec<T> /*l*/, Vec<T> value) {
    return hn::NegMulAdd(value, value, value);
  }
};
const RowRulePart sigmoid(sigmoid_rule(), kRowRuleSet<Sigmoid>);

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {

RowRule& sigmoid_rule() {
  static RowRule rule{[](const Tensor& l) { return l.sigmoid(); }};
  return rule;
}

RowRulePart::RowRulePart(RowRule& rule, const RowRuleSet& set) { rule.sets.push_back(&set); }

const RowRuleSet& RowRule::best() const {
  const std::int64_t here = kernel_sets();
  const RowRuleSet* best = nullptr;
  for (const RowRuleSet* one : sets) {
    if ((one->set & here) == 0) continue;
    if (best == nullptr || one->set < best->set) best = one;  // better sets have lower bits
  }
  if (best == nullptr) {
    throw PluginError(
        "a rule for rows of weights is compiled for no instruction set of this processor; give it "
        "a RowRulePart in the file that is compiled for each "
        "(framework/nn/kernels/row_rule-inl.h)");
  }
  return *best;
}

Tensor RowWeights::of(const Tensor& logits, const Tensor& hidden) const {
  Tensor weights = rule->composed(shift.defined() ? logits + shift : logits);
  if (factor.defined()) weights = weights * factor;
  return hidden.defined() ? weights.masked_fill(hidden, 0) : weights;
}

}  // namespace attnlab
#endif
