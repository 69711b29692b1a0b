// The loops of a step: see the header.
#include "framework/nn/kernels/update_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/update_loops.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

using updates::MomentumNumbers;
using updates::Piece;
using updates::Squares;
using updates::StepNumbers;

/// Moments of g, stored. @returns m / (square_root sqrt(v) + epsilon).
template <class P>
HWY_INLINE Vec<float> remember(const Piece& to, std::int64_t i, P part, Vec<float> g,
                               const StepNumbers<float>& n) {
  const Vec<float> m =
      hn::MulAdd(load(to.average + i, part), all(n.beta1), hn::Mul(g, all(n.rest1)));
  const Vec<float> v =
      hn::MulAdd(load(to.square + i, part), all(n.beta2), hn::Mul(hn::Mul(g, g), all(n.rest2)));
  store<float>(m, to.average + i, part);
  store<float>(v, to.square + i, part);
  return hn::Div(m, hn::MulAdd(hn::Sqrt(v), all(n.square_root), all(n.epsilon)));
}

void update_adamw(const Piece& to, float keep, const StepNumbers<float>& numbers) {
  const StepNumbers<float> n = numbers;  // a copy: stores cannot reach it
  each_vector<float>(to.count, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> g = hn::Mul(load(to.gradient + i, part), all(n.factor));
    const Vec<float> away = hn::Mul(remember(to, i, part, g, n), all(n.step_size));
    store<float>(hn::MulSub(load(to.parameter + i, part), all(keep), away), to.parameter + i, part);
  });
}

void update_adam(const Piece& to, float decay, const StepNumbers<float>& numbers) {
  const StepNumbers<float> n = numbers;
  each_vector<float>(to.count, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> p = load(to.parameter + i, part);
    const Vec<float> g =
        hn::MulAdd(load(to.gradient + i, part), all(n.factor), hn::Mul(p, all(decay)));
    const Vec<float> direction = remember(to, i, part, g, n);
    store<float>(hn::NegMulAdd(direction, all(n.step_size), p), to.parameter + i, part);
  });
}

void update_sgd(const Piece& to, float factor, float decay, float rate) {
  each_vector<float>(to.count, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> p = load(to.parameter + i, part);
    const Vec<float> g =
        hn::MulAdd(load(to.gradient + i, part), all(factor), hn::Mul(p, all(decay)));
    store<float>(hn::NegMulAdd(all(rate), g, p), to.parameter + i, part);
  });
}

void update_momentum(const Piece& to, const MomentumNumbers& numbers) {
  const MomentumNumbers n = numbers;
  each_vector<float>(to.count, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> p = load(to.parameter + i, part);
    const Vec<float> g =
        hn::MulAdd(load(to.gradient + i, part), all(n.factor), hn::Mul(p, all(n.decay)));
    const Vec<float> b = hn::MulAdd(load(to.average + i, part), all(n.momentum), g);
    store<float>(b, to.average + i, part);
    const Vec<float> direction = hn::MulAdd(b, all(n.of_sum), hn::Mul(g, all(n.of_gradient)));
    store<float>(hn::NegMulAdd(all(n.rate), direction, p), to.parameter + i, part);
  });
}

/// Sixteen sums of squares in double, whatever the length of vectors: number i goes to sum i % 16.
class SixteenSums {
 public:
  static constexpr std::int64_t kBlock = 16;

  SixteenSums() {
    for (Vec<double>& sum : sums_) sum = zeros<double>();
  }
  /// @param numbers  sixteen
  HWY_INLINE void add(const float* numbers) {
    const hn::Rebind<float, Tag<double>> half;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const auto from = hn::LoadU(half, numbers + v * kLanes<double>);
      const Vec<double> x = hn::PromoteTo(Tag<double>(), from);
      sums_[v] = hn::MulAdd(x, x, sums_[v]);
    }
  }
  /// `start`, and the sums in order.
  HWY_INLINE double total(double start = 0) const {
    double each[kBlock];
    for (std::int64_t v = 0; v < kVectors; ++v) {
      store<double>(sums_[v], each + v * kLanes<double>, Whole());
    }
    for (const double sum : each) start += sum;
    return start;
  }

 private:
  static constexpr std::int64_t kVectors = kBlock / kLanes<double>;
  Vec<double> sums_[kVectors];
};

