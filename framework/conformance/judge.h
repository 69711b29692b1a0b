// What checks say about numbers: comparisons whose messages name the worst element.
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab::conformance {

/// The mechanism breaks the contract.
class Failure : public Error {
 public:
  using Error::Error;
};

/// The check does not apply: a trait is not declared.
class NotApplicable : public Error {
 public:
  using Error::Error;
};

/// The machine lacks what the check needs.
class Skipped : public Error {
 public:
  using Error::Error;
};

/// Largest difference in float64 between two ways to the same number, times the larger of 1 and the
/// largest expected number.
inline constexpr double kExact = 1e-9;

/// The same where examples or sequences are computed together and one by one: an iteration may stop
/// when a mean over the batch has settled.
inline constexpr double kRegrouped = 1e-5;

/// @throws Failure when false.
void expect(bool holds, const std::string& otherwise);

/// @throws Failure unless shapes are equal and elements differ by no more than tolerance * max(1,
///   |expected|_max).
/// @param what  what `found` is: "causal: output of layer 1"
void expect_close(const std::string& what, const Tensor& found, const Tensor& expected,
                  double tolerance = kExact);

/// @throws Failure unless shape, dtype and every bit of value agree; NaN equals NaN.
void expect_identical(const std::string& what, const Tensor& found, const Tensor& expected);

/// @throws Failure naming the first element that is infinite or NaN.
void expect_finite(const std::string& what, const Tensor& found);

/// @throws Failure naming the largest element that is not 0.
void expect_zero(const std::string& what, const Tensor& found);

/// The largest |a - b|; infinite where shapes differ, NaN where an element is.
double largest_difference(const Tensor& a, const Tensor& b);

/// "[0, 1, 2]": the place of an element, from its index in the flattened tensor.
std::string place_text(const Tensor& tensor, std::int64_t flat);

}  // namespace attnlab::conformance
