// A rule for rows (row_rule.h) in vectors. Include it first of what is compiled for each
// instruction set, after the names below; it needs Highway's headers (Debian: libhwy-dev), and its
// library linked.
//
//   #include "framework/nn/kernels/row_rule.h"
//   ...
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "FILE.cpp"  // the file itself, as it is found in include folders
//   #include "framework/nn/kernels/row_rule-inl.h"
//
//   namespace my_lab { attnlab::RowRule& squared_rule(); }  // before its first use
//   HWY_BEFORE_NAMESPACE();
//   namespace attnlab::HWY_NAMESPACE {
//   struct Squared {
//     template <class T>
//     static HWY_INLINE Vec<T> value(Vec<T> l) { return hn::Mul(l, l); }
//     /// f' at l, where f is the second.
//     template <class T>
//     static HWY_INLINE Vec<T> slope(Vec<T> l, Vec<T>) { return hn::Add(l, l); }
//   };
//   const RowRulePart squared(my_lab::squared_rule(), kRowRuleSet<Squared>);
//   }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   attnlab::RowRule& my_lab::squared_rule() {
//     static attnlab::RowRule rule{[](const attnlab::Tensor& l) { return l.square(); }};
//     return rule;
//   }
//   ... the plugin ...
//   #endif
//
// Vec, load, all, zeros, exponential and others: vectors-inl.h. Hidden pairs are weighed too, and
// their weights then left out, so that any number may come; let those that are not numbers stay so.
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/row_rule.h"
#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_ROW_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_ROW_RULE_INL_H_
#undef ATTNLAB_ROW_RULE_INL_H_
#else
#define ATTNLAB_ROW_RULE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

template <class Rule, class T>
void weigh_row(T* row, std::int64_t count, T c) {
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> value = Rule::template value<T>(load(row + j, part));
    store<T>(hn::Mul(value, all(c)), row + j, part);
  });
}

template <class Rule, class T>
void differentiate_weights(T* row, T* grad, std::int64_t count, T c) {
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> l = load(row + j, part), value = Rule::template value<T>(l);
    const Vec<T> slope = Rule::template slope<T>(l, value);
    store<T>(hn::Mul(value, all(c)), row + j, part);
    store<T>(hn::Mul(hn::Mul(slope, all(c)), load(grad + j, part)), grad + j, part);
  });
}

/// The loops of a rule. A constant: nothing of a set may run while a library loads.
template <class Rule>
inline constexpr RowRuleSet kRowRuleSet{
    HWY_TARGET,
    {weigh_row<Rule, float>, differentiate_weights<Rule, float>},
    {weigh_row<Rule, double>, differentiate_weights<Rule, double>}};

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