/// LAMB's u; the step size is 1 / (1 - b1^t).
HWY_INLINE Vec<float> lamb_direction(Vec<float> p, Vec<float> ratio, float decay,
                                     const StepNumbers<float>& n) {
  return hn::MulAdd(ratio, all(n.step_size), hn::Mul(p, all(decay)));
}

Squares lamb_squares(const Piece& to, float decay, const StepNumbers<float>& numbers) {
  const StepNumbers<float> n = numbers;
  SixteenSums of_parameter, of_direction;
  for (std::int64_t begin = 0; begin < to.count; begin += SixteenSums::kBlock) {
    float parameters[SixteenSums::kBlock] = {}, directions[SixteenSums::kBlock] = {};
    const std::int64_t count = std::min(SixteenSums::kBlock, to.count - begin);
    each_vector<float>(count, [&](std::int64_t i, auto part) HWY_ATTR {
      const Vec<float> p = load(to.parameter + begin + i, part);
      const Vec<float> g = hn::Mul(load(to.gradient + begin + i, part), all(n.factor));
      const Vec<float> ratio = remember(to, begin + i, part, g, n);
      store<float>(p, parameters + i, part);
      store<float>(lamb_direction(p, ratio, decay, n), directions + i, part);
    });
    of_parameter.add(parameters);
    of_direction.add(directions);
  }
  return {of_parameter.total(), of_direction.total()};
}

void update_lamb(const Piece& to, float decay, float rate, const StepNumbers<float>& numbers) {
  const StepNumbers<float> n = numbers;
  each_vector<float>(to.count, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> p = load(to.parameter + i, part);
    const Vec<float> root = hn::Sqrt(load(to.square + i, part));
    const Vec<float> ratio =
        hn::Div(load(to.average + i, part), hn::MulAdd(root, all(n.square_root), all(n.epsilon)));
    store<float>(hn::NegMulAdd(lamb_direction(p, ratio, decay, n), all(rate), p), to.parameter + i,
                 part);
  });
}

double squares_of_floats(const float* values, std::int64_t count) {
  SixteenSums sums;
  std::int64_t i = 0;
  for (; i + SixteenSums::kBlock <= count; i += SixteenSums::kBlock) sums.add(values + i);
  double rest = 0;
  for (; i < count; ++i) rest += double(values[i]) * double(values[i]);
  return sums.total(rest);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {

HWY_EXPORT(update_adamw);
HWY_EXPORT(update_adam);
HWY_EXPORT(update_sgd);
HWY_EXPORT(update_momentum);
HWY_EXPORT(lamb_squares);
HWY_EXPORT(update_lamb);
HWY_EXPORT(squares_of_floats);

namespace updates {

void adamw(const Piece& piece, float keep, const StepNumbers<float>& numbers) {
  ATTNLAB_DISPATCH(update_adamw)(piece, keep, numbers);
}
void adam(const Piece& piece, float decay, const StepNumbers<float>& numbers) {
  ATTNLAB_DISPATCH(update_adam)(piece, decay, numbers);
}
void sgd(const Piece& piece, float factor, float decay, float rate) {
  ATTNLAB_DISPATCH(update_sgd)(piece, factor, decay, rate);
}
void momentum(const Piece& piece, const MomentumNumbers& numbers) {
  ATTNLAB_DISPATCH(update_momentum)(piece, numbers);
}
Squares prepare_lamb(const Piece& piece, float decay, const StepNumbers<float>& numbers) {
  return ATTNLAB_DISPATCH(lamb_squares)(piece, decay, numbers);
}
void finish_lamb(const Piece& piece, float decay, float rate, const StepNumbers<float>& numbers) {
  ATTNLAB_DISPATCH(update_lamb)(piece, decay, rate, numbers);
}
double sum_of_squares(const float* values, std::int64_t count) {
  return ATTNLAB_DISPATCH(squares_of_floats)(values, count);
}

}  // namespace updates
}  // namespace attnlab
#endif
