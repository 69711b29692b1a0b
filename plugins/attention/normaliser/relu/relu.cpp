// ReLU attention: weights are rectified logits, squared or not, over the number of keys.
//
//   Y = relu(Q Kᵀ / √D)^p V / n,   p = 1 or 2,   n the number of keys that a query may see
//
// Against standard attention: keys do not compete, weights of negative logits are exactly zero, and
// rows do not sum to one.
// Wortsman et al. divide by the sequence's length, which they find to matter; relu / n is what they
// recommend (the default), relu² / n is one of the other functions they try (`power: 2`). Here
// hidden keys and padding do not count for n, so that padding equals absence and a causal prefix
// equals the prefix alone. The square comes from the feed-forward layer of Primer (So et al. 2021),
// and FLASH (Hua et al. 2022) took it into attention.
// Source: Wortsman et al. 2023, Replacing softmax with ReLU in Vision Transformers, arXiv
// 2309.08586. Cost: as standard attention; on the CPU in its kernel, without exponentials.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/attention/normaliser/relu/relu.cpp"
#include "framework/nn/kernels/row_rule-inl.h"

namespace attnlab {
namespace {
RowRule& relu_rule();
RowRule& squared_relu_rule();
}  // namespace
}  // namespace attnlab

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

struct Rectified {
  /// (A NaN stays.)
  template <class T>
  static HWY_INLINE Vec<T> value(Vec<T> l) {
    return hn::IfThenZeroElse(hn::Lt(l, zeros<T>()), l);
  }
  template <class T>
  static HWY_INLINE Vec<T> slope(Vec<T> l, Vec<T> /*value*/) {
    return hn::IfThenElseZero(hn::Gt(l, zeros<T>()), all(T(1)));
  }
};

struct SquaredRectified {
  template <class T>
  static HWY_INLINE Vec<T> value(Vec<T> l) {
    const Vec<T> rectified = Rectified::value<T>(l);
    return hn::Mul(rectified, rectified);
  }
  template <class T>
  static HWY_INLINE Vec<T> slope(Vec<T> l, Vec<T> /*value*/) {
    const Vec<T> rectified = Rectified::value<T>(l);
    return hn::Add(rectified, rectified);
  }
};

const RowRulePart rectified(relu_rule(), kRowRuleSet<Rectified>);
const RowRulePart squared(squared_relu_rule(), kRowRuleSet<SquaredRectified>);

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

RowRule& relu_rule() {
  static RowRule rule{[](const Tensor& l) { return l.relu(); }};
  return rule;
}

RowRule& squared_relu_rule() {
  static RowRule rule{[](const Tensor& l) { return l.relu().square(); }};
  return rule;
}

}  // namespace

struct ReluOptions {
  std::int64_t power = 1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("power", power, range(1, 2), "power of the rectified logits: 1 or 2");
  }
};

class Relu final : public DotProductAttention {
 public:
  Relu(const ReluOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::rule}),
        rule_(options.power == 2 ? squared_relu_rule() : relu_rule()) {}

 protected:
  RowWeights row_weights(const AttentionInput& input, AttentionContext&) const override {
    return {&rule_, {}, visible_counts(input).clamp_min_(1).reciprocal_()};
  }

 private:
  const RowRule& rule_;
};

ATTNLAB_PLUGIN(attention, Relu, ReluOptions,
               {.id = "attnlab/relu",
                .version = "1.0.0",
                .summary = "relu(Q Kᵀ / √D) / n V, or relu² / n: keys do not compete",
                .citation = "Wortsman et al. 2023, Replacing softmax with ReLU in Vision "
                            "Transformers, arXiv 2309.08586; So et al. 2021, Primer, arXiv "
                            "2109.08668",
                .licence = "Apache-2.0"})

}  // namespace attnlab
#endif
