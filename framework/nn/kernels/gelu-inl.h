// The normal distribution that GELU and its gradient are made of.
//
//   P(N <= -|x|) = e^(-x²/2) t Q(t),   t = 1 / (1 + |x| / sqrt 8)
//
// Q of degree 8 meets e^(z²) erfc(z) / 2t, z = |x| / sqrt 2 in [0, 10], at Chebyshev's points: its
// relative error is 5e-8. The exponential serves the density of the gradient as well.
#include <hwy/highway.h>

#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_GELU_INL_H_
#undef ATTNLAB_GELU_INL_H_
#else
#define ATTNLAB_GELU_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

struct Normal {
  Vec<float> below;  ///< P(N <= x)
  Vec<float> bell;   ///< e^(-x²/2)
};

HWY_INLINE Normal normal_at(Vec<float> x) {
  constexpr float kQ[] = {0.141041337F, 0.141222521F,  0.121286446F, 0.102426828F,  -0.0159208788F,
                          0.142848855F, -0.246931825F, 0.143884155F, -0.0298574595F};
  const Vec<float> size = hn::Abs(x);
  const Vec<float> bell = exponential(hn::Mul(hn::Mul(x, x), all(-0.5F)));
  const Vec<float> t = hn::Div(all(1.F), hn::MulAdd(size, all(0.353553390593F), all(1.F)));
  Vec<float> q = all(kQ[8]);
  for (int i = 7; i >= 0; --i) q = hn::MulAdd(q, t, all(kQ[i]));
  const Vec<float> tail = hn::Mul(hn::Mul(bell, t), q);
  return {hn::IfThenElse(hn::Lt(x, zeros<float>()), tail, hn::Sub(all(1.F), tail)), bell};
}

/// P(N <= x) + x e^(-x²/2) / sqrt(2 pi)
HWY_INLINE Vec<float> slope_at(Vec<float> x, const Normal& normal) {
  return hn::MulAdd(x, hn::Mul(normal.bell, all(0.398942280401F)), normal.below);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
